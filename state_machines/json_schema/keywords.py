"""What each keyword means: one function a keyword, one table a draft.

A keyword's function is given the schema's place and the keyword's value, and returns the values
that it alone admits, as a :class:`~state_machines.json_schema.value_sets.ValueSet` or a term. What
the schema admits is the conjunction of all its keywords. Where a keyword looks at its neighbours
(``additionalProperties`` at ``properties``), its function reads them from ``place.schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import (
    GrammarBudgetError,
    PatternError,
    SchemaError,
    UnsupportedSchemaError,
)
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.json_schema import applicators as apply
from state_machines.json_schema import assertions as assert_
from state_machines.json_schema.dialects import Dialect
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.terms import Term
from state_machines.json_schema.trampoline import TermCoroutine
from state_machines.json_schema.unevaluated import unevaluated_items, unevaluated_properties
from state_machines.json_schema.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    conjoin,
    disjoin,
    negate,
)

__all__ = ["ANNOTATIONS", "KEYWORDS", "KeywordTable"]

Keyword = Callable[[SchemaLocation, Any, TermEvaluator], "ValueSet | Term"]

_COMMON: dict[str, Keyword] = {
    "$ref": apply.ref,
    "allOf": apply.all_of,
    "anyOf": apply.any_of,
    "oneOf": apply.one_of,
    "not": apply.not_,
    "type": assert_.type_,
    "enum": assert_.enum,
    "minimum": assert_.minimum,
    "maximum": assert_.maximum,
    "multipleOf": assert_.multiple_of,
    "minLength": assert_.min_length,
    "maxLength": assert_.max_length,
    "pattern": assert_.pattern,
    "format": assert_.format_,
    "minItems": assert_.min_items,
    "maxItems": assert_.max_items,
    "uniqueItems": assert_.unique_items,
    "minProperties": assert_.min_properties,
    "maxProperties": assert_.max_properties,
    "required": assert_.required,
    "properties": apply.properties,
    "patternProperties": apply.pattern_properties,
    "additionalProperties": apply.additional_properties,
}

_SINCE_6: dict[str, Keyword] = {
    "const": assert_.const,
    "exclusiveMinimum": assert_.exclusive_minimum,
    "exclusiveMaximum": assert_.exclusive_maximum,
    "propertyNames": apply.property_names,
    "contains": apply.contains,
}

_SINCE_7: dict[str, Keyword] = {"if": apply.if_}

_SINCE_2019: dict[str, Keyword] = {
    "dependentRequired": assert_.dependent_required,
    "dependentSchemas": apply.dependent_schemas,
    "unevaluatedProperties": unevaluated_properties,
    "unevaluatedItems": unevaluated_items,
}

_UNTIL_2019: dict[str, Keyword] = {"items": apply.items_or_tuple}

_UNTIL_7: dict[str, Keyword] = {"dependencies": apply.dependencies}

KEYWORDS: Mapping[str, Mapping[str, Keyword]] = {
    "4": {**_COMMON, **_UNTIL_2019, **_UNTIL_7},
    "6": {**_COMMON, **_SINCE_6, **_UNTIL_2019, **_UNTIL_7},
    "7": {**_COMMON, **_SINCE_6, **_SINCE_7, **_UNTIL_2019, **_UNTIL_7},
    "2019-09": {
        **_COMMON,
        **_SINCE_6,
        **_SINCE_7,
        **_SINCE_2019,
        **_UNTIL_2019,
        "$recursiveRef": apply.recursive_ref,
    },
    "2020-12": {
        **_COMMON,
        **_SINCE_6,
        **_SINCE_7,
        **_SINCE_2019,
        "$dynamicRef": apply.dynamic_ref,
        "prefixItems": apply.prefix_items,
        "items": apply.items,
    },
}
"""The enforced keywords of each draft."""

ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment"),
        *("$vocabulary", "$defs", "definitions", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
        *("contentSchema", "then", "else", "additionalItems", "minContains", "maxContains"),
        *("discriminator", "example", "externalDocs", "xml", "nullable"),
    }
)
"""Keywords that assert nothing by themselves; some are read by the keyword beside them."""


_PLAIN = frozenset(
    {
        *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minLength", "maxLength", "pattern", "format"),
    }
)
"""Keywords that say something of scalars and apply no other schema."""

_OF_STRINGS = frozenset(
    {
        *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if"),
        *("type", "enum", "const", "minLength", "maxLength", "pattern", "format"),
    }
)
"""Keywords that may say something of strings."""


_CONDITIONAL = frozenset(
    {
        *("not", "if", "dependentSchemas", "dependencies", "dependentRequired"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords whose schemas speak of properties without listing what is to be written."""


