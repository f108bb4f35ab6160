"""Evaluates the schemas of a document: the conjunction of what their keywords admit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.json_schema.checks import located_errors
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.keywords import KEYWORDS, KEYWORDS_BY_DRAFT, KeywordReader
from state_machines.json_schema.terms import Term
from state_machines.json_schema.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    conjoin,
    disjoin,
    negate,
)

_CONDITIONAL = frozenset(keyword.name for keyword in KEYWORDS if keyword.is_conditional)


class SchemaReader(TermEvaluator):
    """Reads the keywords of schemas, each by the draft of its schema.

    Attributes:
        has_plain_integers: Whether integers are written without a point, as in draft 4.
    """

    has_plain_integers = False

    def empty_copy(self) -> SchemaReader:
        """Return an evaluator that has evaluated no term, and closes no objects."""
        is_open = replace(self._options, additional_properties="schema")
        return SchemaReader(is_open, self.sources)

    def scalar_values(self, location: SchemaLocation) -> ValueSet | None:
        """Return the head normal form of a schema that constrains only scalars, else ``None``."""
        keywords = KEYWORDS_BY_DRAFT[location.dialect.name]
        for name in location.schema:
            keyword = keywords.get(name)
            if keyword and keyword.read is not None and not keyword.is_scalar_assertion:
                return None
        return self.schema_values(location)

    def schema_values(self, location: SchemaLocation) -> ValueSet:
        """Return the values that a schema admits."""
        result = ANY_VALUE
        for name, value, read in self._keywords(location):
            with located_errors(location, name):
                part = read(location, value, self)
                values = self.admitted(part) if isinstance(part, Term) else part
                result = conjoin(result, values, self)
        return result

    def schema_complement(self, location: SchemaLocation) -> ValueSet:
        """Return the values that a schema rejects, which violate at least one keyword."""
        values, violating = ANY_VALUE, []
        for name, value, read in self._keywords(location):
            with located_errors(location, name):
                part = read(location, value, self)
                if isinstance(part, Term):
                    violating.append(self.admitted(self.negation(part)))
                else:
                    values = conjoin(values, part, self)
        return disjoin((negate(values, self), *violating))

    def schema_strings(self, location: SchemaLocation) -> Node:
        """Return the strings that a schema admits; only keywords for strings are read."""
        result = ANY_TEXT
        for name, value, read in self._keywords(location, for_type="string"):
            with located_errors(location, name):
                part = read(location, value, self)
                strings = self.strings(part) if isinstance(part, Term) else part.strings
                result = intersection((result, strings))
        return result

    def _keywords(
        self, location: SchemaLocation, for_type: str | None = None
    ) -> Iterator[tuple[str, Any, KeywordReader]]:
        """Yield the name, the value and the reader of each keyword that constrains values."""
        schema: Mapping[str, Any] = location.schema
        if location.dialect.ref_overrides and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        for name in location.ignored:
            self._refuse_unknown(location, name)
        members: Iterable[tuple[str, Any]] = schema.items()
        if not _CONDITIONAL.isdisjoint(schema):
            members = sorted(members, key=lambda member: member[0] in _CONDITIONAL)
        keywords = KEYWORDS_BY_DRAFT[location.dialect.name]
        for name, value in members:
            spend()
            keyword = keywords.get(name)
            if keyword is None:
                self._refuse_unknown(location, name)
            elif keyword.read is None or (for_type is not None and for_type not in keyword.types):
                continue
            elif (
                keyword.vocabulary != "format"
                or self._options.assert_formats
                or location.dialect.asserts_formats
            ):
                yield name, value, keyword.read

    def _refuse_unknown(self, location: SchemaLocation, keyword: str) -> None:
        if not self._options.strict:
            return
        dialect = location.dialect
        known_by = dialect.metaschema or f"draft {dialect.name}"
        raise UnsupportedSchemaError(
            f"the keyword {keyword!r} is not known to {known_by}",
            pointer=location.keyword_pointer(keyword),
            keyword=keyword,
            hint="Remove the keyword, or compile without strict=True",
        )
