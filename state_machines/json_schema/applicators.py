"""Keywords that apply other schemas, to the value itself or to its members and items.

Section numbers are those of JSON Schema Core 2020-12 if no other document is named.

``oneOf`` needs the complement of an alternative, which is costly, only where alternatives overlap.
Pairs of alternatives are proven disjoint by their types and by *tags*: constants of the value
itself, or of a property that the alternatives require.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeVar

from state_machines.budgets import Verdict, spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import complement
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import list_words
from state_machines.json_schema.arrays.array_shape import ArrayShape, Counted
from state_machines.json_schema.assertions import (
    non_negative_integer,
    objects_with_property,
    require_properties,
    restrict_one_type,
    string_list,
)
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.numbers.number_sets import ALL_NUMBERS, NO_NUMBERS
from state_machines.json_schema.objects.object_shape import NameRule, ObjectShape
from state_machines.json_schema.terms import FALSE, TRUE, Evaluated, Term, TermTable
from state_machines.json_schema.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    conjoin,
    is_encodable,
)
from state_machines.limits import LIMITS
from state_machines.regex import compile_pattern

FEW_ALTERNATIVES = 8
"""Alternatives up to which every pair is tested for overlap; beyond, tags preselect the pairs."""

MAX_PAIRS = 8192
"""Pairs of alternatives that are tested for overlap."""

_ANY = object()
"""The tag of all values of a type."""

_Tag = tuple[str, Hashable]
_Kind = TypeVar("_Kind")


def _subschemas(location: SchemaLocation, keyword: str, value: Any) -> Iterator[SchemaLocation]:
    if not value:
        raise location.error(f"{keyword} is an empty array", keyword)
    for index, schema in enumerate(value):
        yield location.child(schema, keyword, index)


def _named_subschemas(
    location: SchemaLocation, keyword: str, value: Any
) -> Iterator[tuple[str, SchemaLocation]]:
    for name, schema in value.items():
        yield name, location.child(schema, keyword, name)


def _terms(locations: Iterable[SchemaLocation], evaluator: TermEvaluator) -> list[Term]:
    return [evaluator.schema_ref(location) for location in locations]


def _reference(keyword: str) -> Callable[[SchemaLocation, Any, TermEvaluator], Term]:
    """Return the reader of a keyword that holds a reference."""

    def read(location: SchemaLocation, _: Any, evaluator: TermEvaluator) -> Term:
        return evaluator.schema_ref(location.document.resolve(location, keyword))

    read.__doc__ = f"``{keyword}``: the value satisfies the referenced schema."
    return read


ref = _reference("$ref")  # 8.2.3.1
dynamic_ref = _reference("$dynamicRef")  # 8.2.3.2
recursive_ref = _reference("$recursiveRef")  # 2019-09 core, 8.2.4.2


def all_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``allOf``: the value satisfies all schemas (10.2.1.1)."""
    return evaluator.all_of(_terms(_subschemas(location, "allOf", value), evaluator))


def any_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``anyOf``: the value satisfies at least one schema (10.2.1.2)."""
    return evaluator.any_of(_terms(_subschemas(location, "anyOf", value), evaluator))


def one_of(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``oneOf``: the value satisfies exactly one schema (10.2.1.3).

    The adjacent ``required`` can make alternatives disjoint: it makes a property a discriminator.
    """
    terms = _terms(_subschemas(location, "oneOf", value), evaluator)
    within = TRUE
    if "required" in location.schema:
        kept = ("type", "nullable", "properties", "required")
        adjacent = {name: location.schema[name] for name in kept if name in location.schema}
        within = evaluator.schema_ref(location.child(adjacent))
    return in_exactly_one(terms, within, evaluator)


