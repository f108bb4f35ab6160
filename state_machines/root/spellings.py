"""The bytes of markers: texts such as ``[CALL]``, or special tokens such as ``<|call|>``."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from state_machines.grammar.tokens import Spell
from state_machines.vocabulary import Vocabulary

_SPELLERS = 64
"""Functions that spell texts, of the last vocabularies."""


@dataclass(frozen=True, slots=True)
class MarkerSpelling:
    """The bytes of a marker.

    An end token is left to the end of the output, unless the output continues behind it.

    Attributes:
        form: The bytes up to an end token.
        ends_output: Whether an end token follows them.
        is_special: Whether any part of the marker is a special token.
    """

    form: bytes
    ends_output: bool
    is_special: bool


END_TOKEN = MarkerSpelling(b"", ends_output=True, is_special=True)


def speller(special_tokens: Collection[str]) -> Spell:
    """Return a function that spells texts in which the names of special tokens may occur.

    A special token has the form that :class:`~state_machines.Vocabulary` gives it. Where several
    names match, the longest counts. The functions of equal names are one object.
    """
    return _speller(frozenset(special_tokens)) if special_tokens else str.encode


@lru_cache(maxsize=_SPELLERS)
def _speller(special_tokens: frozenset[str]) -> Spell:
    names = sorted((name.encode() for name in special_tokens), key=len, reverse=True)
    pattern = re.compile(b"|".join(map(re.escape, names)))
    return lambda text: pattern.sub(lambda name: Vocabulary.SPECIAL_MARK + name[0], text.encode())


@lru_cache(maxsize=_SPELLERS)
def inner_speller(spell: Spell, end_tokens: frozenset[bytes]) -> Spell:
    """Return a function that spells texts inside a sub-state.

    An end token ends the output, so its name is written in ordinary tokens there.
    """

    def spell_inside(text: str) -> bytes:
        form, *specials = spell(text).split(Vocabulary.SPECIAL_MARK)
        for special in specials:
            is_end = any(special.startswith(name) for name in end_tokens)
            form += special if is_end else Vocabulary.SPECIAL_MARK + special
        return form

    return spell_inside
