"""Types of pydantic and msgspec, with texts that they read and texts that they refuse."""

from __future__ import annotations

from type_catalogue import (
    address_types,
    alias_types,
    bytes_types,
    code_types,
    collection_types,
    combined_types,
    enum_types,
    key_types,
    model_types,
    msgspec_records,
    msgspec_values,
    number_types,
    record_types,
    string_types,
    temporal_types,
    union_types,
)
from type_catalogue.entry import Entry, entry, in_msgspec

__all__ = ["CATALOGUE", "Entry", "entry", "in_msgspec"]

CATALOGUE: tuple[Entry, ...] = (
    *number_types.ENTRIES,
    *string_types.ENTRIES,
    *temporal_types.ENTRIES,
    *bytes_types.ENTRIES,
    *address_types.ENTRIES,
    *key_types.ENTRIES,
    *enum_types.ENTRIES,
    *union_types.ENTRIES,
    *collection_types.ENTRIES,
    *model_types.ENTRIES,
    *alias_types.ENTRIES,
    *record_types.ENTRIES,
    *combined_types.ENTRIES,
    *code_types.ENTRIES,
    *msgspec_values.ENTRIES,
    *msgspec_records.ENTRIES,
)
