"""The keywords of JSON Schema: one record for each, and the reading of schemas by them.

To add a keyword, write its reader, in ``assertions`` or ``applicators`` beside this module, and add
one record to :data:`KEYWORDS`. A reader asks no question about terms, such as which are empty: it
returns a term that states the question, which is answered when the term is evaluated.

Everything else that depends on the set of keywords is derived from the records: the keywords of
each draft and vocabulary, the keywords that apply to property names, the order of evaluation, and
the keyword that is named when a budget is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import (
    GrammarBudgetError,
    PatternError,
    SchemaError,
    UnsupportedSchemaError,
)
from state_machines.json_schema.algebra.terms import Conjunction, Disjunction, Negation, Term
from state_machines.json_schema.algebra.value_sets import (
    ANY_VALUE,
    ValueSet,
    conjoin,
)
from state_machines.json_schema.reader import applicators as apply
from state_machines.json_schema.reader import assertions as assert_
from state_machines.json_schema.reader.context import Context
from state_machines.json_schema.reader.dialects import DIALECTS
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.json_schema.reader.unevaluated import unevaluated_items, unevaluated_properties
from state_machines.reader_languages.table import READER_LANGUAGE

KeywordReader = Callable[[Context, SchemaLocation, Any], ValueSet | Term]
"""Returns the values that a keyword alone admits, given its schema and its value.

