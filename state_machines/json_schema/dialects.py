"""The drafts of JSON Schema and in what they differ for the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

__all__ = ["DIALECTS", "Dialect"]


@dataclass(frozen=True)
class Dialect:
    """One draft.

    ``ref_overrides``: keywords beside ``$ref`` are ignored. ``boolean_exclusive``:
    ``exclusiveMinimum`` and ``exclusiveMaximum`` are Booleans. ``array_items``: ``items`` may be
    an array, with ``additionalItems`` for the rest. ``counts_contained``: ``minContains`` and
    ``maxContains`` are known. ``contained_are_evaluated``: items that ``contains`` matches are
    evaluated items. ``plain_integers``: ``1.0`` is no integer.
    """

    name: str
    specification: Specification[Any]
    ref_overrides: bool = False
    boolean_exclusive: bool = False
    array_items: bool = False
    counts_contained: bool = False
    contained_are_evaluated: bool = False
    plain_integers: bool = False


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "4",
            DRAFT4,
            ref_overrides=True,
            boolean_exclusive=True,
            array_items=True,
            plain_integers=True,
        ),
        Dialect("6", DRAFT6, ref_overrides=True, array_items=True),
        Dialect("7", DRAFT7, ref_overrides=True, array_items=True),
        Dialect("2019-09", DRAFT201909, array_items=True, counts_contained=True),
        Dialect("2020-12", DRAFT202012, counts_contained=True, contained_are_evaluated=True),
    )
}
