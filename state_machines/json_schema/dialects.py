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
    an array, with ``additionalItems`` for the rest.
    """

    name: str
    specification: Specification[Any]
    ref_overrides: bool = False
    boolean_exclusive: bool = False
    array_items: bool = False


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("4", DRAFT4, ref_overrides=True, boolean_exclusive=True, array_items=True),
        Dialect("6", DRAFT6, ref_overrides=True, array_items=True),
        Dialect("7", DRAFT7, ref_overrides=True, array_items=True),
        Dialect("2019-09", DRAFT201909, array_items=True),
        Dialect("2020-12", DRAFT202012),
    )
}
