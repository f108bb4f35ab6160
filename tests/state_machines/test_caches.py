"""Caches of nodes keep few of them alive."""

import gc
from weakref import ref

from state_machines.regex import compile_pattern


def test_old_patterns_are_freed() -> None:
    first = ref(compile_pattern("^first of many$", search=True))
    for number in range(100):
        compile_pattern(f"^pattern {number}$", search=True)
    gc.collect()
    assert first() is None
