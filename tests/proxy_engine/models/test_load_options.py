"""Options of loading: their values, the models they apply to, and their effects."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import mlx.core as mx
import pytest
from chat_templates import fast_tokenizer
from engine_parts import core_of
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_whisper import write_tiny_whisper
from vision_models import vision_checkpoint

from proxy_engine import (
    InferenceEngine,
    InvalidOptionError,
    ModelFormatError,
    ModelNotFoundError,
    UnsupportedArchitectureError,
)
from proxy_engine.checks import argument_names
from proxy_engine.models import tokenizer
from proxy_engine.models.load_options import LoadArguments, LoadOptions
from proxy_engine.models.loading import load_model
from state_machines import VocabularyCache

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if tools %}<tool_call>{{ tool_call.name }}{% endif %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


@pytest.fixture
def directory(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A model's files, free to be changed."""
    return Path(shutil.copytree(tiny_model_directory, tmp_path / "model"))


def edit(file: Path, **changes: Any) -> None:
    known = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**known, **changes}), encoding="utf-8")


def test_keyword_arguments_are_those_of_the_options() -> None:
    assert tuple(LoadArguments.__annotations__) == argument_names(LoadOptions)
    assert LoadArguments.__optional_keys__ == set(argument_names(LoadOptions))
    assert all(field.description for field in LoadOptions.model_fields.values())
    defaults: Any = {
        field.alias or name: field.get_default(call_default_factory=True)
        for name, field in LoadOptions.model_fields.items()
    }
    assert LoadOptions(**defaults) == LoadOptions()
    assert LoadOptions().changed_names() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"adapter": "x"}, "no option 'adapter'. Did you mean 'adapter_path'?"),
        ({"lora_path": "x"}, "Did you mean 'adapter_path'?"),
        ({"draftmodel": "x"}, "Did you mean 'draft_model'?"),
        ({"torch_dtype": "x"}, "mlx_lm.convert"),
        ({"temperature": 1}, "It is an option of requests"),
        ({"adapter_path": 5}, "adapter_path should be a path, not 5"),
        ({"adapter_path": ""}, "should be the name of a directory"),
        ({"revision": ""}, "revision "),
        ({"trust_remote_code": "yes"}, "trust_remote_code should be a valid boolean"),
        ({"lazy": 1}, "lazy should be a valid boolean"),
        ({"tokenizer_config": 5}, "tokenizer_config should be"),
        ({"tokenizer_config": {"trust_remote_code": True}}, "an option of its own"),
        ({"tokenizer_config": {"revision": "main"}}, "an option of its own"),
        ({"model_config": [1]}, "model_config should be"),
        ({"chat_template": "no-such-file"}, "or the name of its file"),
        ({"chat_template": "{% if %}"}, "line 1: Expected an expression"),
        (
            {"chat_template": "{{ 1 }}", "tokenizer_config": {"chat_template": "{{ 2 }}"}},
            "together with that of tokenizer_config",
        ),
    ],
)
def test_invalid_option_is_refused_before_anything_is_loaded(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        InferenceEngine("./no-such-model", **arguments)
    assert message in str(caught.value)


def test_options_do_not_share_the_callers_mappings() -> None:
    given: dict[str, Any] = {"rope_scaling": {"factor": 2.0}}
    options = LoadOptions(model_config=given)
    given["rope_scaling"]["factor"] = 3.0
    assert options.config_overrides == {"rope_scaling": {"factor": 2.0}}


@pytest.mark.parametrize(
    "arguments",
    [
        {"adapter_path": "x"},
        {"revision": "main"},
        {"trust_remote_code": True},
        {"tokenizer_config": {"eos_token": "x"}},
        {"model_config": {"x": 1}},
        {"lazy": True},
    ],
)
def test_model_in_memory_is_loaded_already(
    arguments: dict[str, Any], tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    with pytest.raises(InvalidOptionError, match="loaded by name") as caught:
        InferenceEngine(tiny_model, tiny_tokenizer, **arguments)
    assert caught.value.option in arguments


def test_directories_and_the_embedded_model_have_no_revisions(directory: Path) -> None:
    with pytest.raises(InvalidOptionError, match="is a directory"):
        InferenceEngine(directory, revision="main")
    with pytest.raises(InvalidOptionError, match="the embedded model"):
        InferenceEngine(revision="main")


@pytest.mark.parametrize(
    "arguments",
    [
        {"tokenizer_config": {"x": 1}},
        {"model_config": {"x": 1}},
        {"chat_template": TEMPLATE},
    ],
)
def test_options_of_text_models_are_refused_for_speech_models(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    path = write_tiny_whisper(tmp_path / "whisper")
    with pytest.raises(InvalidOptionError, match="it is a speech model"):
        InferenceEngine(path, **arguments)


def shown(engine: InferenceEngine) -> str:
    messages = [{"role": "user", "content": "x"}]
    return str(engine.tokenizer.apply_chat_template(messages, tokenize=False))


def test_chat_template_replaces_the_tokenizers(
    directory: Path,
    tmp_path: Path,
    tiny_model: llama.Model,
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    file = tmp_path / "template.jinja"
    file.write_text(TEMPLATE, encoding="utf-8")
    before = tiny_tokenizer.chat_template
    (directory / "chat_template.jinja").write_text("of the checkpoint", encoding="utf-8")
    loads: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((directory,), {"chat_template": TEMPLATE}),
        ((directory,), {"chat_template": str(file)}),
        ((directory,), {"tokenizer_config": {"chat_template": TEMPLATE}}),
        ((tiny_model, tiny_tokenizer), {"chat_template": file}),
        ((tiny_model, fast_tokenizer(tiny_tokenizer)), {"chat_template": TEMPLATE}),
    ]
    for arguments, options in loads:
        with InferenceEngine(*arguments, **options) as engine:
            assert shown(engine) == "[user] x\n"
            # The tool format and the prompt of a request follow from it as well.
            assert engine.tool_format.format.name == "hermes"
            assert engine.tokenizer.tool_call_start == "<tool_call>"
            assert engine.generate("ab", max_tokens=1).usage.prompt_tokens == len(
                engine.tokenizer.encode("[user] ab\n[assistant] ")
            )
    assert tiny_tokenizer.chat_template == before
    assert tiny_tokenizer.tool_parser is None


def test_chat_template_replaces_one_in_code(directory: Path) -> None:
    edit(directory / "tokenizer_config.json", chat_template_type="deepseek_v32")
    with InferenceEngine(directory, chat_template=TEMPLATE) as engine:
        assert shown(engine) == "[user] x\n"


def test_given_end_token_ends_answers(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokenizer, "VocabularyCache", partial(VocabularyCache, min_tokens=0))
    ids = {}
    for token in (None, "<|start|>", None, "<|start|>"):
        config = {} if token is None else {"eos_token": token}
        with InferenceEngine(directory, tokenizer_config=config) as engine:
            end = engine.tokenizer.convert_tokens_to_ids(token or "<|end|>")
            assert engine.vocabulary.end_token_ids == {end}
            ids[token] = end
            forced = engine.generate("a", response_format={"const": 1}, max_tokens=4)
            assert forced.parsed == 1
    assert len(set(ids.values())) == 2
    assert len(list((tmp_path / "cache" / "vocabularies").iterdir())) == 2
    edit(directory / "config.json", eos_token_id=ids[None])
    loaded = load_model(directory, options=LoadOptions(tokenizer_config={"eos_token": "<|start|>"}))
    assert loaded.tokenizer.eos_token_ids == set(ids.values())


def test_unknown_end_token_is_refused(directory: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"has no token '<\|nope\|>'") as caught:
        InferenceEngine(directory, tokenizer_config={"eos_token": "<|nope|>"})
    assert caught.value.pointer == "/tokenizer_config/eos_token"


def test_model_config_replaces_entries_of_the_configuration(directory: Path) -> None:
    overrides = {"max_position_embeddings": 64, "rope_theta": 5.0}
    with InferenceEngine(directory, model_config=overrides) as engine:
        assert engine.context_length == 64
        assert vars(core_of(engine).loaded.model)["args"].rope_theta == 5.0
    with pytest.raises(ModelFormatError, match="Missing"):
        InferenceEngine(directory, model_config={"num_hidden_layers": 3})


def test_lazy_weights_are_read_by_the_first_pass(directory: Path) -> None:
    file = directory / "model.safetensors"
    name, rows = "model.embed_tokens.weight", 100_000
    weights = dict(mx.load(str(file)))
    weights[name] = mx.concatenate([weights[name], mx.zeros((rows - 320, 32))])
    mx.eval(weights)
    mx.save_safetensors(str(file), weights)
    edit(directory / "config.json", vocab_size=rows)
    size = weights.pop(name).nbytes
    mx.clear_cache()
    before = mx.get_active_memory()
    with InferenceEngine(directory, lazy=True, cache_vocabulary=False) as engine:
        assert engine.vocabulary.size == rows
        assert mx.get_active_memory() - before < size / 2
        answer = engine.generate("abc", max_tokens=4).token_ids
        assert mx.get_active_memory() - before > size / 2
    with InferenceEngine(directory, cache_vocabulary=False) as engine:
        assert engine.generate("abc", max_tokens=4).token_ids == answer


def own_tokenizer(directory: Path, marker: Path) -> None:
    edit(
        directory / "tokenizer_config.json",
        auto_map={"AutoTokenizer": [None, "own.Own"]},
        tokenizer_class="Own",
    )
    (directory / "own.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "from transformers import PreTrainedTokenizerFast\n"
        "class Own(PreTrainedTokenizerFast):\n    pass\n",
        encoding="utf-8",
    )


def own_model(directory: Path, marker: Path) -> None:
    edit(directory / "config.json", model_file="own_model.py")
    (directory / "own_model.py").write_text(
        f"open({str(marker)!r}, 'w').close()\nfrom mlx_lm.models.llama import Model, ModelArgs\n",
        encoding="utf-8",
    )


def test_code_of_a_model_is_run_if_it_is_trusted(directory: Path, tmp_path: Path) -> None:
    marker = tmp_path / "was_run"
    own_model(directory, marker)
    with pytest.raises(UnsupportedArchitectureError, match="trust_remote_code=True"):
        InferenceEngine(directory)
    assert not marker.exists()
    with InferenceEngine(directory, trust_remote_code=True) as engine:
        assert engine.generate("a", max_tokens=2).token_ids
    assert marker.exists()


def test_code_of_a_tokenizer_is_run_if_it_is_trusted(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("the user was asked"))
    marker = tmp_path / "was_run"
    own_tokenizer(directory, marker)
    try:
        InferenceEngine(directory).close()
    except ModelFormatError as error:
        assert "trust_remote_code" in str(error)
    assert not marker.exists()
    with InferenceEngine(directory, trust_remote_code=True) as engine:
        assert engine.generate("a", max_tokens=2).token_ids
    assert marker.exists()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The download cache, without network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def add_revision(hub: Path, repo: str, revision: str, files: Path) -> Path:
    """Add a revision to a repo in the download cache; return its directory."""
    root = hub / f"models--{repo.replace('/', '--')}"
    commit = f"{len(list(root.glob('refs/*'))):040x}"
    (root / "refs").mkdir(parents=True, exist_ok=True)
    (root / "refs" / revision).write_text(commit, encoding="ascii")
    return Path(shutil.copytree(files, root / "snapshots" / commit))


def test_revision_chooses_the_files_of_a_repo(hub: Path, tiny_model_directory: Path) -> None:
    repo = "org/tiny"
    for revision, context in (("main", 512), ("small", 64)):
        directory = add_revision(hub, repo, revision, tiny_model_directory)
        edit(directory / "config.json", max_position_embeddings=context)
    for revision, context in ((None, 512), ("small", 64), ("main", 512)):
        with InferenceEngine(repo, revision=revision) as engine:
            assert engine.context_length == context, revision
            assert engine.model_name == repo
    with pytest.raises(ModelNotFoundError, match="revision 'none' of 'org/tiny'"):
        InferenceEngine(repo, revision="none")


def test_revision_applies_to_speech_and_multimodal_models(hub: Path, tmp_path: Path) -> None:
    models = {
        "audio": write_tiny_whisper(tmp_path / "whisper"),
        "image": vision_checkpoint("qwen2_vl", tmp_path / "qwen2_vl"),
    }
    for kind, files in models.items():
        add_revision(hub, f"org/{kind}", "other", files)
        with InferenceEngine(f"org/{kind}", revision="other", lazy=True) as engine:
            assert kind in engine.input_modalities
        with pytest.raises(ModelNotFoundError):
            InferenceEngine(f"org/{kind}")
