"""Sources of quotes: a text in chunks, and the places where a quote occurs in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from state_machines.budgets import spend
from state_machines.errors import InvalidArgumentError
from state_machines.grammar.suffix_array import CHARACTERS_PER_STEP
from state_machines.limits import LIMITS

_COUNTED_QUOTES = 1000
"""Occurrences of a quote in its source that are counted."""

_CHUNKS = re.compile(r"\s+|\w+|[^\w\s]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, the whitespace and the punctuation between them, as chunks.

    Chunks are maximal runs of whitespace, of letters, digits and underscores, and of other
    characters. Their concatenation is the text.
    """
    return _CHUNKS.findall(text)


def chunks_of(text: str, unit: str) -> Sequence[str]:
    """Return the chunks of a text: its ``"words"`` or its ``"chars"``."""
    return words_of(text) if unit == "words" else text


def find_quote(text: str, quote: str, unit: str) -> tuple[int, int] | None:
    """Return where a quote first occurs in a text, and the number of its occurrences.

    Args:
        text: The source.
        quote: The quote, not empty.
        unit: ``"words"``: an occurrence begins and ends between chunks. ``"chars"``: anywhere.

    Returns:
        The position in code points, and the count, at most ``_COUNTED_QUOTES``; occurrences
        may overlap. ``None`` if there is none.
    """
    places = quote_places(text, quote, unit)
    return (places[0], len(places)) if places else None


def quote_places(text: str, quote: str, unit: str) -> list[int]:
    """Return the positions of the first occurrences of a quote, as :func:`find_quote` counts."""
    places: list[int] = []
    tried = 0
    at = text.find(quote)
    while at >= 0 and len(places) < _COUNTED_QUOTES:
        tried += 1
        if not tried % CHARACTERS_PER_STEP:
            spend()
        if unit == "chars" or (_is_boundary(text, at) and _is_boundary(text, at + len(quote))):
            places.append(at)
        at = text.find(quote, at + 1)
    return places


def _is_boundary(text: str, at: int) -> bool:
    """Whether a chunk of :func:`words_of` begins or the text ends at a position."""
    if at in (0, len(text)):
        return True
    return len(_CHUNKS.findall(text[at - 1 : at + 1])) == 2


def check_source(text: str) -> None:
    """Raise ``InvalidArgumentError`` if a text cannot be a source of quotes."""
    if len(text) > LIMITS.source_characters:
        raise InvalidArgumentError(
            f"the source has {len(text):,} characters, and at most "
            f"{LIMITS.source_characters:,} are supported",
            argument="source",
            hint="Divide the source, and quote from its parts",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"the source has a lone surrogate at position {error.start}",
            argument="source",
            hint="Decode the source with errors='replace'",
        ) from error
