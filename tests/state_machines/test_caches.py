"""Caches of nodes keep few of them alive."""

import gc
from weakref import ref

from state_machines.caches import WeakValueLruCache
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import literal
from state_machines.regex import compile_pattern


def test_weak_value_cache_holds_only_the_last_values() -> None:
    memo: WeakValueLruCache[int, Node] = WeakValueLruCache(2)
    nodes = [
        memo.get(number, lambda number=number: literal(b"x%d" % number)) for number in range(5)
    ]
    assert [memo.get(n, lambda: literal(b"other")) for n in range(5)] == nodes
    dying = [ref(node) for node in nodes]
    del nodes
    gc.collect()
    assert [held() is not None for held in dying] == [False, False, False, True, True]
    assert memo.get(0, lambda: literal(b"anew")).matches(b"anew")


def test_old_patterns_are_freed() -> None:
    first = ref(compile_pattern("^first of many$", search=True))
    for number in range(100):
        compile_pattern(f"^pattern {number}$", search=True)
    gc.collect()
    assert first() is None
