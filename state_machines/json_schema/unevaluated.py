"""``unevaluatedProperties`` and ``unevaluatedItems`` (core, section 11).

What a schema has evaluated depends on which of its subschemas hold. So it is told as *cases*:
under this condition, these names (or items) are evaluated. Where several subschemas may hold at
once, a case for each set of them suffices, without saying that the others fail: if more hold,
more is evaluated, which only admits more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import complement
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.assertions import lacking, objects_with, restrict_one_type
from state_machines.json_schema.constants import is_encodable
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.objects.object_shape import NameRule, ObjectShape
from state_machines.json_schema.terms import TRUE, Term
from state_machines.limits import LIMITS
from state_machines.regex import compile_pattern

__all__ = ["unevaluated_items", "unevaluated_properties"]


@dataclass(frozen=True, slots=True)
class _Case:
    """Where ``condition`` holds, these properties and items are evaluated.

    ``all_names`` and ``all_items`` say that every one is; ``prefix`` counts evaluated first
    items; items in one of ``contained`` are evaluated wherever they stand.
    """

    condition: Term = TRUE
    names: frozenset[str] = frozenset()
    patterns: frozenset[Node] = frozenset()
    all_names: bool = False
    prefix: int = 0
    all_items: bool = False
    contained: frozenset[Term] = field(default=frozenset())

    def and_(self, other: _Case, evaluator: TermEvaluator) -> _Case:
        return _Case(
            evaluator.table.all_of((self.condition, other.condition)),
            self.names | other.names,
            self.patterns | other.patterns,
            self.all_names or other.all_names,
            max(self.prefix, other.prefix),
            self.all_items or other.all_items,
            self.contained | other.contained,
        )

    def evaluates_as(self, other: _Case) -> bool:
        return replace(self, condition=TRUE) == replace(other, condition=TRUE)


def unevaluated_properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``unevaluatedProperties``: the values of properties that nothing else looked at (11.3)."""
    table = evaluator.table
    term = table.schema_ref(location.child(value, "unevaluatedProperties"))

    def admit(case: _Case) -> Term:
        if case.all_names or term is TRUE:
            return case.condition
        names = complement(union(case.patterns), ANY_CODE_POINT)
        listed = dict.fromkeys(sorted(case.names), TRUE)
        shape = ObjectShape(properties=listed, name_rules=(NameRule(names, term),))
        return table.all_of((case.condition, table.evaluated(restrict_one_type(shape=shape))))

    cases = _Cases(evaluator).of(location, without="unevaluatedProperties")
    return table.any_of(admit(case) for case in cases)


