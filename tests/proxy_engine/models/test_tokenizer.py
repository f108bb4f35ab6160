"""The engine's vocabulary comes from the cache where its tokenizer was seen before."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import InferenceEngine
from proxy_engine.models import tokenizer
from proxy_engine.models.loading import LoadedModel, load_model
from proxy_engine.models.tokenizer import tokenizer_files, vocabulary_of
from state_machines import Vocabulary, VocabularyCache


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where vocabularies are kept, small ones too."""
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokenizer, "VocabularyCache", partial(VocabularyCache, min_tokens=0))
    return tmp_path / "cache" / "vocabularies"


@pytest.fixture
def model_directory(tiny_model_directory: Path, tmp_path: Path) -> Path:
    """A model's files, free to be changed."""
    return Path(shutil.copytree(tiny_model_directory, tmp_path / "model"))


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no vocabulary is made."""

    def fail(*_: object, **__: object) -> None:
        pytest.fail("the vocabulary was made")

    monkeypatch.setattr(Vocabulary, "from_tokenizer", fail)


def test_vocabulary_of_a_directory_is_cached(
    model_directory: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InferenceEngine(model_directory) as engine:
        first = engine.vocabulary
    assert first.size == 320
    assert len(list(directory.iterdir())) == 1
    forbid_reading(monkeypatch)
    with InferenceEngine(model_directory) as engine:
        assert engine.vocabulary.token_bytes == first.token_bytes
        assert engine.vocabulary.end_token_ids == first.end_token_ids
        answer = engine.generate("x", response_format={"enum": [1, 2]}, max_tokens=4)
    assert answer.parsed in (1, 2)


def test_vocabulary_of_a_model_in_memory_is_cached(
    tiny_model: llama.Model,
    tiny_tokenizer: TokenizerWrapper,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        first = engine.vocabulary
    assert len(list(directory.iterdir())) == 1
    forbid_reading(monkeypatch)
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        assert engine.vocabulary.token_bytes == first.token_bytes


def test_cache_vocabulary_false_writes_no_file(model_directory: Path, directory: Path) -> None:
    with InferenceEngine(model_directory, cache_vocabulary=False) as engine:
        assert engine.vocabulary.size == 320
    assert not directory.exists()


def test_changed_tokenizer_has_its_own_file(model_directory: Path, directory: Path) -> None:
    vocabulary_of(load_model(model_directory))
    file = model_directory / "tokenizer.json"
    file.write_text(file.read_text().replace("<|start|>", "<|begin|>"))
    vocabulary = vocabulary_of(load_model(model_directory))
    assert "<|begin|>" in vocabulary.special_tokens
    assert len(list(directory.iterdir())) == 2


def test_missing_home_directory_disables_the_cache(
    model_directory: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Any:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PROXY_ENGINE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert vocabulary_of(load_model(model_directory)).size == 320


def test_tokenizer_files_are_found(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer_config.json", "tokenizer.model", "model.safetensors"):
        (tmp_path / name).touch()
    assert tokenizer_files(tmp_path) == []
    for name in ("tokenizer.json", "special_tokens_map.json", "vocab.json", "merges.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in tokenizer_files(tmp_path)] == [
        "merges.txt",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
    ]


def test_vocabulary_is_identified_by_the_tokenizer_files(
    model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = load_model(model_directory)
    assert local.directory == model_directory
    in_memory = LoadedModel.of(local.model, local.tokenizer, name="in memory")
    assert in_memory.directory == model_directory
    monkeypatch.chdir(tmp_path)
    (tmp_path / "someone" / "something").mkdir(parents=True)
    for name in ("", "someone/something", str(tmp_path / "gone")):
        local.tokenizer.name_or_path = name
        assert LoadedModel.of(local.model, local.tokenizer, name="in memory").directory is None
