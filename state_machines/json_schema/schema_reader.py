"""Evaluate the schema at a location: the conjunction of what its keywords admit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.json_schema.dialects import Dialect
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.error_location import located_errors
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.keywords import KEYWORDS, KEYWORDS_BY_DRAFT, Keyword
from state_machines.json_schema.terms import Term
from state_machines.json_schema.trampoline import TermCoroutine
from state_machines.json_schema.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    conjoin,
    disjoin,
    negate,
)

_CONDITIONAL = frozenset(keyword.name for keyword in KEYWORDS if keyword.is_conditional)


class SchemaReader:
    """Reads the keywords of schemas, each by the draft of its schema.

    Args:
        strict: Whether to refuse keywords that the draft does not define. The specification says to
            ignore them.
        assert_formats: Whether ``format`` constrains strings. A dialect whose metaschema declares
            the vocabulary ``format-assertion`` overrides this.
    """

    def __init__(self, *, strict: bool = False, assert_formats: bool = True) -> None:
        self._strict = strict
        self._assert_formats = assert_formats

    def is_scalar(self, location: SchemaLocation) -> bool:
        """Return whether the schema constrains nothing but scalars, without other schemas."""
        keywords = KEYWORDS_BY_DRAFT[location.dialect.name]
        return all(
            keyword.is_scalar_assertion
            for name in location.schema
            if (keyword := keywords.get(name)) is not None and keyword.read is not None
        )

    def values(self, location: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[ValueSet]:
        """Evaluate the values that a schema admits."""
        result = ANY_VALUE
        for keyword, part in self._parts(location, evaluator):
            with located_errors(location, keyword):
                values = (yield part) if isinstance(part, Term) else part
                result = conjoin(result, values, evaluator.table)
        return result

    def complement(
        self, location: SchemaLocation, evaluator: TermEvaluator
    ) -> TermCoroutine[ValueSet]:
        """Evaluate the values that a schema rejects, which violate at least one keyword."""
        table = evaluator.table
        own, violating = ANY_VALUE, []
        for keyword, part in self._parts(location, evaluator):
            with located_errors(location, keyword):
                if isinstance(part, Term):
                    violating.append((yield table.negation(part)))
                else:
                    own = conjoin(own, part, table)
        return disjoin((negate(own, table), *violating))

    def strings(self, location: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[Node]:
        """Evaluate the strings that a schema admits; only keywords for strings are read."""
        result = ANY_TEXT
        for keyword, part in self._parts(location, evaluator, for_type="string"):
            with located_errors(location, keyword):
                strings = (yield part) if isinstance(part, Term) else part.strings
                result = intersection((result, strings))
        return result

    def _parts(
        self, location: SchemaLocation, evaluator: TermEvaluator, for_type: str | None = None
    ) -> Iterator[tuple[str, ValueSet | Term]]:
        """Yield the name of each keyword and the values that it admits."""
        schema: Mapping[str, Any] = location.schema
        if location.dialect.ref_overrides and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        for name in location.ignored:
            self._refuse_unknown(location, name)
        keywords = KEYWORDS_BY_DRAFT[location.dialect.name]
        for name, value in sorted(schema.items(), key=lambda member: member[0] in _CONDITIONAL):
            keyword = keywords.get(name)
            if keyword is None:
                spend()
                self._refuse_unknown(location, name)
                continue
            read = keyword.read
            if read is None or not self._is_asserted(keyword, location.dialect):
                continue
            if for_type is not None and for_type not in keyword.types:
                continue
            spend()
            with located_errors(location, name):
                part = read(location, value, evaluator)
            yield name, part

    def _is_asserted(self, keyword: Keyword, dialect: Dialect) -> bool:
        return self._assert_formats or keyword.vocabulary != "format" or dialect.asserts_formats

    def _refuse_unknown(self, location: SchemaLocation, keyword: str) -> None:
        if not self._strict:
            return
        dialect = location.dialect
        known_by = dialect.metaschema or f"draft {dialect.name}"
        raise UnsupportedSchemaError(
            f"the keyword {keyword!r} is not known to {known_by}",
            pointer=location.keyword_pointer(keyword),
            keyword=keyword,
            hint="Remove the keyword, or compile without strict=True",
        )
