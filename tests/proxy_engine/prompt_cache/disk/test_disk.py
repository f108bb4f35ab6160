"""Prompt caches on disk: what later processes find, and that answers do not change."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from cached_models import KINDS, VOCABULARY, ask, cold, fresh_model, is_close, model_of
from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import InferenceEngine, InvalidOptionError, RawPrompt
from proxy_engine.prompt_cache import CacheOptions
from proxy_engine.prompt_cache.disk.disk_cache import BLOCK_TOKENS
from proxy_engine.prompt_cache.prompt_caches import PromptCaches

BY_TOKEN = ("plain", "default")
LONG = 2 * BLOCK_TOKENS + 12


def text(seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCABULARY, length)]


PROMPT = text(0, LONG)


@pytest.fixture
def opened() -> Iterator[list[PromptCaches]]:
    caches: list[PromptCaches] = []
    yield caches
    for one in caches:
        disk = one.open_disk()
        assert disk is not None
        disk.close()


@pytest.fixture
def open_caches(tmp_path: Path, opened: list[PromptCaches]) -> Any:
    """Opens the caches of a model as another process would: with an empty memory."""

    def open_one(model: Module, **options: Any) -> PromptCaches:
        opened.append(PromptCaches(model, CacheOptions(directory=tmp_path / "caches", **options)))
        return opened[-1]

    return open_one


def wait(caches: PromptCaches) -> None:
    disk = caches.open_disk()
    assert disk is not None
    assert disk.wait(30)


def files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.safetensors"))


def write(caches: PromptCaches, model: Module, prompt: Sequence[int], **arguments: Any) -> None:
    """Ask twice, since a text is written once it is reused."""
    ask(caches, model, prompt, **arguments)
    ask(caches, model, prompt, **arguments)
    wait(caches)


@pytest.mark.parametrize("kind", KINDS)
def test_reused_prefix_is_found_by_another_process(kind: str, open_caches: Any) -> None:
    model = model_of(kind)
    prompt = PROMPT if kind in BY_TOKEN else PROMPT[: BLOCK_TOKENS + 10]
    write(open_caches(model), model, prompt, boundaries=[BLOCK_TOKENS + 2])
    other = [*prompt[:-3], *text(1, 9)]
    cached, logits, answer = ask(open_caches(model), model, other, count=4)
    assert cached == (2 * BLOCK_TOKENS if kind in BY_TOKEN else BLOCK_TOKENS + 2)
    assert is_close(logits, cold(model, other))
    assert answer == ask(PromptCaches(model), model, other, count=4)[2]


@pytest.mark.parametrize(
    "options",
    [
        {"max_kv_size": 40},
        {"kv_bits": 4, "kv_group_size": 32, "quantized_kv_start": 200},
        {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 10_000},
    ],
)
def test_rotating_and_quantized_caches_are_read_as_written(
    options: dict[str, Any], open_caches: Any
) -> None:
    model = model_of("plain")
    caches = open_caches(model, **options)
    write(caches, model, PROMPT, step=64)
    longer = [*PROMPT, *text(1, 8)]
    known = PromptCaches(model, CacheOptions(**options))
    ask(known, model, PROMPT, step=64)
    cached, _, answer = ask(open_caches(model, **options), model, longer, count=5)
    assert cached >= 2 * BLOCK_TOKENS
    assert answer == ask(known, model, longer, count=5)[2]


def test_text_is_written_when_it_is_reused(open_caches: Any, tmp_path: Path) -> None:
    model = model_of("plain")
    caches = open_caches(model)
    ask(caches, model, PROMPT)
    wait(caches)
    assert files(tmp_path) == []
    ask(caches, model, [*PROMPT[: BLOCK_TOKENS + 5], *text(1, 20)])
    wait(caches)
    assert len(files(tmp_path)) == 1


def test_texts_in_memory_are_written_when_caches_are_closed(
    open_caches: Any, tmp_path: Path
) -> None:
    model = model_of("plain")
    caches = open_caches(model)
    for seed in range(6):
        ask(caches, model, text(seed, LONG))
    caches.close()
    assert len(files(tmp_path)) == 12
    assert open_caches(model).fetch(text(0, LONG)).cached_tokens == 2 * BLOCK_TOKENS


def test_turns_of_a_conversation_write_new_blocks_only(open_caches: Any, tmp_path: Path) -> None:
    model = model_of("plain")
    caches = open_caches(model)
    talk = list(PROMPT)
    written: dict[Path, int] = {}
    for turn in range(4):
        ask(caches, model, talk)
        wait(caches)
        found = {path: path.stat().st_ino for path in files(tmp_path)}
        assert found.items() >= written.items()
        written = found
        talk += text(turn + 1, 100)
    # The last turn was not reused.
    assert len(written) == (len(talk) - 200) // BLOCK_TOKENS


def test_read_text_becomes_an_entry_in_memory(open_caches: Any, tmp_path: Path) -> None:
    model = model_of("plain")
    write(open_caches(model), model, PROMPT)
    caches = open_caches(model)
    assert caches.fetch(PROMPT).cached_tokens == 2 * BLOCK_TOKENS
    for path in files(tmp_path):
        path.unlink()
    assert len(caches) == 1
    assert caches.fetch(PROMPT).cached_tokens == 2 * BLOCK_TOKENS


def test_no_more_is_read_than_fits_into_memory(open_caches: Any) -> None:
    model = model_of("plain")
    write(open_caches(model), model, PROMPT)
    size = open_caches(model)
    size.fetch(PROMPT)
    caches = open_caches(model, max_bytes=size.nbytes * 3 // 4)
    assert caches.fetch(PROMPT).cached_tokens == BLOCK_TOKENS


@pytest.mark.parametrize("kind", ["plain", "recurrent"])
def test_foreign_files_are_ignored(kind: str, open_caches: Any, tmp_path: Path) -> None:
    model = model_of(kind)
    prompt = PROMPT[: BLOCK_TOKENS + 4]
    write(open_caches(model), model, prompt)
    (path,) = files(tmp_path)
    for name in ("s.safetensors", "s12.safetensors", "s-1.safetensors", "b\u00b2-x.safetensors"):
        (path.parent / name).write_bytes(b"notes")
    assert open_caches(model).fetch([*prompt, 1]).cached_tokens >= BLOCK_TOKENS
    assert len(files(tmp_path)) == 5


def test_files_are_private(open_caches: Any, tmp_path: Path) -> None:
    model = model_of("plain")
    write(open_caches(model), model, PROMPT)
    for path in (tmp_path / "caches").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE((tmp_path / "caches").stat().st_mode) == 0o700


def test_other_weights_find_nothing(open_caches: Any) -> None:
    model = fresh_model("plain")
    caches = open_caches(model)
    write(caches, model, PROMPT)
    assert open_caches(fresh_model("plain", seed=1)).fetch(PROMPT).cached_tokens == 0
    assert open_caches(model, kv_bits=8, kv_group_size=32).fetch(PROMPT).cached_tokens == 0
    weight = model.layers[0].mlp.up_proj.weight
    weight[3, 5] += 1
    assert open_caches(model).fetch(PROMPT).cached_tokens == 0


def test_clear_removes_the_files_of_the_model(open_caches: Any, tmp_path: Path) -> None:
    other = model_of("default")
    write(open_caches(other), other, PROMPT)
    kept = files(tmp_path)
    model = fresh_model("plain")
    caches = open_caches(model)
    write(caches, model, PROMPT)
    assert len(files(tmp_path)) == len(kept) + 2
    caches.clear()
    assert files(tmp_path) == kept
    assert caches.fetch(PROMPT).cached_tokens == 0


def test_weights_are_identified_again_after_clear(open_caches: Any) -> None:
    model = fresh_model("plain")
    caches = open_caches(model)
    caches.fetch(PROMPT)
    model.layers[0].mlp.up_proj.weight[3, 5] += 1
    caches.clear()
    write(caches, model, PROMPT)
    assert open_caches(fresh_model("plain")).fetch(PROMPT).cached_tokens == 0
    assert open_caches(model).fetch(PROMPT).cached_tokens == 2 * BLOCK_TOKENS


def test_text_after_an_image_is_not_written(open_caches: Any) -> None:
    model = model_of("plain")
    caches = open_caches(model)
    key = np.array(PROMPT)
    key[BLOCK_TOKENS + 3] = -7
    started = caches.fetch(PROMPT)
    model(mx.array([PROMPT]), cache=started.cache)
    caches.insert(key, started.cache)
    caches.fetch(key)
    wait(caches)
    assert open_caches(model).fetch(key).cached_tokens == BLOCK_TOKENS


def test_cache_types_unknown_to_mlx_lm_are_not_written(
    open_caches: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of("plain")
    caches = open_caches(model)
    started = caches.fetch(PROMPT)
    for layer in started.cache:
        layer.__class__ = type("OwnCache", (type(layer),), {})
    model(mx.array([PROMPT]), cache=started.cache)
    caches.insert(PROMPT, started.cache)
    assert caches.fetch(PROMPT).cached_tokens == LONG - 1
    wait(caches)
    assert files(tmp_path) == []


def test_extended_copy_does_not_change_what_is_written(open_caches: Any) -> None:
    model = model_of("plain")
    caches = open_caches(model)
    ask(caches, model, PROMPT)
    for seed in range(5):
        ask(caches, model, [*PROMPT[: 260 + seed], *text(seed, 90)], count=30)
    wait(caches)
    cached, logits, _ = ask(open_caches(model), model, PROMPT)
    assert cached == 2 * BLOCK_TOKENS
    assert is_close(logits, cold(model, PROMPT))


def test_engine_continues_from_disk_with_equal_tokens(
    tmp_path: Path,
    tiny_model: Module,
    tiny_tokenizer: TokenizerWrapper,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prompt = RawPrompt("one two three four five " * 10)
    answers = []
    for options in (None, *2 * [CacheOptions(directory=tmp_path)]):
        with (
            caplog.at_level(logging.WARNING, "proxy_engine"),
            InferenceEngine(tiny_model, tiny_tokenizer, cache=options) as engine,
        ):
            answers.append(engine.generate(prompt, max_tokens=12, temperature=0))
    assert caplog.records == []
    assert answers[1].usage.cached_tokens == 0
    assert answers[2].usage.cached_tokens >= BLOCK_TOKENS
    assert len({answer.text for answer in answers}) == 1


def test_directory_requires_prompt_caching(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        CacheOptions(directory=tmp_path, max_bytes=0)
    assert caught.value.option == "directory"
