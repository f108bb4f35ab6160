"""Models that ranks share: logits, files and refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import mlx.core as mx
import mlx_lm
import pytest
import sharded_logits
from adapters import write_adapter
from architecture_configs import COMMON
from architectures import small_model
from mlx.utils import tree_flatten
from ranks import run_ranks
from sharded_logits import NOT_COMPARED, PIPELINE, TENSOR

from proxy_engine.distributed.sharding import Sharding, load_sharded
from proxy_engine.distributed.sharding_plan import ImaginedGroup
from proxy_engine.errors import (
    InvalidOptionError,
    ModelFormatError,
    UnsupportedArchitectureError,
)
from proxy_engine.models.load_options import LoadOptions

MAX_DIFFERENCE = 1e-5
"""Of float32 logits, relative to the largest."""

QWEN2 = {**COMMON, "model_type": "qwen2", "num_attention_heads": 3, "num_key_value_heads": 3}
"""A model whose heads do not divide by 2, so that two ranks are a pipeline."""


def differences(cases: Sequence[str]) -> dict[str, float]:
    printed = run_ranks(2, [sharded_logits.__file__, *cases])[0]
    results = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [result["case"] for result in results] == list(cases)
    return {result["case"]: result["difference"] for result in results}


@pytest.fixture
def pipeline_directory(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A qwen2 in four layers, each in a file of its own."""
    directory = tmp_path / "qwen2"
    shutil.copytree(tiny_model_directory, directory)
    (directory / "model.safetensors").unlink()
    (directory / "config.json").write_text(json.dumps(QWEN2), encoding="utf-8")
    model = small_model("qwen2", num_attention_heads=3, num_key_value_heads=3)
    weight_map, files = {}, dict[str, dict[str, mx.array]]()
    for name, weight in tree_flatten(model.parameters()):
        layer = name.split(".")[2] if ".layers." in name else "rest"
        weight_map[name] = f"model-{layer}.safetensors"
        files.setdefault(weight_map[name], {})[name] = weight
    for file, weights in files.items():
        mx.save_safetensors(str(directory / file), weights, {"format": "mlx"})
    index = json.dumps({"weight_map": weight_map})
    (directory / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    return directory


# By default, the tokens of engines are compared: test_session.py.
@pytest.mark.soak
def test_two_ranks_compute_the_logits_of_one_process(
    tiny_model_directory: Path, pipeline_directory: Path
) -> None:
    cases = ["llama:tensor:alone", "qwen3:tensor:quantized", "qwen2:pipeline:batch"]
    cases += [f"{directory}::loaded" for directory in (tiny_model_directory, pipeline_directory)]
    assert max(differences(cases).values()) < MAX_DIFFERENCE


@pytest.mark.soak
@pytest.mark.parametrize("scenario", ["alone", "batch", "quantized"])
@pytest.mark.parametrize(("parallelism", "names"), [("tensor", TENSOR), ("pipeline", PIPELINE)])
def test_all_architectures_compute_the_logits_of_one_process(
    parallelism: str, names: Sequence[str], scenario: str
) -> None:
    compared = [name for name in names if f"{name}:{scenario}" not in NOT_COMPARED]
    found = differences([f"{name}:{parallelism}:{scenario}" for name in compared])
    assert not {case: value for case, value in found.items() if not value < MAX_DIFFERENCE}


def test_model_is_refused_before_its_weights_are_read(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    directory = tmp_path / "model"
    shutil.copytree(tiny_model_directory, directory)
    (directory / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(UnsupportedArchitectureError, match="3 does not divide"):
        load_sharded(directory, LoadOptions(), ImaginedGroup(0, 3))


def test_replaced_entries_of_the_configuration_are_planned_with(tiny_model_directory: Path) -> None:
    options = LoadOptions(model_config={"num_key_value_heads": 1})
    with pytest.raises(UnsupportedArchitectureError, match="1 KV heads"):
        load_sharded(tiny_model_directory, options, ImaginedGroup(0, 2))


def test_lora_is_refused_where_layers_are_sharded(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter", tiny_model_directory)
    with pytest.raises(InvalidOptionError, match="LoRA") as refused:
        load_sharded(tiny_model_directory, LoadOptions(adapter_path=adapter), ImaginedGroup(0, 2))
    assert refused.value.option == "adapter_path"


def test_process_group_of_one_rank_loads_the_whole_model(tiny_model_directory: Path) -> None:
    loaded = load_sharded(tiny_model_directory, LoadOptions(), ImaginedGroup(0, 1))
    tokens = mx.array([[1, 2, 3]])
    assert mx.array_equal(
        loaded.model(tokens), mlx_lm.load(str(tiny_model_directory))[0](tokens)
    ).item()


class Repo:
    """A repo whose files are downloaded into a directory."""

    def __init__(self, files: Path, downloads: Path) -> None:
        self.files = files
        self.downloads = downloads

    def download(
        self, path: str, revision: str | None = None, allow_patterns: Sequence[str] = ("*",)
    ) -> Path:
        self.downloads.mkdir(exist_ok=True)
        for file in self.files.iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                shutil.copy(file, self.downloads)
        return self.downloads


@pytest.fixture
def repo(tmp_path: Path, pipeline_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    repo = Repo(pipeline_directory, tmp_path / "downloads")
    monkeypatch.setattr(mlx_lm.utils, "_download", repo.download)
    return repo


@pytest.mark.parametrize(("rank", "layers"), [(0, {2, 3}), (1, {0, 1})])
def test_rank_of_a_pipeline_downloads_its_own_layers(
    repo: Repo, rank: int, layers: set[int]
) -> None:
    sharding = Sharding(ImaginedGroup(rank, 2))
    sharding.check(QWEN2, LoadOptions(), "org/model")
    model, _, _ = sharding.load("org/model", LoadOptions())
    sharding.shard(model, "org/model")
    files = {file.name for file in repo.downloads.glob("*.safetensors")}
    assert files == {"model-rest.safetensors"} | {f"model-{n}.safetensors" for n in layers}
    whole = dict(tree_flatten(mlx_lm.load(str(repo.files))[0].parameters()))
    weights = dict(tree_flatten(model.parameters()))
    assert {int(name.split(".")[2]) for name in weights if ".layers." in name} == layers
    assert all(mx.array_equal(whole[name], weight).item() for name, weight in weights.items())


def test_pipeline_without_one_of_its_weights_is_not_loaded(repo: Repo) -> None:
    file = repo.files / "model-3.safetensors"
    weights = mx.load(str(file))
    weights.pop("model.layers.3.mlp.up_proj.weight")
    mx.save_safetensors(str(file), weights, {"format": "mlx"})
    sharding = Sharding(ImaginedGroup(0, 2))
    sharding.check(QWEN2, LoadOptions(), "org/model")
    with pytest.raises(ModelFormatError, match=r"model\.layers\.3\.mlp\.up_proj\.weight"):
        sharding.load("org/model", LoadOptions())
