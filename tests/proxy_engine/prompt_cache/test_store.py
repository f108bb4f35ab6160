"""Which text serves for which, and which is given up."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.generate import DEFAULT_QUANTIZED_KV_START

from proxy_engine import InvalidOptionError
from proxy_engine.prompt_cache import CacheOptions
from proxy_engine.prompt_cache.store import Store, StoredPrompt, token_array

UNBOUNDED = 1 << 40
texts = st.lists(st.integers(0, 2), min_size=1, max_size=7)


@dataclass
class Layer:
    """The properties of a cache that the store uses."""

    nbytes: int = 100
    offset: int = 0
    trimmable: bool = True

    def is_trimmable(self) -> bool:
        return self.trimmable


def entry(token_ids: list[int], *, nbytes: int = 100, is_trimmable: bool = True) -> StoredPrompt:
    return StoredPrompt.of(token_array(token_ids), [Layer(nbytes, trimmable=is_trimmable)])


def shared(left: list[int], right: list[int]) -> int:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return count


@given(st.lists(st.tuples(texts, st.booleans()), max_size=6), texts)
def test_longest_prefix_of_all_texts_is_found(
    added: list[tuple[list[int], bool]], wanted: list[int]
) -> None:
    store = Store(UNBOUNDED)
    for token_ids, is_trimmable in added:
        store.add(entry(token_ids, is_trimmable=is_trimmable))
    longest = max(
        (
            shared(ids, wanted)
            for ids, is_trimmable in added
            if is_trimmable or shared(ids, wanted) == len(ids)
        ),
        default=0,
    )
    found = store.find(token_array(wanted))
    assert (0 if found is None else found[1]) == longest
    assert store.covers(token_array(wanted)) == (longest == len(wanted))
    if found is not None:
        assert shared(found[0].token_ids.tolist(), wanted) == longest


@given(
    st.lists(st.tuples(texts, st.booleans(), st.integers(0, 300)), max_size=12),
    st.integers(0, 700),
)
def test_store_stays_within_its_bound_and_keeps_the_latest(
    added: list[tuple[list[int], bool, int]], most: int
) -> None:
    store = Store(most)
    for token_ids, is_trimmable, nbytes in added:
        own = entry(token_ids, nbytes=nbytes, is_trimmable=is_trimmable)
        store.add(own)
        assert store.nbytes <= most
        assert (store.nbytes == 0) == (len(store) == 0)
        if own.nbytes <= most:
            assert store.covers(token_array(token_ids))


def test_covers_does_not_refresh_an_entry() -> None:
    store = Store(2 * entry([1]).nbytes)
    store.add(entry([1]))
    store.add(entry([2]))
    assert store.covers(token_array([1]))
    store.add(entry([3]))
    assert not store.covers(token_array([1]))


def test_trimmable_text_replaces_its_prefixes() -> None:
    store = Store(UNBOUNDED)
    store.add(entry([1]))
    store.add(entry([1, 2], is_trimmable=False))
    store.add(entry([1, 2, 3]))
    assert len(store) == 1
    assert not store.add(entry([1, 2]))
    assert len(store) == 1
    assert store.nbytes == entry([1, 2, 3]).nbytes


def test_checkpoint_stays_beside_longer_texts() -> None:
    store = Store(UNBOUNDED)
    for length in (1, 2, 3):
        assert store.add(entry([1, 2, 3][:length], is_trimmable=False))
    assert not store.add(entry([1, 2], is_trimmable=False))
    assert len(store) == 3


def test_shared_beginning_survives_a_long_conversation() -> None:
    size = entry([0] * 5, is_trimmable=False).nbytes
    store = Store(3 * size)
    text = [7]
    store.add(entry(text, is_trimmable=False))
    for turn in range(8):
        text.append(turn % 2)
        found = store.find(token_array(text))
        assert found is not None
        assert found[1] == len(text) - 1
        store.add(entry(text, is_trimmable=False, nbytes=100 - 4 * len(text)))
    assert store.covers(token_array([7]))


def test_number_of_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy_engine.prompt_cache.store._MAX_ENTRIES", 10)
    store = Store(UNBOUNDED)
    for number in range(25):
        store.add(entry([number, 1]))
    assert len(store) == 10
    assert store.nbytes == 10 * entry([1, 1]).nbytes
    assert not store.covers(token_array([14, 1]))
    assert store.covers(token_array([15, 1]))


# Validation of cache options.


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_kv_size", 4),
        ("max_kv_size", True),
        ("max_kv_size", 8.0),
        ("kv_bits", 7),
        ("kv_bits", 0),
        ("kv_bits", "8"),
        ("kv_group_size", 48),
        ("kv_group_size", None),
        ("quantized_kv_start", -1),
        ("max_bytes", -1),
        ("max_bytes", None),
        ("max_checkpoints", -1),
    ],
)
def test_values_out_of_range_are_rejected(option: str, value: object) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        CacheOptions(**{option: value})  # type: ignore[arg-type]
    assert caught.value.option == option


def test_max_kv_size_with_kv_bits_is_rejected() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        CacheOptions(max_kv_size=100, kv_bits=8)
    assert caught.value.option == "kv_bits"


def test_directory_of_other_writers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode in (0o777, 0o1777, 0o770, 0o702):
        tmp_path.chmod(mode)
        with pytest.raises(InvalidOptionError, match=rf"mode is {mode:o}; use `chmod 700`"):
            CacheOptions(directory=tmp_path)
    # A directory that does not exist is created with mode 0700.
    for directory in (tmp_path, tmp_path / "new"):
        tmp_path.chmod(0o755)
        CacheOptions(directory=directory)
    os.chown(tmp_path, 12_345, -1) if os.geteuid() == 0 else monkeypatch.setattr(
        os, "geteuid", lambda: 12_345
    )
    with pytest.raises(InvalidOptionError, match="belong to this user"):
        CacheOptions(directory=tmp_path)


def test_quantized_kv_start_has_the_default_of_mlx_lm() -> None:
    assert CacheOptions().quantized_kv_start == DEFAULT_QUANTIZED_KV_START
