"""The cache of vocabularies: the right one, whole, whatever is in the directory."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from small_tokenizers import byte_level_tokenizer, gemma_like
from tokenizers import AddedToken, Tokenizer, decoders, models

from state_machines import JsonSchemaStateMachine, Vocabulary, VocabularyCache, VocabularyError
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary.tokenizer_reader import fingerprint


@pytest.fixture
def cache(tmp_path: Path) -> VocabularyCache:
    """A cache that takes small vocabularies, too."""
    return VocabularyCache(tmp_path / "deep" / "cache", min_tokens=0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of the cache; it does not exist yet."""
    return tmp_path / "deep" / "cache"


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    """The file of a tokenizer."""
    path = tmp_path / "tokenizer.json"
    byte_level_tokenizer().save(str(path))
    return path


def files_of(directory: Path) -> list[Path]:
    """Return all files of a directory."""
    return sorted(path for path in directory.iterdir())


def without_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no vocabulary is made."""

    def fail(*_: object, **__: object) -> None:
        pytest.fail("the vocabulary was made")

    monkeypatch.setattr(Vocabulary, "from_tokenizer", fail)
    monkeypatch.setattr("state_machines.masks.token_trie._arrays", fail)
    monkeypatch.setattr("state_machines.masks.string_walks._count_characters", fail)


@pytest.mark.parametrize("with_file", [False, True])
def test_second_load_derives_nothing(
    with_file: bool, cache: VocabularyCache, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tokenizer_file] if with_file else []
    machine = JsonSchemaStateMachine({"type": "object"})
    made = cache.from_tokenizer(byte_level_tokenizer(), files=files, size=300)
    masks = [machine.matcher(made).allowed_tokens()]
    without_reading(monkeypatch)
    found = cache.from_tokenizer(byte_level_tokenizer(), files=files, size=300)
    assert found is not made
    assert found.token_bytes == made.token_bytes
    masks.append(machine.matcher(found).allowed_tokens())
    np.testing.assert_array_equal(*masks)


def test_small_vocabularies_are_not_written(tmp_path: Path) -> None:
    cache = VocabularyCache(tmp_path / "cache")
    assert cache.from_tokenizer(byte_level_tokenizer()).size
    assert not (tmp_path / "cache").exists()


def test_object_that_is_no_tokenizer_is_refused(cache: VocabularyCache) -> None:
    with pytest.raises(VocabularyError, match="int"):
        cache.from_tokenizer(7)
    tokenizer = byte_level_tokenizer()
    tokenizer.decoder = decoders.WordPiece()
    for _ in range(2):
        with pytest.raises(VocabularyError, match="WordPiece"):
            cache.from_tokenizer(tokenizer)
    with pytest.raises(VocabularyError, match="9999"):
        cache.from_tokenizer(byte_level_tokenizer(), end_token_ids=[9999])


# --- fingerprints ---------------------------------------------------------------------------


class _Wrapper:
    """A tokenizer that knows its end tokens, as transformers' and mlx-lm's do."""

    def __init__(self, backend: Tokenizer, **ends: Any) -> None:
        self.backend_tokenizer = backend
        vars(self).update(ends)


def changed_tokenizers() -> dict[str, Any]:
    """Return tokenizers that give different vocabularies."""

    def changed(**parts: Any) -> Tokenizer:
        tokenizer = byte_level_tokenizer()
        for name, part in parts.items():
            setattr(tokenizer, name, part)
        return tokenizer

    text, special = byte_level_tokenizer(), byte_level_tokenizer()
    text.add_tokens(["more"])
    special.add_special_tokens(["more"])
    ends = [{"eos_token_id": 3}, {"eos_token_id": 4}, {"eos_token_ids": {3, 4}, "eos_token_id": 3}]
    return {
        "plain": byte_level_tokenizer(),
        "another decoder": changed(decoder=decoders.Fuse()),
        "an added token": text,
        "an added special token": special,
        **{str(each): _Wrapper(byte_level_tokenizer(), **each) for each in ends},
    }


@pytest.mark.parametrize("with_file", [False, True])
def test_fingerprint_covers_everything_the_vocabulary_depends_on(
    with_file: bool, tokenizer_file: Path, cache: VocabularyCache
) -> None:
    files = [tokenizer_file] if with_file else []
    tokenizers = changed_tokenizers()
    found = {name: fingerprint(each, files=files) for name, each in tokenizers.items()}
    plain = tokenizers["plain"]
    found["size"] = fingerprint(plain, files=files, size=300)
    found["end tokens"] = fingerprint(plain, files=files, end_token_ids=[3])
    assert len(set(found.values())) == len(found)
    assert found["plain"] == fingerprint(byte_level_tokenizer(), files=files)
    for each in tokenizers.values():
        expected = Vocabulary.from_tokenizer(each)
        for _ in range(2):
            vocabulary = cache.from_tokenizer(each, files=files)
            assert vocabulary.token_bytes == expected.token_bytes
            assert vocabulary.end_token_ids == expected.end_token_ids
            assert vocabulary.special_tokens == expected.special_tokens


def test_fingerprint_without_files_covers_all_names() -> None:
    def tokenizer(**names: int) -> Tokenizer:
        made = Tokenizer(models.WordLevel({**names, "</s>": 9}, "</s>"))
        made.decoder = decoders.Fuse()
        made.add_special_tokens(["</s>"])
        return made

    # With gaps between the ids, and without.
    cases = [{"ab": 0, "c": 1}, {"a": 0, "bc": 1}, {"ab": 0, "c": 2}, {"c": 0, "ab": 1}]
    dense = {str(k): k for k in range(9)}
    cases += [dense, {**dense, "0": 1, "1": 0}]
    digests = [fingerprint(tokenizer(**names)) for names in cases]
    assert len(set(digests)) == len(cases)
    assert digests == [fingerprint(tokenizer(**names)) for names in cases]


def test_fingerprint_covers_the_files(tmp_path: Path, tokenizer_file: Path) -> None:
    other = tmp_path / "tokenizer_config.json"
    other.write_text("{}")
    tokenizer = byte_level_tokenizer()
    found = [fingerprint(tokenizer, files=files) for files in ([other], [other, tokenizer_file])]
    other.write_text("{ }")
    found.append(fingerprint(tokenizer, files=[other]))
    assert len(set(found)) == 3


def test_unreadable_files_are_ignored(
    cache: VocabularyCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, missing = byte_level_tokenizer(), [tmp_path / "missing.json"]
    made = cache.from_tokenizer(tokenizer, files=missing)
    without_reading(monkeypatch)
    assert cache.from_tokenizer(tokenizer, files=missing).token_bytes == made.token_bytes
    assert cache.from_tokenizer(tokenizer).token_bytes == made.token_bytes


def test_using_a_tokenizer_keeps_its_fingerprint() -> None:
    tokenizer = byte_level_tokenizer()
    before = fingerprint(tokenizer)
    tokenizer.enable_padding()
    tokenizer.enable_truncation(5)
    tokenizer.encode("abc")
    assert fingerprint(tokenizer) == before


# --- directories that are not right ---------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"something else", None])
def test_damaged_file_is_written_again(
    content: bytes | None,
    cache: VocabularyCache,
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = byte_level_tokenizer()
    made = cache.from_tokenizer(tokenizer)
    (path,) = files_of(directory)
    whole = path.read_bytes()
    path.write_bytes(whole[:-7] + bytes(7) if content is None else content)
    assert cache.from_tokenizer(tokenizer).token_bytes == made.token_bytes
    assert "is unusable" in caplog.text
    assert path.name in caplog.text
    assert path.read_bytes() == whole
    without_reading(monkeypatch)
    cache.from_tokenizer(tokenizer)


def test_directory_in_place_of_a_file_is_tolerated(cache: VocabularyCache, directory: Path) -> None:
    tokenizer = byte_level_tokenizer()
    made = cache.from_tokenizer(tokenizer)
    (path,) = files_of(directory)
    path.unlink()
    path.mkdir()
    assert cache.from_tokenizer(tokenizer).token_bytes == made.token_bytes


def test_file_in_place_of_the_directory_is_tolerated(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    cache = VocabularyCache(tmp_path / "cache", min_tokens=0)
    assert cache.from_tokenizer(byte_level_tokenizer()).size


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError("read-only")


def test_read_only_directory_is_tolerated(
    cache: VocabularyCache,
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    old = cache.from_tokenizer(gemma_like())
    directory.chmod(0o555)  # Nothing to the super-user, so:
    for function in ("mkstemp", "mkdtemp"):
        monkeypatch.setattr(f"tempfile.{function}", _refuse)
    for function in ("utime", "unlink", "replace"):
        monkeypatch.setattr(os, function, _refuse)
    assert cache.from_tokenizer(byte_level_tokenizer()).size
    assert "to the cache: read-only" in caplog.text
    assert len(files_of(directory)) == 1
    without_reading(monkeypatch)
    assert cache.from_tokenizer(gemma_like()).token_bytes == old.token_bytes


def test_least_recently_used_file_is_removed(directory: Path) -> None:
    cache = VocabularyCache(directory, min_tokens=0, max_files=3)
    tokenizer = byte_level_tokenizer()
    paths: list[Path] = []
    for size in range(300, 303):
        cache.from_tokenizer(tokenizer, size=size)
        paths += [path for path in files_of(directory) if path not in paths]
        for path in paths:  # As if it had been an hour before each step.
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)
    cache.from_tokenizer(tokenizer, size=300)
    cache.from_tokenizer(tokenizer, size=303)
    left = files_of(directory)
    assert len(left) == 3
    assert paths[0] in left
    assert paths[1] not in left


def test_foreign_files_stay_and_abandoned_partial_files_go(
    cache: VocabularyCache, directory: Path
) -> None:
    directory.mkdir(parents=True)
    names = ["README", ".old.partial", ".new.partial"]
    for name in names:
        (directory / name).touch()
    long_ago = time.time() - 86_400
    os.utime(directory / ".old.partial", (long_ago, long_ago))
    os.utime(directory / "README", (long_ago, long_ago))
    cache.from_tokenizer(byte_level_tokenizer())
    left = {path.name for path in files_of(directory)}
    assert left > {"README", ".new.partial"}
    assert ".old.partial" not in left
    assert len(left) == 3


# --- several at once ------------------------------------------------------------------------


def _use(directory: str, barrier: Any) -> None:
    cache = VocabularyCache(directory, min_tokens=0, max_files=2)
    tokenizer = byte_level_tokenizer()
    expected = Vocabulary.from_tokenizer(tokenizer).token_bytes
    barrier.wait()
    for step in range(12):
        size = len(expected) + step % 4
        vocabulary = cache.from_tokenizer(tokenizer, size=size)
        MaskStore.of(vocabulary)
        assert vocabulary.token_bytes == expected + (None,) * (step % 4)


def test_concurrent_processes_share_a_directory(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=_use, args=(str(tmp_path), barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert 1 <= len(files_of(tmp_path)) <= 2


def test_concurrent_threads_share_a_cache(cache: VocabularyCache, directory: Path) -> None:
    found: list[Vocabulary] = []
    threads = [
        Thread(target=lambda: found.append(cache.from_tokenizer(byte_level_tokenizer())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({vocabulary.token_bytes for vocabulary in found}) == 1
    assert len(found) == 4
    assert len(files_of(directory)) == 1


def test_tokens_added_after_loading_change_the_fingerprint(
    tokenizer_file: Path, cache: VocabularyCache
) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    before = cache.from_tokenizer(tokenizer, files=[tokenizer_file])
    tokenizer.add_tokens([AddedToken("<added>")])
    after = cache.from_tokenizer(tokenizer, files=[tokenizer_file])
    assert after.token_bytes == (*before.token_bytes, b"<added>")
