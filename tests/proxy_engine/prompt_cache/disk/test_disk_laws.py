"""Prompt caches on disk are a bounded map from prefixes to caches, shared by processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, QuantizedKVCache, RotatingKVCache

from proxy_engine.prompt_cache.disk.disk_cache import BLOCK_TOKENS, DiskCache
from proxy_engine.prompt_cache.format import (
    decode,
    encode,
    restore,
    snapshot,
)
from proxy_engine.prompt_cache.layers import flat

DTYPES = (mx.float32, mx.float16, mx.bfloat16)


def key_of(blocks: tuple[int, ...], rest: int) -> Any:
    """Return a text of blocks and a rest, each of one token repeated."""
    return np.repeat([*blocks, 9], [*[BLOCK_TOKENS] * len(blocks), rest]).astype(np.int64)


def cache_of(text: Any, *, by_token: bool) -> list[Any]:
    """Return a cache that depends on every token of the text before an entry."""
    sums = mx.array(np.cumsum(text % 97)).reshape(1, 1, -1, 1)
    layers: list[Any] = [KVCache() for _ in DTYPES]
    if not by_token:
        layers[0] = RotatingKVCache(BLOCK_TOKENS, keep=4)
    for layer, dtype in zip(layers, DTYPES, strict=True):
        layer.update_and_fetch(sums.astype(dtype), (sums + 1).astype(dtype))
    return layers


def check_equal(left: list[Any], right: list[Any]) -> None:
    for one, two in zip(flat(left), flat(right), strict=True):
        assert type(one) is type(two)
        assert one.offset == two.offset
        for ours, theirs in zip(one.keys_and_values(), two.keys_and_values(), strict=True):
            assert ours.dtype == theirs.dtype
            assert mx.array_equal(ours, theirs)


class SharedCaches(RuleBasedStateMachine):
    """Two processes on one directory, beside a map of what they have written."""

    @initialize(by_token=st.booleans(), is_bounded=st.booleans())
    def open(self, by_token: bool, is_bounded: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.by_token = by_token
        self.is_bounded = is_bounded
        self.max_bytes = 30_000 if is_bounded else 1 << 30
        self.disks = [self.opened(), self.opened()]
        self.written: set[bytes] = set()

    def opened(self) -> DiskCache:
        return DiskCache(
            Path(self.folder.name),
            {"by_token": str(self.by_token)},
            self.max_bytes,
            by_token=self.by_token,
            fits=lambda *_: True,
        )

    def teardown(self) -> None:
        for disk in getattr(self, "disks", []):
            disk.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    texts = st.builds(
        key_of, st.lists(st.integers(0, 1), max_size=3).map(tuple), st.sampled_from([0, 1, 100])
    )
    indices = st.integers(0, 1)

    @rule(index=indices, text=texts)
    def keep(self, index: int, text: Any) -> None:
        if not len(text):
            return
        disk = self.disks[index]
        disk.keep(text, cache_of(text, by_token=self.by_token))
        assert disk.wait(30)
        if self.by_token:
            ends = range(BLOCK_TOKENS, len(text) + 1, BLOCK_TOKENS)
            self.written |= {text[:end].tobytes() for end in ends}
        elif len(text) >= BLOCK_TOKENS:
            self.written.add(text.tobytes())

    @rule(index=indices, text=texts, above=st.sampled_from([0, 1, BLOCK_TOKENS]))
    def find(self, index: int, text: Any, above: int) -> None:
        found = self.disks[index].find(text, above=above, max_bytes=1 << 30)
        known = [
            end
            for end in range(BLOCK_TOKENS, len(text) + 1)
            if text[:end].tobytes() in self.written
        ]
        longest = max(known, default=0)
        if longest < above + BLOCK_TOKENS:
            assert found is None
        elif not self.is_bounded:
            assert found is not None
            assert found[1] == longest
        if found is not None:
            cache, length = found
            assert length in known
            check_equal(cache, cache_of(text[:length], by_token=self.by_token))

    @rule(index=indices)
    def restart(self, index: int) -> None:
        self.disks[index].close()
        self.disks[index] = self.opened()

    @rule(index=indices)
    def clear(self, index: int) -> None:
        self.disks[index].clear()
        self.written.clear()

    @invariant()
    def bound_is_kept(self) -> None:
        if hasattr(self, "disks"):
            files = self.disks[0].directory.glob("*")
            assert sum(path.stat().st_size for path in files) <= self.max_bytes


TestSharedCaches = SharedCaches.TestCase
TestSharedCaches.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


def test_state_of_every_kind_is_restored() -> None:
    arrays = ArraysCache(3)
    arrays[0] = mx.arange(6, dtype=mx.int8).reshape(2, 3)
    arrays[2] = mx.array([[True, False]])
    quantized = QuantizedKVCache(group_size=32, bits=4)
    quantized.update_and_fetch(mx.ones((1, 2, 7, 64)), mx.ones((1, 2, 7, 64)))
    cache = [CacheList(KVCache(), arrays), quantized, KVCache()]
    (content,) = [decode(b"".join(encode(snapshot(cache), {"name": "s7-x"})))]
    assert content.metadata["name"] == "s7-x"
    listed, restored, empty = restore([content], 7)
    assert (listed[0].keys, listed[0].offset, empty.keys) == (None, 0, None)
    assert listed[1][1] is None
    assert mx.array_equal(listed[1][0], arrays[0])
    assert mx.array_equal(listed[1][2], arrays[2])
    assert (restored.bits, restored.group_size, restored.offset) == (4, 32, 7)
    for ours, theirs in zip(restored.keys, quantized.keys, strict=True):
        assert mx.array_equal(ours, theirs[..., :7, :])


def test_files_are_safetensors(tmp_path: Path) -> None:
    cache = cache_of(key_of((1,), 5), by_token=True)
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"".join(encode(snapshot(cache), {}, slice(0, BLOCK_TOKENS))))
    arrays: Any = mx.load(str(path))
    assert [arrays[str(index)].dtype for index in range(6)] == [one for one in DTYPES for _ in "kv"]
    assert mx.array_equal(arrays["0"], cache[0].keys[..., :BLOCK_TOKENS, :])
