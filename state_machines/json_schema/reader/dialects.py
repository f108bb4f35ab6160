"""How schemas are read: options, drafts, and the dialects that custom metaschemas define.

The ``$schema`` of a custom metaschema names its draft. Since 2019-09 its ``$vocabulary`` names the
vocabularies in use (2020-12 core, sections 8.1.2 and 10 to 14); the keywords of the draft's other
vocabularies are unknown keywords in that dialect.

A schema whose ``$schema`` names no draft is read as 2020-12, together with three forms that 2020-12
does not define and that many generators write without ``$schema``: tuples by an array in ``items``
(up to 2019-09; TypeBox), Boolean ``exclusiveMinimum`` and ``exclusiveMaximum`` (draft 4), and
``nullable`` (OpenAPI 3.0.3, section 4.7.24).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

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

from state_machines.errors import InvalidSchemaError, UnsupportedSchemaError, check_choice

AdditionalProperties = Literal["closed", "schema"]
"""``"schema"``: objects have the properties that the schema permits. ``"closed"``: an object whose
schema lists properties, and says nothing about others, has no others, unless it needs them."""

_ADDITIONAL = get_args(AdditionalProperties)


@dataclass(frozen=True)
class SchemaOptions:
    """How a schema is read.

    Attributes:
        assert_formats: Whether ``format`` constrains strings. A dialect whose metaschema declares
            the vocabulary ``format-assertion`` overrides this.
        strict: Whether to refuse keywords that the draft does not define. The specification says to
            ignore them.
        registry: The documents that references may lead to. Nothing is fetched.
        sources: The texts that strings with ``x-substring-of`` are quoted from, by name.
        additional_properties: Whether objects are generated without properties that no schema
            lists.
        closes_arrays: Whether that holds for arrays and their ``prefixItems``, too.
        excluding: JSON values that are not accepted although they satisfy the schema.

    Raises:
        InvalidArgumentError: ``additional_properties`` is unknown.
    """

    assert_formats: bool = True
    strict: bool = False
    registry: Registry[Any] | None = None
    sources: Mapping[str, str] | None = None
    additional_properties: AdditionalProperties = "schema"
    closes_arrays: bool = False
    excluding: Sequence[Any] = ()

    def __post_init__(self) -> None:
        check_choice("additional_properties", self.additional_properties, _ADDITIONAL)


@dataclass(frozen=True)
class Dialect:
    """A draft, or a draft with the vocabularies that a custom metaschema declares.

    Attributes:
        name: The draft.
        specification: The draft's rules for references, from the package ``referencing``.
        ref_overrides: Whether keywords adjacent to ``$ref`` are ignored.
        is_declared: Whether ``$schema`` names the dialect.
        boolean_exclusive: Whether ``exclusiveMinimum`` and ``exclusiveMaximum`` may be Booleans.
        numeric_exclusive: Whether ``exclusiveMinimum`` and ``exclusiveMaximum`` may be numbers.
        array_items: Whether ``items`` may be an array, with ``additionalItems`` for the rest.
        nullable: Whether ``nullable: true`` adds null to the adjacent ``type``.
        counts_contained: Whether ``minContains`` and ``maxContains`` are defined.
        contained_are_evaluated: Whether items that match ``contains`` count as evaluated.
        older_keywords: The keywords of older drafts that are also read.
        plain_integers: Whether ``1.0`` is not an integer.
        identifier: The keyword that gives a schema its URI.
        metaschema: The URI of the custom metaschema; empty for a draft.
        left_out: The keywords of the draft's vocabularies that are not in use.
        asserts_formats: Whether the metaschema requires ``format`` to be asserted.
    """

    name: str
    specification: Specification[Any]
    is_declared: bool = True
    ref_overrides: bool = False
    boolean_exclusive: bool = False
    numeric_exclusive: bool = True
    array_items: bool = False
    nullable: bool = False
    counts_contained: bool = False
    contained_are_evaluated: bool = False
    older_keywords: frozenset[str] = frozenset()
    plain_integers: bool = False
    identifier: str = "$id"
    metaschema: str = ""
    left_out: frozenset[str] = frozenset()
    asserts_formats: bool = False

    @property
    def identity(self) -> str:
        """A key that is unique to the dialect."""
        return self.metaschema or (self.name if self.is_declared else "")


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "4",
            DRAFT4,
            ref_overrides=True,
            boolean_exclusive=True,
            numeric_exclusive=False,
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


def _subresources(contents: Any) -> Iterable[Any]:
    """Yield the subschemas of a schema of 2020-12 that may have a tuple in ``items``."""
    if not isinstance(contents, dict) or not isinstance(contents.get("items"), list):
        return DRAFT202012.subresources_of(contents)
    rest = {name: value for name, value in contents.items() if name != "items"}
    additional = (contents["additionalItems"],) if "additionalItems" in contents else ()
    return (*DRAFT202012.subresources_of(rest), *contents["items"], *additional)


def _in_subresource(segments: Sequence[int | str], resolver: Any, subresource: Any) -> Any:
    """Return the resolver of a subschema; the index of a tuple's item is no keyword."""
    if isinstance(subresource.contents, list):
        return resolver
    kept = [
        segment
        for before, segment in zip(("", *segments), segments, strict=False)
        if not (before == "items" and isinstance(segment, int))
    ]
    return DRAFT202012.maybe_in_subresource(kept, resolver, subresource)


# The type checker does not see the attributes of the class, which the package `attrs` makes.
_make_specification: Any = Specification

