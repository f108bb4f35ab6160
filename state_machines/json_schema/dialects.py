"""The drafts of JSON Schema, in what they differ for the compiler, and dialects made of them.

A metaschema of the caller's own is a dialect: its ``$schema`` says of which draft, and its
``$vocabulary``, which the drafts since 2019-09 have, which of the draft's vocabularies are in use
(2020-12 core, sections 8.1.2 and 10 to 14). The keywords of the others are no keywords.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from referencing import Registry, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import (
    DRAFT4,
    DRAFT6,
    DRAFT7,
    DRAFT201909,
    DRAFT202012,
    UnknownDialect,
    specification_with,
)

from state_machines.errors import InvalidSchemaError, UnsupportedSchemaError

__all__ = ["DIALECTS", "Dialect", "DialectTable"]


@dataclass(frozen=True)
class Dialect:
    """One draft.

    ``ref_overrides``: keywords beside ``$ref`` are ignored. ``boolean_exclusive``:
    ``exclusiveMinimum`` and ``exclusiveMaximum`` are Booleans. ``array_items``: ``items`` may be
    an array, with ``additionalItems`` for the rest. ``counts_contained``: ``minContains`` and
    ``maxContains`` are known. ``contained_are_evaluated``: items that ``contains`` matches are
    evaluated items. ``plain_integers``: ``1.0`` is no integer. Of a dialect with vocabularies of
    its choice ``metaschema`` is the URI, ``left_out`` are the draft's keywords that it does not
    use, and with ``asserts_formats`` it says itself that formats are asserted.
    """

    name: str
    specification: Specification[Any]
    ref_overrides: bool = False
    boolean_exclusive: bool = False
    array_items: bool = False
    counts_contained: bool = False
    contained_are_evaluated: bool = False
    plain_integers: bool = False
    identifier: str = "$id"
    metaschema: str = ""
    left_out: frozenset[str] = frozenset()
    asserts_formats: bool = False

    @property
    def identity(self) -> str:
        """What tells the dialect from others."""
        return self.metaschema or self.name


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
            identifier="id",
        ),
        Dialect("6", DRAFT6, ref_overrides=True, array_items=True),
        Dialect("7", DRAFT7, ref_overrides=True, array_items=True),
        Dialect("2019-09", DRAFT201909, array_items=True, counts_contained=True),
        Dialect("2020-12", DRAFT202012, counts_contained=True, contained_are_evaluated=True),
    )
}

_APPLICATORS = frozenset(
    {
        *("items", "contains", "additionalProperties", "properties", "patternProperties"),
        *("dependentSchemas", "propertyNames", "if", "then", "else"),
        *("allOf", "anyOf", "oneOf", "not"),
    }
)
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_VALIDATION = frozenset(
    {
        *("type", "const", "enum", "multipleOf", "maximum", "exclusiveMaximum", "minimum"),
        *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
        *("uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties"),
        *("required", "dependentRequired"),
    }
)
_FORMAT = frozenset({"format"})

_VOCABULARIES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "2019-09": {
        "https://json-schema.org/draft/2019-09/vocab/core": frozenset(),
        "https://json-schema.org/draft/2019-09/vocab/applicator": (
            _APPLICATORS | _UNEVALUATED | {"additionalItems"}
        ),
        "https://json-schema.org/draft/2019-09/vocab/validation": _VALIDATION,
        "https://json-schema.org/draft/2019-09/vocab/format": _FORMAT,
        "https://json-schema.org/draft/2019-09/vocab/meta-data": frozenset(),
        "https://json-schema.org/draft/2019-09/vocab/content": frozenset(),
    },
    "2020-12": {
        "https://json-schema.org/draft/2020-12/vocab/core": frozenset(),
        "https://json-schema.org/draft/2020-12/vocab/applicator": _APPLICATORS | {"prefixItems"},
        "https://json-schema.org/draft/2020-12/vocab/unevaluated": _UNEVALUATED,
        "https://json-schema.org/draft/2020-12/vocab/validation": _VALIDATION,
        "https://json-schema.org/draft/2020-12/vocab/format-annotation": _FORMAT,
        "https://json-schema.org/draft/2020-12/vocab/format-assertion": _FORMAT,
        "https://json-schema.org/draft/2020-12/vocab/meta-data": frozenset(),
        "https://json-schema.org/draft/2020-12/vocab/content": frozenset(),
    },
}
"""The vocabularies of a draft, and the keywords of each that can be left out.

Those of the core vocabulary cannot; and what is an annotation in any case is not listed.
"""


class DialectTable:
    """The dialects that ``$schema`` may name: the drafts, and the metaschemas of a registry."""

    def __init__(self, registry: Registry[Any]) -> None:
        self._registry = registry
        self._made: dict[str, Dialect] = {}

    def named(self, uri: Any) -> Dialect:
        """Return the dialect of a ``$schema``.

        Raises :class:`~state_machines.errors.SchemaError` that is not located.
        """
        if not isinstance(uri, str):
            raise InvalidSchemaError("$schema is not a string")
        if uri not in self._made:
            self._made[uri] = self._named(uri, frozenset())
        return self._made[uri]

    def _named(self, uri: str, below: frozenset[str]) -> Dialect:
        with suppress(UnknownDialect):
            specification = specification_with(uri)
            for dialect in DIALECTS.values():
                if dialect.specification is specification:
                    return dialect
        metaschema = self._metaschema(uri)
        if metaschema is None or uri in below:
            raise InvalidSchemaError(
                f"the dialect {uri!r} is not known",
                hint=f"Known are the drafts {', '.join(DIALECTS)} and the metaschemas of the "
                "registry that is passed; leave $schema out for 2020-12",
            )
        base_uri = metaschema.get("$schema")
        if not isinstance(base_uri, str):
            raise InvalidSchemaError(f"the metaschema {uri!r} does not say of which draft it is")
        base = self._named(base_uri, below | {uri})
        vocabularies = _VOCABULARIES.get(base.name)
        if vocabularies is None or "$vocabulary" not in metaschema:
            return base
        return _with_vocabularies(base, uri, metaschema["$vocabulary"], vocabularies)

    def _metaschema(self, uri: str) -> Mapping[str, Any] | None:
        try:
            found = self._registry.get_or_retrieve(uri.removesuffix("#")).value.contents
        except (Unresolvable, LookupError, ValueError, AttributeError, TypeError):
            return None
        return found if isinstance(found, dict) else None


def _with_vocabularies(
    base: Dialect, uri: str, declared: Any, known: Mapping[str, frozenset[str]]
) -> Dialect:
    """Return a draft with the declared vocabularies in use.

    The value of a known one says only whether others may ignore it; of 2019-09's ``format``,
    whether it is asserted.
    """
    if not isinstance(declared, dict) or not all(isinstance(v, bool) for v in declared.values()):
        raise InvalidSchemaError(f"$vocabulary of {uri!r} is not an object of Booleans")
    for vocabulary, is_required in declared.items():
        if is_required and vocabulary not in known:
            raise UnsupportedSchemaError(
                f"the vocabulary {vocabulary!r}, which {uri!r} requires, is not known",
                hint="Declare it with false where its keywords may be ignored",
            )
    used = frozenset[str]().union(*(known.get(name, ()) for name in declared))
    left_out = frozenset[str]().union(*known.values()) - used
    prefix = f"https://json-schema.org/draft/{base.name}/vocab"
    return replace(
        base,
        metaschema=uri,
        left_out=left_out,
        asserts_formats=f"{prefix}/format-assertion" in declared
        or declared.get(f"{prefix}/format", False),
    )
