"""Checkpoints that were loaded before: the same tokenizer and model, without transformers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from chat_templates import fast_tokenizer
from data_files import NO_TOKENIZERS, tokenizer_files
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from mlx_lm import tokenizer_utils
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine.conversation.chat_template import chat_template
from proxy_engine.models.load_options import LoadOptions
from proxy_engine.models.text_loading import entry_directory, find, load_parts, remember
from proxy_engine.models.tokenizer import CachedTokenizer
from state_machines import Vocabulary

FILES = tokenizer_files()
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Read <tool_call> \n"},
    {"role": "assistant", "content": "It is sunny.", "reasoning_content": "Hm."},
    {"role": "user", "content": "Thanks"},
]


def cached(
    wrapper: TokenizerWrapper, directory: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> CachedTokenizer:
    """A tokenizer that was stored and read. It must not ask for mlx-lm's."""
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(cache))
    entry = entry_directory(directory, [{}])
    assert entry is not None
    assert find(entry, directory) is None
    remember(entry, directory, "mlx_lm.models.llama", wrapper)
    known = find(entry, directory)
    assert known is not None
    return known.tokenizer(lambda: pytest.fail("mlx-lm's tokenizer was loaded"))


@pytest.mark.skipif(not FILES, reason=NO_TOKENIZERS)
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[] if file in tokenizer_files(few=True) else pytest.mark.soak)
        for file in FILES
    ],
    ids=lambda path: path.parent.name,
)
def test_tokenizers_are_those_of_transformers(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tokenizer_utils.load(file.parent)
    found = cached(wrapper, file.parent, monkeypatch, tmp_path)
    assert found.get_vocab() == wrapper.get_vocab()
    assert found.get_added_vocab() == wrapper.get_added_vocab()
    assert found.eos_token_ids == wrapper.eos_token_ids
    assert set(found.all_special_ids) == set(wrapper.all_special_ids)
    for name in ("think_start", "think_end", "tool_call_start", "tool_call_end", "chat_template"):
        assert getattr(found, name) == getattr(wrapper, name), name
    for name in ("has_thinking", "has_chat_template", "eos_token_id", "tool_parser"):
        assert getattr(found, name) == getattr(wrapper, name), name
    vocabularies = [Vocabulary.from_tokenizer(each) for each in (found, wrapper)]
    assert vocabularies[0].token_bytes == vocabularies[1].token_bytes
    assert vocabularies[0].end_token_ids == vocabularies[1].end_token_ids

    @given(st.text(max_size=30), st.booleans())
    def check_ids(text: str, special: bool) -> None:
        ids = found.encode(text, add_special_tokens=special)
        assert ids == wrapper.encode(text, add_special_tokens=special)
        assert found.backend_tokenizer.decode(ids) == wrapper.backend_tokenizer.decode(ids)

    check_ids()
    if wrapper.chat_template is not None:
        for tokenize in (False, True):
            for turns in (TURNS, TURNS[1:], TURNS[1:2]):
                expected = wrapper.apply_chat_template(
                    turns, tokenize=tokenize, add_generation_prompt=True
                )
                rendered = found.apply_chat_template(
                    turns, tokenize=tokenize, add_generation_prompt=True
                )
                assert rendered == expected
        probes = [chat_template(each) for each in (found, wrapper)]  # type: ignore[arg-type]
        assert probes[0].calls == probes[1].calls
        assert probes[0].turn_rules == probes[1].turn_rules
        assert probes[0].describes_tools == probes[1].describes_tools


CALLS = {
    "open": "<tool_call>",
    "close": "</tool_call>",
    "repeats": True,
    "content": "json",
    "transform": {"type": "function", "function": "{content}"},
}


CHECKPOINTS: list[tuple[Any, str, str]] = [
    (None, "", ""),
    ({"tool_calls": CALLS}, "response_template", ""),
    ({"tool_calls": CALLS, "content": {"repeats": True}}, "", "transformers reads"),
]
"""Fields of a response template, the source of the tool format, and why another is not used."""


def test_known_models_are_loaded_without_transformers(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    models = [tmp_path / f"model {number}" for number in range(len(CHECKPOINTS))]
    for model, (fields, _, _) in zip(models, CHECKPOINTS, strict=True):
        shutil.copytree(tiny_model_directory, model)
        if fields is not None:
            settings = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
            settings["response_template"] = {"start_anchor": "<a>", "fields": fields}
            (model / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    program = """
import json, sys
from proxy_engine import InferenceEngine
found = []
for model in sys.argv[1:]:
    with InferenceEngine(model, on_progress=None) as engine:
        text = engine.generate("hello", max_tokens=5).text
        refused = str(engine.tool_format.refused.get("response_template"))
        found.append([text, engine.tool_format.source, refused])
print(json.dumps(found))
print("transformers" in sys.modules)
print(type(engine.tokenizer).__name__)
"""
    outputs = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", program, *map(str, models)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PROXY_ENGINE_CACHE": str(tmp_path / "cache")},
        )
        assert "PyTorch" not in run.stderr
        outputs.append(run.stdout.splitlines())
    assert outputs[1][0] == outputs[0][0]
    for (_, source, reason), found in zip(CHECKPOINTS, json.loads(outputs[0][0]), strict=True):
        assert source in found[1]
        assert reason in found[2]
    assert [lines[1] for lines in outputs] == ["True", "False"]
    # The public property is mlx-lm's tokenizer.
    assert [lines[2] for lines in outputs] == ["TokenizerWrapper"] * 2


def test_known_model_has_the_weights_and_configuration_of_mlx_lm(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path))
    path = str(tiny_model_directory)
    config = json.loads((tiny_model_directory / "config.json").read_text())
    first, second = (load_parts(path, config, "tiny", LoadOptions()) for _ in range(2))
    assert isinstance(first.tokenizer, TokenizerWrapper)
    assert isinstance(second.tokenizer, CachedTokenizer)
    assert second.config == first.config
    weights: Any = [dict(tree_flatten(parts.model.parameters())) for parts in (first, second)]
    assert weights[0].keys() == weights[1].keys()
    for name, array in weights[0].items():
        assert mx.array_equal(array, weights[1][name]).item(), name


def test_changed_file_is_another_checkpoint(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "cache"))
    copy = tmp_path / "copy"
    shutil.copytree(tiny_model_directory, copy)
    before = entry_directory(copy, [{}])
    assert before == entry_directory(tiny_model_directory, [{}])
    assert before != entry_directory(copy, [{"eos_token": "x"}])
    (copy / "generation_config.json").write_text('{"eos_token_id": 3}')
    assert before != entry_directory(copy, [{}])


def test_tokenizer_with_methods_of_its_own_is_not_stored(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path))
    wrapper = tokenizer_utils.load(tiny_model_directory)

    class Own(type(fast_tokenizer(wrapper))):  # type: ignore[misc]
        def encode(self, *arguments: Any, **options: Any) -> list[int]:
            return []

    fast_tokenizer(wrapper).__class__ = Own
    entry = entry_directory(tiny_model_directory, [{}])
    assert entry is not None
    remember(entry, tiny_model_directory, "mlx_lm.models.llama", wrapper)
    assert find(entry, tiny_model_directory) is None