def unevaluated_items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``unevaluatedItems``: the values of items that nothing else looked at (11.2)."""
    table = evaluator.table
    term = table.schema_ref(location.child(value, "unevaluatedItems"))

    def admit(case: _Case) -> Term:
        if case.all_items or term is TRUE:
            return case.condition
        rest = table.any_of((term, *case.contained))
        shape = ArrayShape(prefix=(TRUE,) * case.prefix, rest=rest)
        return table.all_of((case.condition, table.evaluated(restrict_one_type(array=shape))))

    cases = _Cases(evaluator).of(location, without="unevaluatedItems")
    return table.any_of(admit(case) for case in cases)


class _Cases:
    """Collects the cases of a schema, through everything that it applies in place."""

    def __init__(self, evaluator: TermEvaluator) -> None:
        self._evaluator = evaluator
        self._table = evaluator.table
        self._open: set[object] = set()
        self._known: dict[object, list[_Case]] = {}
        self._cuts = 0
        """How often a schema was met again inside itself."""

    def of(self, location: SchemaLocation, *, without: str = "") -> list[_Case]:
        """Return the cases of the schema at a place; ``without`` leaves a keyword out."""
        schema, key = location.schema, location.key
        if not isinstance(schema, dict):
            return [_Case()]
        if key in self._open:
            self._cuts += 1
            return [_Case()]
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._open) >= LIMITS.unevaluated_nesting:
            raise UnsupportedSchemaError(
                f"what is evaluated here depends on more than {LIMITS.unevaluated_nesting} "
                "schemas in one another"
            )
        self._open.add(key)
        cuts = self._cuts
        cases = [_evaluated_here(location, self._table.schema_ref, without)]
        spend(8)
        for read in (self._references, self._all_of, self._alternatives, self._if, self._dependent):
            for ways in read(location):
                cases = self._product(cases, ways)
        self._open.discard(key)
        # The cases of a schema inside itself depend on where the recursion was entered.
        if self._cuts == cuts and not without:
            self._known[key] = cases
        return cases

    def _product(self, cases: list[_Case], ways: list[_Case]) -> list[_Case]:
        if all(way.evaluates_as(_Case()) for way in ways):
            # Nothing is evaluated in any of them, so it does not matter which one holds.
            return cases
        return self._merged(case.and_(way, self._evaluator) for case in cases for way in ways)

    def _merged(self, cases: Iterable[_Case]) -> list[_Case]:
        """Return one case for those that evaluate the same."""
        conditions: dict[_Case, list[Term]] = {}
        for case in cases:
            spend()
            conditions.setdefault(replace(case, condition=TRUE), []).append(case.condition)
            if len(conditions) > LIMITS.unevaluated_cases:
                raise UnsupportedSchemaError(
                    f"what is evaluated here depends on more than {LIMITS.unevaluated_cases} cases"
                )
        return [
            replace(case, condition=self._table.any_of(terms)) for case, terms in conditions.items()
        ]

    def _holding(self, location: SchemaLocation) -> list[_Case]:
        """Return the cases of a subschema that may or may not hold, on condition that it does."""
        condition = _Case(condition=self._table.schema_ref(location))
        return [condition.and_(case, self._evaluator) for case in self.of(location)]

    def _references(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        schema, document = location.schema, location.document
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in schema:
                yield self.of(document.resolve(location, schema[keyword], keyword))
        if "$recursiveRef" in schema:
            yield self.of(document.resolve_recursive(location))

    def _all_of(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        for index, schema in enumerate(location.keyword_value("allOf", list) or ()):
            yield self.of(location.child(schema, "allOf", index))

    def _alternatives(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        for keyword in ("anyOf", "oneOf"):
            schemas = location.keyword_value(keyword, list) or ()
            branches = [
                self._holding(location.child(schema, keyword, index))
                for index, schema in enumerate(schemas)
            ]
            if not branches:
                continue
            if all(case.evaluates_as(branches[0][0]) for branch in branches for case in branch):
                yield [replace(branches[0][0], condition=TRUE)]
                continue
            ways: list[_Case] = []
            for branch in branches:
                # Of an anyOf several may hold at once.
                together = self._product(ways, branch) if keyword == "anyOf" else ()
                ways = self._merged((*ways, *branch, *together))
            yield ways

    def _if(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        schema = location.schema
        if "if" not in schema:
            return
        condition = location.child(schema["if"], "if")
        holds = self._holding(condition)
        if "then" in schema:
            holds = self._product(holds, self.of(location.child(schema["then"], "then")))
        fails = [_Case(condition=self._table.negation(self._table.schema_ref(condition)))]
        if "else" in schema:
            fails = self._product(fails, self.of(location.child(schema["else"], "else")))
        yield [*holds, *fails]

    def _dependent(self, location: SchemaLocation) -> Iterator[list[_Case]]:
        for name, schema in (location.keyword_value("dependentSchemas", dict) or {}).items():
            absent = _Case(condition=self._table.evaluated(lacking(name)))
            present = _Case(condition=self._table.evaluated(objects_with(name)))
            holding = self._holding(location.child(schema, "dependentSchemas", name))
            yield [absent, *(present.and_(case, self._evaluator) for case in holding)]


def _evaluated_here(
    location: SchemaLocation, located: Callable[[SchemaLocation], Term], without: str
) -> _Case:
    """Return what the schema's own keywords evaluate."""
    schema = {key: value for key, value in location.schema.items() if key != without}
    items = schema.get("items")
    first = items if location.dialect.array_items and isinstance(items, list) else None
    contained: frozenset[Term] = frozenset()
    if location.dialect.contained_are_evaluated and "contains" in schema:
        contained = frozenset({located(location.child(schema["contains"], "contains"))})
    return _Case(
        names=frozenset(filter(is_encodable, location.keyword_value("properties", dict) or ())),
        patterns=frozenset(
            compile_pattern(pattern, search=True)
            for pattern in location.keyword_value("patternProperties", dict) or ()
        ),
        all_names="additionalProperties" in schema or "unevaluatedProperties" in schema,
        prefix=len((location.keyword_value("prefixItems", list) or ()) if first is None else first),
        all_items=(items is not None and first is None)
        or "unevaluatedItems" in schema
        or (first is not None and "additionalItems" in schema),
        contained=contained,
    )
