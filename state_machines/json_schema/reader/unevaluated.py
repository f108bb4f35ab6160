"""``unevaluatedProperties`` and ``unevaluatedItems`` (2020-12 core, section 11).

Which members a schema has evaluated depends on which of its subschemas the value satisfies. So the
evaluated members are described by *cases*: if the condition of a case holds, certain names or items
are evaluated.

If a value may satisfy several subschemas, there is a case for each set of them. The condition of a
case does not require that the value violates the other subschemas. That is correct because the
evaluated members only grow with the satisfied subschemas: of all cases that hold for a value, the
one with the most subschemas admits the most, so their union admits exactly what that case admits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import complement
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.object_shape import NameRule, ObjectShape
from state_machines.json_schema.algebra.terms import TRUE, Term, TermTable
from state_machines.json_schema.algebra.value_sets import is_encodable, restrict_one_type
from state_machines.json_schema.reader.assertions import (
    forbid_property,
    objects_with_property,
)
from state_machines.json_schema.reader.context import Context, schema_term
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.limits import LIMITS
from state_machines.regex import compile_pattern

_UNEVALUATED_NESTING = 100
"""Nested schemas on which a set of evaluated members depends. The analysis is recursive."""


@dataclass(frozen=True, slots=True)
class _Case:
    """The members that are evaluated if a condition holds.

    Attributes:
        condition: The values for which the case holds.
        names: The evaluated property names.
        patterns: The languages of evaluated property names.
        all_names: Whether all properties are evaluated.
        prefix: The number of first items that are evaluated.
        all_items: Whether all items are evaluated.
        contained: The terms whose values are evaluated items at any index.
    """

    condition: Term = TRUE
    names: frozenset[str] = frozenset()
    patterns: frozenset[Node] = frozenset()
    all_names: bool = False
    prefix: int = 0
    all_items: bool = False
    contained: frozenset[Term] = frozenset()

    def conjoin(self, other: _Case, table: TermTable) -> _Case:
        """Return the case in which both conditions hold."""
        return _Case(
            table.all_of((self.condition, other.condition)),
            self.names | other.names,
            self.patterns | other.patterns,
            self.all_names or other.all_names,
            max(self.prefix, other.prefix),
            self.all_items or other.all_items,
            self.contained | other.contained,
        )

    @property
    def evaluated(self) -> _Case:
        """The evaluated members alone: the case without its condition."""
        return replace(self, condition=TRUE)


_NOTHING_EVALUATED = _Case()


def unevaluated_properties(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``unevaluatedProperties``: the values of properties that nothing else evaluates (11.3)."""
    term = schema_term(context, location.child(value, "unevaluatedProperties"))

    def admit(case: _Case) -> Term:
        if case.all_names or term is TRUE:
            return case.condition
        names = complement(union(case.patterns), ANY_CODE_POINT)
        listed = dict.fromkeys(sorted(case.names), TRUE)
        shape = ObjectShape(properties=listed, name_rules=(NameRule(names, term),))
        return context.terms.all_of(
            (case.condition, context.terms.evaluated(restrict_one_type(shape)))
        )

    cases = _CaseCollector(context).collect(location, without="unevaluatedProperties")
    limits = context.terms.evaluated(restrict_one_type(ObjectShape(limits_others=True)))
    return context.terms.all_of((context.terms.any_of(admit(case) for case in cases), limits))


def unevaluated_items(context: Context, location: SchemaLocation, value: Any) -> Term:
    """``unevaluatedItems``: the values of items that nothing else evaluates (11.2)."""
    term = schema_term(context, location.child(value, "unevaluatedItems"))

    def admit(case: _Case) -> Term:
        if case.all_items or term is TRUE:
            return case.condition
        rest = context.terms.any_of((term, *case.contained))
        shape = ArrayShape(prefix=(TRUE,) * case.prefix, rest=rest)
        return context.terms.all_of(
            (case.condition, context.terms.evaluated(restrict_one_type(shape)))
        )

    cases = _CaseCollector(context).collect(location, without="unevaluatedItems")
    return context.terms.any_of(admit(case) for case in cases)


