"""Vocabularies as files: round trips, damaged files and foreign files."""

from __future__ import annotations

import gc
import hashlib
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
from data_files import NO_TOKENIZERS, tokenizer_files
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples
from small_tokenizers import (
    byte_level_tokenizer,
    gemma_like,
    llama2_like,
    unigram_tokenizer,
    word_level_tokenizer,
)
from small_vocabulary import brute_force_mask, small_vocabulary
from tokenizers import Tokenizer, decoders

from state_machines import JsonSchemaStateMachine, Vocabulary, VocabularyError
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary.array_file import read_arrays, write_arrays

# Of the arrays of `_everything`. Where one differs, what older versions have saved means something
# else now: raise LAYOUT, and write down the new digests.
_LAYOUT_6 = {
    "small": "d09c554ea35128a1",
    "byte level": "8a61e62d2c978dfe",
    "llama 2": "071045733e037871",
    "gemma": "a5ea59c9e144e28a",
    "unigram": "6035dded16d1d503",
    "words": "dc1b94d1388b731b",
}


_REAL = tokenizer_files()


def _everything() -> dict[str, Vocabulary]:
    """Return vocabularies of all kinds."""
    tokenizers = {
        "byte level": byte_level_tokenizer(),
        "llama 2": llama2_like(),
        "gemma": gemma_like(),
        "unigram": unigram_tokenizer(),
        "words": word_level_tokenizer(decoders.Fuse()),
    }
    made = {name: Vocabulary.from_tokenizer(each) for name, each in tokenizers.items()}
    return {"small": small_vocabulary(), **made}


def saved(vocabulary: Vocabulary, path: Path) -> Vocabulary:
    """Return the vocabulary after a way through a file."""
    vocabulary.save(path)
    return Vocabulary.load(path)


def assert_same(first: Vocabulary, second: Vocabulary) -> None:
    """Fail unless two vocabularies say the same of everything."""
    assert first.token_bytes == second.token_bytes
    assert isinstance(second.token_bytes, tuple)
    assert first.end_token_ids == second.end_token_ids
    assert dict(first.special_tokens) == dict(second.special_tokens)
    assert first.strips_first_space == second.strips_first_space
    assert first.size == second.size
    ours, theirs = first.tables.groups(), second.tables.groups()
    assert ours.keys() == theirs.keys()
    for group in ours:
        assert ours[group].keys() == theirs[group].keys()
        for name, array in ours[group].items():
            np.testing.assert_array_equal(array, theirs[group][name])
            assert array.dtype == theirs[group][name].dtype


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Draw vocabularies with unused ids, doubles and special tokens."""
    piece = st.one_of(
        st.binary(min_size=1, max_size=4),
        st.text(min_size=1, max_size=3).map(lambda text: text.encode(errors="ignore") or b"x"),
        st.sampled_from([b'"', b'",', b"\\u00", b"\xf0\x9f", b"\xff"]),
    )
    forms = draw(st.lists(st.one_of(piece, st.none()), min_size=1, max_size=40))
    used = [token_id for token_id, form in enumerate(forms) if form is not None]
    if not used:
        forms, used = [b"e"], [0]
    ends = draw(st.sets(st.sampled_from(used), min_size=1, max_size=3))
    specials = draw(
        st.dictionaries(st.text(st.characters(codec="utf-8")), st.sampled_from(used), max_size=3)
    )
    return Vocabulary(
        forms,
        end_token_ids=ends,
        special_tokens=specials,
        strips_first_space=draw(st.booleans()),
    )


@examples(25)
@given(vocabularies(), st.booleans())
def test_saved_vocabulary_is_loaded_unchanged(
    tmp_path_factory: pytest.TempPathFactory, vocabulary: Vocabulary, with_tables: bool
) -> None:
    if with_tables:
        MaskStore.of(vocabulary)
        assert len(vocabulary.tables.groups()) == 2
    path = tmp_path_factory.getbasetemp() / "round-trip"
    again = saved(vocabulary, path)
    assert_same(vocabulary, again)
    MaskStore.of(vocabulary)
    MaskStore.of(again)
    assert_same(vocabulary, again)


def test_loaded_vocabulary_gives_the_same_masks(tmp_path: Path) -> None:
    vocabulary = small_vocabulary()
    loaded = saved(vocabulary, tmp_path / "v")
    machine = JsonSchemaStateMachine({"properties": {"a": {"maxLength": 2}, "b": {"enum": [12]}}})
    ours, theirs = machine.matcher(vocabulary), machine.matcher(loaded)
    for _ in range(6):
        mask = theirs.allowed_tokens()
        np.testing.assert_array_equal(mask, ours.allowed_tokens())
        np.testing.assert_array_equal(mask, brute_force_mask(theirs.state, loaded))
        more = [i for i in np.flatnonzero(mask).tolist() if i not in loaded.end_token_ids]
        if not more:
            break
        ours.advance(more[-1])
        theirs.advance(more[-1])


def test_layout_version_matches_the_saved_arrays(tmp_path: Path) -> None:
    digests = {}
    for name, vocabulary in _everything().items():
        MaskStore.of(vocabulary)
        vocabulary.save(tmp_path / name)
        arrays, metadata = read_arrays(tmp_path / name)
        digest = hashlib.sha256(repr(metadata).encode())
        for key, array in sorted(arrays.items()):
            digest.update(key.encode() + array.dtype.str.encode() + array.tobytes())
        digests[name] = digest.hexdigest()[:16]
    assert digests == _LAYOUT_6


def test_loaded_arrays_are_read_only(tmp_path: Path) -> None:
    vocabulary = small_vocabulary()
    MaskStore.of(vocabulary)
    loaded = saved(vocabulary, tmp_path / "v")
    for each in (vocabulary, loaded):
        for arrays in each.tables.groups().values():
            assert not any(array.flags.writeable for array in arrays.values())


@pytest.mark.skipif(not _REAL, reason=NO_TOKENIZERS)
def test_real_vocabulary_is_loaded_unchanged(tmp_path: Path) -> None:
    for path in tokenizer_files(few=True)[:1]:
        vocabulary = Vocabulary.from_tokenizer(Tokenizer.from_file(str(path)))
        MaskStore.of(vocabulary)
        loaded = saved(vocabulary, tmp_path / "v")
        MaskStore.of(loaded)
        assert_same(vocabulary, loaded)
        anew = Vocabulary(
            vocabulary.token_bytes,
            end_token_ids=vocabulary.end_token_ids,
            special_tokens=vocabulary.special_tokens,
        )
        MaskStore.of(anew)
        for group, arrays in anew.tables.groups().items():
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, loaded.tables.groups()[group][name])


# --- files that are not right ---------------------------------------------------------------


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a file."""
    path = tmp_path_factory.mktemp("content") / "v"
    vocabulary = small_vocabulary()
    MaskStore.of(vocabulary)
    vocabulary.save(path)
    return path.read_bytes()