UNDECLARED = replace(
    DIALECTS["2020-12"],
    specification=_make_specification(
        name="undeclared",
        id_of=DRAFT202012.id_of,
        subresources_of=_subresources,
        anchors_in=lambda _, contents: DRAFT202012.anchors_in(contents),
        maybe_in_subresource=_in_subresource,
    ),
    is_declared=False,
    boolean_exclusive=True,
    array_items=True,
    nullable=True,
    older_keywords=frozenset({"additionalItems"}),
)
"""2020-12 with the forms of other drafts, for schemas whose ``$schema`` names no draft."""

_LATEST = "json-schema.org/schema"
"""The URI that drafts 4 to 7 define as the latest draft, without scheme and fragment."""

_VOCABULARIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "2019-09": {
        "core": (),
        "applicator": ("applicator", "unevaluated"),
        "validation": ("validation",),
        "format": ("format",),
        "meta-data": (),
        "content": (),
    },
    "2020-12": {
        "core": (),
        "applicator": ("applicator",),
        "unevaluated": ("unevaluated",),
        "validation": ("validation",),
        "format-annotation": ("format",),
        "format-assertion": ("format",),
        "meta-data": (),
        "content": (),
    },
}
"""For each vocabulary of a draft: the ``Keyword.vocabulary`` whose keywords it enables.

The core vocabulary enables none, because its keywords are always in use. The keywords of
``meta-data`` and ``content`` are annotations, in use or not.
"""


def _without_scheme(uri: str) -> str:
    """Return a URI without ``http:`` or ``https:`` and without an empty fragment.

    The drafts up to 7 have ``http:`` and a fragment in their URI, the later ones ``https:`` and
    none. Generators mix them up.
    """
    return re.sub(r"\Ahttps?://", "", uri).removesuffix("#")


class DialectTable:
    """The dialects that ``$schema`` may name: the drafts, and the metaschemas of a registry.

    Args:
        registry: The documents among which metaschemas are looked up.
        keyword_names: The names of all keywords, by ``Keyword.vocabulary``.
    """

    def __init__(
        self, registry: Registry[Any], keyword_names: Mapping[str, frozenset[str]]
    ) -> None:
        self._registry = registry
        self._keyword_names = keyword_names
        self._dialects: dict[str, Dialect] = {}

    def named(self, uri: Any) -> Dialect:
        """Return the dialect that a ``$schema`` names.

        Raises:
            SchemaError: The dialect is unknown, malformed or unsupported. The error has no pointer.
        """
        if not isinstance(uri, str):
            raise InvalidSchemaError("$schema is not a string")
        if uri not in self._dialects:
            self._dialects[uri] = self._named(uri, frozenset())
        return self._dialects[uri]

    def _named(self, uri: str, referrers: frozenset[str]) -> Dialect:
        name = _without_scheme(uri)
        if not uri or name == _LATEST:
            return UNDECLARED
        for scheme in ("https", "http"):
            with suppress(UnknownDialect):
                specification = specification_with(f"{scheme}://{name}")
                for dialect in DIALECTS.values():
                    if dialect.specification is specification:
                        return dialect
        metaschema = self._metaschema(uri)
        if metaschema is None or uri in referrers:
            raise InvalidSchemaError(
                f"the dialect {uri!r} is not known",
                hint=f"Name one of the drafts {', '.join(DIALECTS)}, pass a registry that contains "
                "the metaschema, or leave $schema out for 2020-12",
            )
        base_uri = metaschema.get("$schema")
        if not isinstance(base_uri, str):
            raise InvalidSchemaError(f"the metaschema {uri!r} has no $schema that names its draft")
        base = self._named(base_uri, referrers | {uri})
        if base.name not in _VOCABULARIES or "$vocabulary" not in metaschema:
            return base
        return self._with_vocabularies(base, uri, metaschema["$vocabulary"])

    def _metaschema(self, uri: str) -> Mapping[str, Any] | None:
        try:
            found = self._registry.get_or_retrieve(uri.removesuffix("#")).value.contents
        except (Unresolvable, LookupError, ValueError, AttributeError, TypeError):
            return None
        return found if isinstance(found, dict) else None

    def _with_vocabularies(self, base: Dialect, uri: str, declared: Any) -> Dialect:
        """Return a draft with only the declared vocabularies in use.

        The value of a vocabulary says whether an implementation must know it. For the vocabulary
        ``format`` of 2019-09, the value says whether formats are asserted.
        """
        if not isinstance(declared, dict) or not all(
            isinstance(value, bool) for value in declared.values()
        ):
            raise InvalidSchemaError(f"$vocabulary of {uri!r} is not an object of Booleans")
        prefix = f"https://json-schema.org/draft/{base.name}/vocab/"
        known = {
            f"{prefix}{name}": frozenset[str]().union(*(self._keyword_names[v] for v in enabled))
            for name, enabled in _VOCABULARIES[base.name].items()
        }
        for vocabulary, is_required in declared.items():
            if is_required and vocabulary not in known:
                raise UnsupportedSchemaError(
                    f"the vocabulary {vocabulary!r}, which {uri!r} requires, is not known",
                    hint="Declare it with false if its keywords may be ignored",
                )
        used = frozenset[str]().union(*(known.get(name, ()) for name in declared))
        return replace(
            base,
            metaschema=uri,
            left_out=frozenset[str]().union(*known.values()) - used,
            asserts_formats=f"{prefix}format-assertion" in declared
            or declared.get(f"{prefix}format", False),
        )