class KeywordTable:
    """Reads the schema at a place by its draft's table.

    ``strict`` refuses keywords that the draft does not know; the specification ignores them.
    Without ``assert_formats``, ``format`` is an annotation.
    """

    def __init__(self, *, strict: bool = False, assert_formats: bool = True) -> None:
        self._strict = strict
        self._annotations = ANNOTATIONS if assert_formats else ANNOTATIONS | {"format"}

    def applies_others(self, place: SchemaLocation) -> bool:
        """Whether some keyword of the schema applies another schema, or speaks of containers."""
        known = KEYWORDS[place.dialect.name]
        return any(
            keyword not in _PLAIN and keyword not in self._annotations and keyword in known
            for keyword in place.schema
        )

    def values(self, place: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[ValueSet]:
        """Work out what the schema at a place admits."""
        result = ANY_VALUE
        for keyword, part in self._parts(place, evaluator):
            with _Located(place, keyword):
                values = (yield part) if isinstance(part, Term) else part
                result = conjoin(result, values, evaluator.table)
        return result

    def complement(
        self, place: SchemaLocation, evaluator: TermEvaluator
    ) -> TermCoroutine[ValueSet]:
        """Work out what the schema at a place does not admit: what fails one of its keywords."""
        table = evaluator.table
        own, failing = ANY_VALUE, []
        for keyword, part in self._parts(place, evaluator):
            with _Located(place, keyword):
                if isinstance(part, Term):
                    failing.append((yield table.negation(part)))
                else:
                    own = conjoin(own, part, table)
        return disjoin((negate(own, table), *failing))

    def strings(self, place: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[Node]:
        """Work out which strings the schema at a place admits."""
        result = ANY_TEXT
        for keyword, part in self._parts(place, evaluator, _OF_STRINGS):
            with _Located(place, keyword):
                strings = (yield part) if isinstance(part, Term) else part.strings
                result = intersection((result, strings))
        return result

    def _parts(
        self, place: SchemaLocation, evaluator: TermEvaluator, among: Container[str] | None = None
    ) -> Iterator[tuple[str, ValueSet | Term]]:
        """Yield what each keyword admits, those that apply other schemas as terms."""
        schema: Mapping[str, Any] = place.schema
        if place.dialect.ref_overrides and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        for keyword in place.ignored:
            self._refuse_unknown(place, keyword)
        # Names in conditions come after those that the schema lists.
        for keyword, value in sorted(schema.items(), key=lambda member: member[0] in _CONDITIONAL):
            if self._is_annotation(place, keyword) or (among is not None and keyword not in among):
                continue
            spend()
            read = KEYWORDS[place.dialect.name].get(keyword)
            if read is None:
                self._refuse_unknown(place, keyword)
                continue
            with _Located(place, keyword):
                part = read(place, value, evaluator)
            yield keyword, part

    def _is_annotation(self, place: SchemaLocation, keyword: str) -> bool:
        if keyword == "format" and place.dialect.asserts_formats:
            return False
        return keyword in self._annotations

    def _refuse_unknown(self, place: SchemaLocation, keyword: str) -> None:
        if self._strict:
            raise UnsupportedSchemaError(
                f"the keyword {keyword!r} is not known to {_named(place.dialect)}",
                pointer=place.at(keyword),
                keyword=keyword,
                hint="Remove it, or compile without strict",
            )


def _named(dialect: Dialect) -> str:
    return dialect.metaschema or f"draft {dialect.name}"


class _Located:
    """Says of errors that know no place that they are at a keyword.

    A generator would take several times as long, and every keyword of a schema comes here.
    """

    __slots__ = ("_keyword", "_place")

    def __init__(self, place: SchemaLocation, keyword: str) -> None:
        self._place = place
        self._keyword = keyword

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        place, keyword = self._place, self._keyword
        pointer = place.at(keyword)
        match error:
            case PatternError():
                raise UnsupportedSchemaError(
                    str(error), pointer=pointer, keyword=keyword
                ) from error
            case GrammarBudgetError():
                raise UnsupportedSchemaError(
                    error.what, pointer=pointer, keyword=keyword, hint=error.hint
                ) from error
            case RecursionError():
                raise UnsupportedSchemaError(
                    "the schema is nested too deeply", pointer=pointer, keyword=keyword
                ) from error
            case SchemaError() if not error.is_located:
                at = error.keyword if error.keyword in place.schema else keyword
                raise error.located(place.at(at or keyword), keyword) from error