def refused(path: Path, content: bytes) -> None:
    """Fail unless loading the content raises a VocabularyError."""
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=path.name):
        Vocabulary.load(path)


def test_damage_of_any_byte_is_detected(content: bytes, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for place in [*range(100), *random.integers(0, len(content), 300)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(random.integers(8))
        refused(tmp_path / "damaged", bytes(damaged))


def test_truncated_or_extended_file_is_refused(content: bytes, tmp_path: Path) -> None:
    for length in [*range(100), len(content) // 2, len(content) - 1]:
        refused(tmp_path / "short", content[:length])
    refused(tmp_path / "long", content + b"\0")


@pytest.mark.parametrize("foreign", [b"", b"{}", b"PK\x03\x04" + bytes(100), b"\xff" * 1000])
def test_foreign_file_is_refused(foreign: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "foreign", foreign)


def test_other_layout_version_is_refused(tmp_path: Path) -> None:
    small_vocabulary().save(tmp_path / "v")
    arrays, metadata = read_arrays(tmp_path / "v")
    write_arrays(tmp_path / "v", arrays, {**metadata, "layout": 0})
    with pytest.raises(VocabularyError, match="layout"):
        Vocabulary.load(tmp_path / "v")


def test_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Vocabulary.load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        small_vocabulary().save(tmp_path / "missing" / "v")
    with pytest.raises(IsADirectoryError):
        Vocabulary.load(tmp_path)


@pytest.mark.parametrize("failing", ["replace", "chmod"])
def test_failed_save_leaves_the_old_file(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_vocabulary().save(tmp_path / "v")
    before = (tmp_path / "v").read_bytes()

    def fail(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(PermissionError):
        Vocabulary([b"a", b"b"], end_token_ids=[1]).save(tmp_path / "v")
    assert [path.name for path in tmp_path.iterdir()] == ["v"]
    assert (tmp_path / "v").read_bytes() == before


# --- tables ---------------------------------------------------------------------------------


def test_masks_do_not_keep_a_vocabulary_alive(tmp_path: Path) -> None:
    vocabularies = [small_vocabulary(), saved(small_vocabulary(), tmp_path / "v")]
    while vocabularies:
        vocabulary = vocabularies.pop()
        store, alive = MaskStore.of(vocabulary), weakref.ref(vocabulary)
        del vocabulary
        gc.collect()
        assert alive() is None
        assert store is not None
