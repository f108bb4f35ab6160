r"""The sets of characters that Python's ``re`` matches, found by matching.

``re`` has its own rules: ``\w`` is :meth:`str.isalnum` or ``_``, and without case it compares lower
case of one character, with a table of further equal characters. Its sets are therefore not computed
here. ``re`` itself tells which characters an expression matches.
"""

from __future__ import annotations

import re
from functools import lru_cache

from state_machines.budgets import spend
from state_machines.grammar.symbols import CodePointSet
from state_machines.regex.unicode_classes import (
    PROPERTY_STEPS,
    all_characters,
    characters_matching,
)

_CASED_STEPS = 50
"""Steps charged for matching all characters that have case."""


@lru_cache(maxsize=6)
def perl_members(letter: str, *, is_ascii: bool) -> CodePointSet:
    """Return the set of ``d``, ``s`` or ``w``."""
    return characters_matching(re.compile(rf"\{letter}+", re.ASCII if is_ascii else re.UNICODE))


@lru_cache(maxsize=1)
def _with_case() -> tuple[str, CodePointSet]:
    """Return all characters with another case, as a string and as a set."""
    spend(PROPERTY_STEPS)
    found = "".join(
        character
        for character in all_characters()
        if not character.lower() == character == character.upper() == character.casefold()
    )
    return found, CodePointSet.of(found)


def ignoring_case(source: str, members: CodePointSet, *, is_ascii: bool) -> CodePointSet:
    """Return the characters that an expression for one character matches without case.

    Args:
        source: The expression.
        members: The characters that it matches with case.
        is_ascii: Whether the flag ``re.ASCII`` is set.
    """
    spend(_CASED_STEPS)
    characters, with_case = _with_case()
    matcher = re.compile(source, re.IGNORECASE | (re.ASCII if is_ascii else re.UNICODE))
    return members & ~with_case | CodePointSet.of("".join(matcher.findall(characters)))