def not_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``not``: the value does not satisfy the schema (10.2.1.4)."""
    return evaluator.negation(evaluator.schema_ref(location.child(value, "not")))


def if_(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
    """``if`` with the adjacent ``then`` and ``else`` (10.2.2)."""
    table, schema = evaluator, location.schema
    condition = table.schema_ref(location.child(value, "if"))
    then, otherwise = (
        table.schema_ref(location.child(schema[keyword], keyword)) if keyword in schema else TRUE
        for keyword in ("then", "else")
    )
    return table.conditional(condition, then, otherwise)


def _dependency(keyword: str) -> Callable[[SchemaLocation, Any, TermEvaluator], Term]:
    """Return the reader of a keyword by which a property implies a schema or other properties."""

    def read(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> Term:
        parts = []
        for name, needed in value.items():
            if keyword == "dependencies" and isinstance(needed, list):
                names = string_list(location, keyword, needed)
                then = evaluator.evaluated(require_properties(names))
            else:
                then = evaluator.schema_ref(location.child(needed, keyword, name))
            condition = evaluator.evaluated(objects_with_property(name))
            parts.append(evaluator.conditional(condition, then, TRUE))
        return evaluator.all_of(parts)

    read.__doc__ = f"``{keyword}``: an object with a property satisfies a schema."
    return read


dependent_schemas = _dependency("dependentSchemas")  # 10.2.2.4
dependencies = _dependency("dependencies")  # draft 7 validation, 6.5.7


def properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``properties``: the values of the named properties (10.3.2.1)."""
    terms = {
        name: evaluator.schema_ref(child)
        for name, child in _named_subschemas(location, "properties", value)
        if is_encodable(name)
    }
    shape = ObjectShape(properties=terms, order=tuple(terms), lists_names=True)
    return restrict_one_type(shape)


def _name_patterns(location: SchemaLocation) -> dict[str, Node]:
    patterns = location.keyword_value("patternProperties", dict) or {}
    return {pattern: compile_pattern(pattern, search=True) for pattern in patterns}


