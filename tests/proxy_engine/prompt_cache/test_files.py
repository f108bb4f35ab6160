"""Caches on disk, and what keeps those of other models out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from cached_models import KINDS, VOCABULARY, ask, cold, fresh_model, is_close, model_of
from mlx_lm.models import cache as mlx_caches
from mlx_lm.models.cache import KVCache, load_prompt_cache, save_prompt_cache
from mlx_lm.tuner.utils import linear_to_lora_layers

from proxy_engine import InvalidOptionError, PromptCacheFileError, PromptCacheMismatchError
from proxy_engine.prompt_cache import CacheOptions, files
from proxy_engine.prompt_cache.files import model_identity
from proxy_engine.prompt_cache.prompt_caches import PromptCaches

LONG = 40


def text(seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCABULARY, length)]


PROMPT = text(0, LONG)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A file of the plain model."""
    path = tmp_path / "prompt.safetensors"
    caches = PromptCaches(model_of("plain"))
    ask(caches, model_of("plain"), PROMPT)
    assert caches.save(path, PROMPT) == LONG
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_cache_provides_the_saved_prompt(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    ask(caches, model, PROMPT, count=5, boundaries=[20])
    # What follows was read, too, so layers that can be cut are.
    path = tmp_path / "prompt.safetensors"
    length = caches.save(path, PROMPT[:30])
    assert length == (30 if kind in ("plain", "default") else 20)
    other = PromptCaches(model)
    assert other.load(path) == length
    assert os.listdir(tmp_path) == ["prompt.safetensors"]
    whole = [*PROMPT[:length], *text(1, 8)]
    cached, logits, _ = ask(other, model, whole)
    assert cached == length
    assert is_close(logits, cold(model, whole))


@pytest.mark.parametrize(
    "options",
    [
        CacheOptions(max_kv_size=12),
        CacheOptions(kv_bits=4, kv_group_size=32, quantized_kv_start=8),
        CacheOptions(kv_bits=8, kv_group_size=32),
    ],
)
def test_options_are_part_of_a_saved_cache(options: CacheOptions, tmp_path: Path) -> None:
    model = model_of("plain")
    caches = PromptCaches(model, options)
    ask(caches, model, PROMPT, count=3)
    path = tmp_path / "prompt.safetensors"
    length = caches.save(path, PROMPT)
    other = PromptCaches(model, options)
    assert other.load(path) == length
    whole = [*PROMPT, *text(1, 8)]
    (cached, logits, _), expected = ask(other, model, whole), ask(caches, model, whole)
    assert cached == expected[0] == length
    assert is_close(logits, expected[1])
    with pytest.raises(PromptCacheMismatchError) as caught:
        PromptCaches(model).load(path)
    assert set(caught.value.differs) <= {"max_kv_size", "kv"}


def test_mlx_lm_loads_the_file(saved: Path) -> None:
    layers, metadata = load_prompt_cache(str(saved), return_metadata=True)
    assert [type(layer) for layer in layers] == [KVCache, KVCache]
    assert layers[0].offset == LONG
    assert [int(token) for token in metadata["token_ids"].split()] == PROMPT


def test_save_replaces_an_existing_file(saved: Path) -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    ask(caches, model, text(3, 9))
    assert caches.save(saved, text(3, 9)) == 9
    assert PromptCaches(model).load(saved) == 9


def test_uncached_prompt_cannot_be_saved(tmp_path: Path) -> None:
    caches = PromptCaches(model_of("plain"))
    with pytest.raises(PromptCacheFileError, match="no prefix of this prompt") as caught:
        caches.save(tmp_path / "x.safetensors", PROMPT)
    assert caught.value.path == str(tmp_path / "x.safetensors")
    assert not os.listdir(tmp_path)


def test_invalid_paths_are_rejected(saved: Path, tmp_path: Path) -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    ask(caches, model, PROMPT)
    with pytest.raises(InvalidOptionError):
        caches.save(tmp_path / "prompt.bin", PROMPT)
    with pytest.raises(InvalidOptionError):
        caches.load(tmp_path / "prompt")
    with pytest.raises(FileNotFoundError):
        caches.load(tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError):
        caches.save(tmp_path / "none" / "x.safetensors", PROMPT)
    assert os.listdir(tmp_path) == [saved.name]


def test_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()
    model = model_of("plain")
    caches = PromptCaches(model)
    ask(caches, model, text(3, 9))

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("proxy_engine.prompt_cache.files.save_prompt_cache", full)
    with pytest.raises(OSError, match="no space"):
        caches.save(saved, text(3, 9))
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_cache_types_unknown_to_mlx_lm_are_not_saved(tmp_path: Path) -> None:
    class OwnCache(KVCache):  # type: ignore[misc]
        """A model's own, as some have."""

    model = model_of("plain")
    caches = PromptCaches(model)
    started = caches.fetch(PROMPT)
    for layer in started.cache:
        layer.__class__ = OwnCache
    model(mx.array([PROMPT]), cache=started.cache)
    caches.insert(PROMPT, started.cache)
    assert not hasattr(mlx_caches, "OwnCache")
    with pytest.raises(PromptCacheFileError, match="OwnCache"):
        caches.save(tmp_path / "x.safetensors", PROMPT)


def with_moved_weight() -> Any:
    model = fresh_model("plain")
    weight = model.layers[0].mlp.up_proj.weight
    weight[3, 5], weight[3, 6] = weight[3, 6], weight[3, 5]
    return model


def quantized() -> Any:
    model = fresh_model("plain")
    nn.quantize(model, group_size=64, bits=4)
    return model


@pytest.mark.parametrize(
    ("make", "differs", "message"),
    [
        (lambda: fresh_model("plain", seed=1), {"weights"}, "weights"),
        (with_moved_weight, {"weights"}, "weights"),
        (lambda: model_of("default"), {"architecture", "weights"}, "architecture"),
        (quantized, {"quantization", "weights"}, "4 bits in groups of 64"),
    ],
)
def test_cache_of_another_model_is_rejected(
    make: Callable[[], Any], differs: set[str], message: str, saved: Path
) -> None:
    assert PromptCaches(fresh_model("plain")).load(saved) == LONG
    with pytest.raises(PromptCacheMismatchError, match=message) as caught:
        PromptCaches(make()).load(saved)
    assert set(caught.value.differs) == differs
    assert caught.value.path == str(saved)


def test_cache_of_another_adapter_is_rejected(saved: Path, tmp_path: Path) -> None:
    model = fresh_model("plain")
    config = {"rank": 2, "scale": 2.0, "dropout": 0.0}
    linear_to_lora_layers(model, 1, config)
    # It changes nothing yet, but it is another model.
    with pytest.raises(PromptCacheMismatchError) as caught:
        PromptCaches(model).load(saved)
    assert "adapter" in caught.value.differs
    path = tmp_path / "adapted.safetensors"
    caches = PromptCaches(model)
    ask(caches, model, PROMPT)
    caches.save(path, PROMPT)
    assert PromptCaches(model).load(path) == LONG
    for name, module in model.named_modules():
        if name.endswith("q_proj") and hasattr(module, "scale"):
            module.scale = 3.0
    with pytest.raises(PromptCacheMismatchError) as caught:
        PromptCaches(model).load(path)
    assert set(caught.value.differs) == {"adapter"}


def test_cache_of_another_mlx_lm_version_is_rejected(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.metadata, "version", lambda _: "0.0.1")
    with pytest.raises(PromptCacheMismatchError, match=r"here 0\.0\.1") as caught:
        PromptCaches(model_of("plain")).load(saved)
    assert set(caught.value.differs) == {"mlx_lm"}


def test_identity_of_a_model_is_the_same_in_every_process() -> None:
    program = (
        "from cached_models import model_of\n"
        "from proxy_engine.prompt_cache.files import model_identity\n"
        "print(model_identity(model_of('chunked')))"
    )
    path = [str(Path(__file__).parents[2] / "support"), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.strip() == str(model_identity(model_of("chunked")))


def test_file_larger_than_max_bytes_is_rejected(saved: Path) -> None:
    with pytest.raises(PromptCacheFileError, match="more than max_bytes"):
        PromptCaches(model_of("plain"), CacheOptions(max_bytes=1000)).load(saved)


def test_damaged_files_are_rejected(saved: Path) -> None:
    whole = saved.read_bytes()
    caches = PromptCaches(model_of("plain"))
    random = np.random.default_rng(0)
    cases = [b"", whole[:5], whole[:8], whole[:100], whole[:-1], whole[: len(whole) // 2]]
    cases += [whole + b"x", bytes(8) + whole[8:], b"\xff" * 8 + whole[8:], bytes(len(whole))]
    places = random.choice(len(whole), 40, replace=False)
    header = int.from_bytes(whole[:8], "little")
    for place in (*places, *random.choice(header, 40, replace=False) + 8):
        cases.append(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    for damaged in cases:
        saved.write_bytes(damaged)
        with pytest.raises(PromptCacheFileError) as caught:
            caches.load(saved)
        assert type(caught.value) is PromptCacheFileError
    assert len(caches) == 0
    saved.write_bytes(whole)
    assert caches.load(saved) == LONG


def test_files_of_other_formats_are_rejected(tmp_path: Path) -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    path = tmp_path / "other.safetensors"
    for write in (
        lambda: mx.save_safetensors(str(path), {"a": mx.zeros(3)}),
        lambda: save_prompt_cache(str(path), caches.fetch([1]).cache, {"model": "mine"}),
        lambda: path.write_text(json.dumps({"a": 1}) * 100),
        lambda: path.write_bytes((2).to_bytes(8, "little") + b"[]"),
        lambda: path.write_bytes((200_000).to_bytes(8, "little") + b"[" * 200_000),
    ):
        write()
        with pytest.raises(PromptCacheFileError, match="is not a prompt cache"):
            caches.load(path)


def test_file_with_another_cache_type_is_rejected(saved: Path) -> None:
    """With the right facts and a right digest, but other layers."""
    model = model_of("plain")
    own = PromptCaches(model)
    started = own.fetch(PROMPT)
    model(mx.array([PROMPT]), cache=started.cache)
    own.insert(PROMPT, started.cache[:1])
    own.save(saved, PROMPT)
    with pytest.raises(PromptCacheFileError, match="does not fit"):
        PromptCaches(model).load(saved)