class _CaseCollector:
    """Collects the cases of a schema and of all schemas that it applies to the same value."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._table = context.terms
        self._open: set[object] = set()
        self._known: dict[object, list[_Case]] = {}
        self._cycles = 0
        """How many times a schema was reached from itself."""

    def collect(self, location: SchemaLocation, *, without: str = "") -> list[_Case]:
        """Return the cases of a schema, with the keyword ``without`` left out."""
        schema, key = location.schema, location.key
        if not isinstance(schema, dict):
            return [_NOTHING_EVALUATED]
        if key in self._open:
            self._cycles += 1
            return [_NOTHING_EVALUATED]
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._open) >= _UNEVALUATED_NESTING:
            raise UnsupportedSchemaError(
                f"the evaluated members depend on more than {_UNEVALUATED_NESTING} nested schemas",
                hint="Nest fewer allOf, anyOf, oneOf, if and references",
            )
        self._open.add(key)
        cycles = self._cycles
        cases = [self._evaluated_by_keywords(location, without)]
        spend(8)
        for read in (self._references, self._all_of, self._alternatives, self._if, self._dependent):
            for alternatives in read(location):
                cases = self._product(cases, alternatives)
        self._open.discard(key)
        # The cases of a schema in a cycle depend on where the cycle was entered.
        if self._cycles == cycles and not without:
            self._known[key] = cases
        return cases

    def _product(self, cases: list[_Case], alternatives: list[_Case]) -> list[_Case]:
        if all(case.evaluated == _NOTHING_EVALUATED for case in alternatives):
            # No alternative evaluates anything, so their conditions do not matter.
            return cases
        return self._merged(
            case.conjoin(other, self._table) for case in cases for other in alternatives
        )

    def _merged(self, cases: Iterable[_Case]) -> list[_Case]:
        """Merge cases with the same evaluated members into one."""
        conditions: dict[_Case, list[Term]] = {}
        for case in cases:
            spend()
            conditions.setdefault(case.evaluated, []).append(case.condition)
            if len(conditions) > LIMITS.unevaluated_cases:
                raise UnsupportedSchemaError(
                    f"the evaluated members depend on more than {LIMITS.unevaluated_cases} cases",
                    hint="Combine fewer anyOf, oneOf, if and dependentSchemas",
                )
        return [
            replace(case, condition=self._table.any_of(terms)) for case, terms in conditions.items()
        ]

    def _if_satisfied(self, location: SchemaLocation) -> list[_Case]:
        """Return the cases of a subschema, on the condition that the value satisfies it."""
        condition = _Case(condition=schema_term(self._context, location))
        return [condition.conjoin(case, self._table) for case in self.collect(location)]

    def _evaluated_by_keywords(self, location: SchemaLocation, without: str) -> _Case:
        """Return the members that the schema's own keywords evaluate."""
        schema = {key: value for key, value in location.schema.items() if key != without}
        items = schema.get("items")
        first = items if location.dialect.array_items and isinstance(items, list) else None
        prefix = (location.keyword_value("prefixItems", list) or ()) if first is None else first
        contained: frozenset[Term] = frozenset()
        if location.dialect.contained_are_evaluated and "contains" in schema:
            contains = location.child(schema["contains"], "contains")
            contained = frozenset({schema_term(self._context, contains)})
        return _Case(
            names=frozenset(filter(is_encodable, location.keyword_value("properties", dict) or ())),
            patterns=frozenset(
                compile_pattern(pattern, search=True)
                for pattern in location.keyword_value("patternProperties", dict) or ()
            ),
            all_names="additionalProperties" in schema or "unevaluatedProperties" in schema,
            prefix=len(prefix),
            all_items=(items is not None and first is None)
            or "unevaluatedItems" in schema
            or (first is not None and "additionalItems" in schema),
            contained=contained,
        )

    def _references(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in location.schema:
                yield self.collect(location.document.resolve(location, keyword))

    def _all_of(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        for index, schema in enumerate(location.keyword_value("allOf", list) or ()):
            yield self.collect(location.child(schema, "allOf", index))

    def _alternatives(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        for keyword in ("anyOf", "oneOf"):
            schemas = location.keyword_value(keyword, list) or ()
            branches = [
                self._if_satisfied(location.child(schema, keyword, index))
                for index, schema in enumerate(schemas)
            ]
            if not branches:
                continue
            evaluated = branches[0][0].evaluated
            if all(case.evaluated == evaluated for branch in branches for case in branch):
                yield [evaluated]
                continue
            alternatives: list[_Case] = []
            for branch in branches:
                # A value may satisfy several branches of anyOf.
                several = self._product(alternatives, branch) if keyword == "anyOf" else ()
                alternatives = self._merged((*alternatives, *branch, *several))
            yield alternatives

    def _if(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        schema = location.schema
        if "if" not in schema:
            return
        condition = location.child(schema["if"], "if")
        satisfied = self._if_satisfied(condition)
        if "then" in schema:
            then = self.collect(location.child(schema["then"], "then"))
            satisfied = self._product(satisfied, then)
        negation = self._table.negation(schema_term(self._context, condition))
        violated = [_Case(condition=negation)]
        if "else" in schema:
            otherwise = self.collect(location.child(schema["else"], "else"))
            violated = self._product(violated, otherwise)
        yield [*satisfied, *violated]

    def _dependent(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        table = self._table
        for name, schema in (location.keyword_value("dependentSchemas", dict) or {}).items():
            absent = _Case(condition=table.evaluated(forbid_property(name)))
            present = _Case(condition=table.evaluated(objects_with_property(name)))
            satisfied = self._if_satisfied(location.child(schema, "dependentSchemas", name))
            yield [absent, *(present.conjoin(case, table) for case in satisfied)]