A reader that depends on adjacent keywords, as ``additionalProperties`` depends on ``properties``,
reads them from the schema.
"""

_SCALARS = frozenset({"null", "boolean", "number", "string"})
_ANY = _SCALARS | {"array", "object"}
_NUMBER = frozenset({"number"})
_STRING = frozenset({"string"})
_ARRAY = frozenset({"array"})
_OBJECT = frozenset({"object"})

READ_STEPS = 8
"""Steps charged for the reading of a schema, beside one for each keyword."""

_READ_AS = frozenset({"format", "pattern", "minLength", "maxLength"})
"""The keywords that only describe a string whose language ``x-reader-language`` gives."""

_DRAFTS = tuple(DIALECTS)
_ALL = frozenset(_DRAFTS)
_SINCE_6 = _ALL - {"4"}
_SINCE_7 = _SINCE_6 - {"6"}
_SINCE_2019 = _SINCE_7 - {"7"}
_SINCE_2020 = frozenset({"2020-12"})
_UNTIL_2019 = _ALL - _SINCE_2020
_UNTIL_7 = _ALL - _SINCE_2019


@dataclass(frozen=True, slots=True)
class Keyword:
    """Everything that the compiler knows about one keyword.

    A keyword whose meaning depends on the draft has a record for each meaning.

    Attributes:
        name: The keyword as it is written in a schema.
        read: Returns the values that the keyword admits. ``None`` for keywords that alone constrain
            nothing: annotations, identifiers, and keywords that modify an adjacent one (``then``).
        types: The JSON types whose values the keyword can constrain (``"integer"`` is part of
            ``"number"``). All other values must satisfy the keyword.
        drafts: The drafts that define the keyword. Annotations count as defined by all.
        vocabulary: The vocabulary of 2020-12 that defines the keyword; ``"format"`` stands for
            both format vocabularies, ``"openapi"`` for OpenAPI's annotations.
        kind: The type of the keyword's value; ``object`` if the reader checks it.
        applies_schemas: Whether the keyword applies other schemas.
        is_conditional: Whether the keyword tests properties that may be absent. Conditional
            keywords are read last, so that listed properties come first in the property order.
        cost: How much work the keyword can cause, from 0 to 7. An exceeded budget is attributed to
            the costliest keyword of a schema.
    """

    name: str
    read: KeywordReader | None = None
    types: frozenset[str] = _ANY
    drafts: frozenset[str] = _ALL
    vocabulary: str = "core"
    kind: type = object
    applies_schemas: bool = False
    is_conditional: bool = False
    cost: int = 0

    @property
    def is_scalar_assertion(self) -> bool:
        """Whether the keyword constrains scalars without applying another schema."""
        return self.read is not None and not self.applies_schemas and bool(self.types & _SCALARS)


def _annotations(vocabulary: str, *names: str) -> Iterable[Keyword]:
    return (Keyword(name, vocabulary=vocabulary) for name in names)


_reference = partial(Keyword, applies_schemas=True)
_applicator = partial(Keyword, vocabulary="applicator", applies_schemas=True)
_unevaluated = partial(_applicator, vocabulary="unevaluated", is_conditional=True, cost=2)
_assertion = partial(Keyword, vocabulary="validation")
_dependency = partial(
    Keyword,
    types=_OBJECT,
    drafts=_SINCE_2019,
    vocabulary="applicator",
    kind=dict,
    is_conditional=True,
    cost=3,
)

KEYWORDS: tuple[Keyword, ...] = (
    # References.
    _reference("$ref", apply.ref),
    _reference("$dynamicRef", apply.dynamic_ref, drafts=_SINCE_2020),
    _reference("$recursiveRef", apply.recursive_ref, drafts=frozenset({"2019-09"})),
    # Applicators to the value itself.
    _applicator("oneOf", apply.one_of, kind=list, cost=5),
    _applicator("anyOf", apply.any_of, kind=list, cost=5),
    _applicator("allOf", apply.all_of, kind=list, cost=5),
    _applicator("not", apply.not_, is_conditional=True, cost=4),
    _applicator("if", apply.if_, drafts=_SINCE_7, is_conditional=True, cost=4),
    _applicator("then", drafts=_SINCE_7),
    _applicator("else", drafts=_SINCE_7),
    _dependency("dependencies", apply.dependencies, drafts=_UNTIL_7, applies_schemas=True),
    _dependency("dependentSchemas", apply.dependent_schemas, applies_schemas=True),
    # Applicators to the members of objects.
    _applicator("properties", apply.properties, _OBJECT, kind=dict),
    _applicator("patternProperties", apply.pattern_properties, _OBJECT, kind=dict, cost=7),
    _applicator("additionalProperties", apply.additional_properties, _OBJECT, cost=1),
    _applicator("propertyNames", apply.property_names, _OBJECT, _SINCE_6, cost=1),
    _unevaluated("unevaluatedProperties", unevaluated_properties, _OBJECT, _SINCE_2019),
    # Applicators to the items of arrays.
    _applicator("prefixItems", apply.prefix_items, _ARRAY, _SINCE_2020, kind=list),
    _applicator("items", apply.items, _ARRAY, _SINCE_2020),
    _applicator("items", apply.items_or_tuple, _ARRAY, _UNTIL_2019),
    _applicator("additionalItems", drafts=_UNTIL_2019),
    _applicator("contains", apply.contains, _ARRAY, _SINCE_6, cost=6),
    _unevaluated("unevaluatedItems", unevaluated_items, _ARRAY, _SINCE_2019),
    # Assertions.
    _assertion("type", assert_.type_),
    _assertion("enum", assert_.enum, kind=list, cost=1),
    _assertion("const", assert_.const, drafts=_SINCE_6),
    _assertion("minimum", assert_.minimum, _NUMBER),
    _assertion("maximum", assert_.maximum, _NUMBER),
    _assertion("exclusiveMinimum", assert_.exclusive_minimum, _NUMBER, _SINCE_6),
    _assertion("exclusiveMaximum", assert_.exclusive_maximum, _NUMBER, _SINCE_6),
    _assertion("exclusiveMinimum", drafts=frozenset({"4"})),
    _assertion("exclusiveMaximum", drafts=frozenset({"4"})),
    _assertion("multipleOf", assert_.multiple_of, _NUMBER),
    _assertion("minLength", assert_.min_length, _STRING),
    _assertion("maxLength", assert_.max_length, _STRING),
    _assertion("pattern", assert_.pattern, _STRING, kind=str, cost=1),
    Keyword("format", assert_.format_, _STRING, vocabulary="format", kind=str),
    Keyword("x-substring-of", assert_.substring_of, _STRING, kind=str, cost=1),
    Keyword("x-substring-unit"),
    Keyword(READER_LANGUAGE, assert_.reader_language_, _STRING, kind=dict, cost=1),
    _assertion("minItems", assert_.min_items, _ARRAY),
    _assertion("maxItems", assert_.max_items, _ARRAY),
    _assertion("uniqueItems", assert_.unique_items, _ARRAY, kind=bool, cost=6),
    _assertion("minContains", drafts=_SINCE_2019),
    _assertion("maxContains", drafts=_SINCE_2019),
    _assertion("minProperties", assert_.min_properties, _OBJECT),
    _assertion("maxProperties", assert_.max_properties, _OBJECT),
    _assertion("required", assert_.required, _OBJECT),
    _dependency("dependentRequired", assert_.dependent_required, vocabulary="validation"),
    # Identifiers and annotations.
    *_annotations("core", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"),
    *_annotations("core", "$comment", "$vocabulary", "$defs", "definitions"),
    *_annotations("meta-data", "title", "description", "default", "examples", "deprecated"),
    *_annotations("meta-data", "readOnly", "writeOnly"),
    *_annotations("content", "contentEncoding", "contentMediaType", "contentSchema"),
    *_annotations("openapi", "discriminator", "example", "externalDocs", "xml"),
    # Modifies `type` where no draft is named.
    Keyword("nullable", vocabulary="openapi"),
)

KEYWORDS_BY_DRAFT: Mapping[str, Mapping[str, Keyword]] = {
    draft: {keyword.name: keyword for keyword in KEYWORDS if draft in keyword.drafts}
    for draft in _DRAFTS
}

KEYWORD_NAMES_BY_VOCABULARY: Mapping[str, frozenset[str]] = {
    vocabulary: frozenset(k.name for k in KEYWORDS if k.vocabulary == vocabulary)
    for vocabulary in {keyword.vocabulary for keyword in KEYWORDS}
}

KEYWORD_NAMES = frozenset(keyword.name for keyword in KEYWORDS)
"""The names of all keywords, annotations included."""

COSTLY_KEYWORDS: tuple[str, ...] = tuple(
    keyword.name for keyword in sorted(KEYWORDS, key=lambda k: -k.cost) if keyword.cost
)
"""The keywords that can exceed a budget, the costliest first."""

_CONDITIONAL = frozenset(keyword.name for keyword in KEYWORDS if keyword.is_conditional)


@dataclass(slots=True)
class located_errors:
    """Convert the errors of a ``with`` block to schema errors with a JSON Pointer.

    Errors of patterns, budgets and recursion become
    :class:`~state_machines.errors.UnsupportedSchemaError`. A schema error that already has a
    pointer is left alone.

    A class, because a generator-based context manager takes several times as long, and a block is
    entered for every keyword of every schema.

    Args:
        source: The term that is being evaluated; ``None`` for the whole schema.
        keyword: The keyword that is being read, if ``source`` is a schema.
        parent: The schema that contains a term, searched after the schemas of the term.
    """

    source: Term | None
    keyword: str | None = None
    parent: SchemaLocation | None = field(default=None, kw_only=True)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        match error:
            case SchemaError():
                if error.is_located:
                    return
                found = error
            case PatternError():
                found = UnsupportedSchemaError(str(error))
            case GrammarBudgetError():
                found = UnsupportedSchemaError(error.what, hint=error.hint)
            case RecursionError():
                found = UnsupportedSchemaError("the schema is nested too deeply")
            case _:
                return
        raise found.located(*self._find(found.keyword)) from error

    def _find(self, keyword: str | None) -> tuple[str, str | None]:
        """Return the JSON Pointer of an error, and its keyword.

        Args:
            keyword: The keyword that the error names, if any.
        """
        source = self.source
        if isinstance(source, SchemaLocation) and self.keyword is not None:
            name = keyword if keyword in source.schema else self.keyword
            return source.pointer if name is None else source.keyword_pointer(name), name
        locations = [] if source is None else list(schema_locations(source))
        if self.parent is not None:
            locations.append(self.parent)
        for name in COSTLY_KEYWORDS if keyword is None else (keyword,):
            for location in locations:
                if name in location.schema:
                    return location.keyword_pointer(name), name
        return (locations[0].pointer, locations[0].keyword) if locations else ("", None)


def schema_locations(term: Term) -> Iterator[SchemaLocation]:
    """Yield the locations of the schemas that a term is built from, breadth-first."""
    layer: dict[Term, None] = {term: None}
    seen: set[Term] = set()
    while layer:
        seen |= layer.keys()
        below: list[Term] = []
        for each in layer:
            match each:
                case SchemaLocation():
                    yield each
                case Conjunction(parts) | Disjunction(parts):
                    below.extend(parts)
                case Negation(part):
                    below.append(part)
        layer = dict.fromkeys(each for each in below if each not in seen)


def scalar_values(context: Context, location: SchemaLocation) -> ValueSet | None:
    """Return the values of a schema that alone constrains only scalars, else ``None``."""
    known = KEYWORDS_BY_DRAFT[location.dialect.name]
    for name in location.schema:
        keyword = known.get(name)
        if keyword and keyword.read is not None and not keyword.is_scalar_assertion:
            return None
    result = ANY_VALUE
    for name, value, read in keywords_of(context, location):
        with located_errors(location, name):
            part = read(context, location, value)
            if isinstance(part, Term):
                return None
            result = conjoin(result, part, context.terms)
    return result


def keywords_of(
    context: Context, location: SchemaLocation, for_type: str | None = None
) -> Iterator[tuple[str, Any, KeywordReader]]:
    """Yield the name, the value and the reader of each keyword that constrains values."""
    schema: Mapping[str, Any] = location.schema
    if location.dialect.ref_overrides and "$ref" in schema:
        schema = {"$ref": schema["$ref"]}
    for name in location.ignored:
        _refuse_unknown(context, location, name)
    members: Iterable[tuple[str, Any]] = schema.items()
    if not _CONDITIONAL.isdisjoint(schema):
        members = sorted(members, key=lambda member: member[0] in _CONDITIONAL)
    keywords = KEYWORDS_BY_DRAFT[location.dialect.name]
    described = _READ_AS if READER_LANGUAGE in schema else ()
    spend(READ_STEPS + len(schema))
    for name, value in members:
        if name in described:
            continue
        keyword = keywords.get(name)
        if keyword is None:
            _refuse_unknown(context, location, name)
        elif keyword.read is None or (for_type is not None and for_type not in keyword.types):
            continue
        elif (
            keyword.vocabulary != "format"
            or context.options.assert_formats
            or location.dialect.asserts_formats
        ):
            location.check_kind(name, value, keyword.kind)
            yield name, value, keyword.read


def _refuse_unknown(context: Context, location: SchemaLocation, keyword: str) -> None:
    dialect = location.dialect
    if not context.options.strict or keyword in dialect.older_keywords:
        return
    known_by = dialect.metaschema or f"draft {dialect.name}"
    raise UnsupportedSchemaError(
        f"the keyword {keyword!r} is not known to {known_by}",
        pointer=location.keyword_pointer(keyword),
        keyword=keyword,
        hint="Remove the keyword, or compile without strict=True",
    )