def pattern_properties(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``patternProperties``: the values of properties whose names match (10.3.2.2)."""
    patterns = _name_patterns(location)
    terms = {
        pattern: evaluator.schema_ref(child)
        for pattern, child in _named_subschemas(location, "patternProperties", value)
    }
    rules = (NameRule(patterns[name], term) for name, term in terms.items() if term is not TRUE)
    return restrict_one_type(ObjectShape(name_rules=tuple(rules), limits_others=True))


def additional_properties(
    location: SchemaLocation, value: Any, evaluator: TermEvaluator
) -> ValueSet:
    """``additionalProperties``: the values of all other properties (10.3.2.3).

    The adjacent ``properties`` and ``patternProperties`` apply to the rest.
    """
    term = evaluator.schema_ref(location.child(value, "additionalProperties"))
    if term is TRUE:
        return restrict_one_type(ObjectShape(limits_others=True))
    names = location.keyword_value("properties", dict) or {}
    listed = {name: TRUE for name in names if is_encodable(name)}
    others = complement(union(_name_patterns(location).values()), ANY_CODE_POINT)
    rules = (NameRule(others, term),)
    return restrict_one_type(ObjectShape(listed, rules, limits_others=True))


def property_names(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``propertyNames``: the names of all properties satisfy the schema (10.3.2.4).

    Names are strings, so only keywords for strings are read. The schema may therefore contain this
    ``propertyNames`` itself.
    """
    child = location.child(value, "propertyNames")
    allowed = evaluator.strings(evaluator.schema_ref(child))
    rejected = NameRule(complement(allowed, ANY_CODE_POINT), FALSE)
    rules = () if allowed is ANY_TEXT else (rejected,)
    return restrict_one_type(ObjectShape(name_rules=rules, limits_others=True))


def prefix_items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``prefixItems``: the first items, one schema each (10.3.1.1).

    The specification asks for a non-empty array. Generators write an empty one for empty tuples.
    """
    children = (location.child(schema, "prefixItems", index) for index, schema in enumerate(value))
    terms = _terms(children, evaluator)
    is_open = location.schema.keys().isdisjoint(("items", "unevaluatedItems", "contains"))
    return restrict_one_type(ArrayShape(prefix=tuple(terms), lists_items=is_open))


def items(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``items``: all items after those of the adjacent ``prefixItems`` (10.3.1.2).

    Where no draft is named, an array is read as up to 2019-09.
    """
    if isinstance(value, list):
        if not location.dialect.array_items:
            raise location.error(
                "items is an array",
                "items",
                hint="2020-12 has prefixItems for tuples, and items for the rest; name an earlier "
                "draft in $schema or leave $schema out",
            )
        if "prefixItems" in location.schema:
            raise location.error(
                "items is an array beside prefixItems", "items", hint="Leave one of them out"
            )
        return items_or_tuple(location, value, evaluator)
    prefix = location.keyword_value("prefixItems", list) or []
    term = evaluator.schema_ref(location.child(value, "items"))
    return restrict_one_type(_array((TRUE,) * len(prefix), term))


def items_or_tuple(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``items`` up to 2019-09: one schema for all items, or an array of schemas (draft 7, 6.4.1).

    An array applies to the first items, and the adjacent ``additionalItems`` to the others.
    """
    if not isinstance(value, list):
        return restrict_one_type(_array((), evaluator.schema_ref(location.child(value, "items"))))
    prefix = tuple(
        evaluator.schema_ref(location.child(schema, "items", index))
        for index, schema in enumerate(value)
    )
    rest = TRUE
    if "additionalItems" in location.schema:
        additional = location.schema["additionalItems"]
        rest = evaluator.schema_ref(location.child(additional, "additionalItems"))
    return restrict_one_type(_array(prefix, rest))


def _array(prefix: tuple[Term, ...], rest: Term) -> ArrayShape:
    max_items = len(prefix) if rest is FALSE else None
    return ArrayShape(prefix=prefix, rest=rest, max_items=max_items)


def contains(location: SchemaLocation, value: Any, evaluator: TermEvaluator) -> ValueSet:
    """``contains`` with the adjacent ``minContains`` and ``maxContains`` (10.3.1.3)."""
    term = evaluator.schema_ref(location.child(value, "contains"))
    min_count, max_count = 1, None
    if location.dialect.counts_contained:
        schema = location.schema
        if "minContains" in schema:
            min_count = non_negative_integer(location, "minContains", schema["minContains"])
        if "maxContains" in schema:
            max_count = non_negative_integer(location, "maxContains", schema["maxContains"])
    if max_count is None and min_count == 0:
        return ANY_VALUE
    counted = Counted(term, min_count=min_count, max_count=max_count)
    return restrict_one_type(ArrayShape(counted=(counted,)))


def in_exactly_one(terms: Sequence[Term], within: Term, evaluator: TermEvaluator) -> Term:
    """Return the values that are in exactly one of the terms.

    Args:
        terms: The terms.
        within: The values for which the result has to be right.
        evaluator: Evaluates the terms.
    """
    inside = [evaluator.all_of((within, term)) for term in terms]
    values = [evaluator.admitted_unless_cyclic(term) for term in inside]
    known = [each for each in values if each is not None]
    candidates = _not_wholly_in_two(known)
    if candidates != ANY_VALUE:
        terms = [evaluator.all_of((evaluator.evaluated(candidates), term)) for term in terms]
    pairs: Iterable[tuple[int, int]] = combinations(range(len(terms)), 2)
    if len(terms) > FEW_ALTERNATIVES:
        name = _discriminator(known, evaluator)
        tags = [
            None
            if each is None
            else set(_tags_of(conjoin(each, candidates, evaluator), name, evaluator))
            for each in values
        ]
        pairs = sorted(_sharing_a_tag(tags))
    overlapping = []
    for i, j in pairs:
        spend()
        # A pair that may be disjoint costs a complement, which changes no value.
        if evaluator.are_disjoint(inside[i], terms[j]) is not Verdict.YES:
            overlapping.append((i, j))
    return evaluator.exactly_one(terms, overlapping)


def _not_wholly_in_two(known: Sequence[ValueSet]) -> ValueSet:
    """Return all values, without the types that are wholly in two of the sets.

    Alternatives without ``type`` admit every value of the types that they do not constrain.
    """
    return ValueSet(
        null=sum(values.null for values in known) < 2,
        booleans=frozenset(
            flag for flag in (True, False) if sum(flag in values.booleans for values in known) < 2
        ),
        numbers=_unless_shared(ALL_NUMBERS, NO_NUMBERS, [values.numbers for values in known]),
        strings=_unless_shared(ANY_TEXT, EMPTY, [values.strings for values in known]),
        arrays=_unless_shared(ANY_VALUE.arrays, (), [values.arrays for values in known]),
        objects=_unless_shared(ANY_VALUE.objects, (), [values.objects for values in known]),
    )


def _unless_shared(every: _Kind, none: _Kind, sets: Sequence[_Kind]) -> _Kind:
    return none if sum(each == every for each in sets) > 1 else every


def _tags_of(values: ValueSet, name: str | None, table: TermTable) -> Iterator[_Tag]:
    """Yield tags such that two sets without a common tag are disjoint.

    Args:
        values: The set.
        name: The discriminator; its constants are the tags of objects that require it.
        table: Builds the terms of properties.
    """
    if values.null:
        yield "null", _ANY
    for value in values.booleans:
        yield "boolean", value
    if values.arrays:
        yield "array", _ANY
    for kind, few in (("number", _few_numbers(values)), ("string", _few_strings(values))):
        yield from ((kind, value) for value in ((_ANY,) if few is None else few))
    for shape in values.objects:
        tags = None
        if name is not None and name in shape.required:
            tags = _few_values(shape.value_of(name, table))
        yield from (("object", value) for value in ((_ANY,) if tags is None else tags))


def _few_numbers(values: ValueSet) -> Iterable[Hashable] | None:
    return None if values.numbers.intervals else values.numbers.points


def _few_strings(values: ValueSet) -> Iterable[Hashable] | None:
    if values.strings.max_length is None:
        return None
    return list_words(values.strings, LIMITS.tagged_values)


def _few_values(term: Term) -> list[Hashable] | None:
    """Return the values of a term that contains only a few scalars, else ``None``."""
    if not isinstance(term, Evaluated) or not isinstance(term.values, ValueSet):
        return None
    values = term.values
    numbers, strings = _few_numbers(values), _few_strings(values)
    if numbers is None or strings is None or values.arrays or values.objects:
        return None
    flags = (None,) if values.null else ()
    return [*flags, *values.booleans, *numbers, *strings]


def _discriminator(known: Sequence[ValueSet], table: TermTable) -> str | None:
    """Return the property that most shapes require with only a few values."""
    names = Counter(
        name
        for values in known
        for shape in values.objects
        for name in shape.required
        if _few_values(shape.value_of(name, table)) is not None
    )
    return max(names, key=names.__getitem__, default=None)


def _sharing_a_tag(tags: Sequence[set[_Tag] | None]) -> set[tuple[int, int]]:
    """Return the pairs of sets with a common tag, and all pairs with a set of unknown tags.

    Raises:
        UnsupportedSchemaError: The pairs are too many. They are counted before they are listed.
    """
    holders: dict[_Tag, list[int]] = {}
    of_kind: dict[str, list[int]] = {}
    unknown = [index for index, found in enumerate(tags) if found is None]
    for index, found in enumerate(tags):
        for tag in found or ():
            holders.setdefault(tag, []).append(index)
        for kind in {kind for kind, _ in found or ()}:
            of_kind.setdefault(kind, []).append(index)
    pairs: set[tuple[int, int]] = set()
    groups: list[tuple[Sequence[int], Sequence[int]]] = [(unknown, range(len(tags)))]
    groups += [
        (indices, of_kind[kind] if value is _ANY else indices)
        for (kind, value), indices in holders.items()
    ]
    for indices, others in groups:
        # All indices are among the others.
        count = len(indices) * (2 * len(others) - len(indices) - 1) // 2
        if count <= MAX_PAIRS:
            spend(count // 8)
            pairs.update((min(i, j), max(i, j)) for i in indices for j in others if i != j)
        if max(count, len(pairs)) > MAX_PAIRS:
            raise UnsupportedSchemaError(
                f"more than {MAX_PAIRS:,} pairs of alternatives may overlap",
                keyword="oneOf",
                hint="Let a required property have a different constant in each alternative, or "
                "write anyOf",
            )
    return pairs
