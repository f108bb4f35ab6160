"""Checks of a schema before generation.

:func:`check_reachable` evaluates everything that an answer can reach, and
:func:`smallest_empty_schema` finds the part of a schema that no value satisfies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import (
    GrammarBudgetError,
    PatternError,
    SchemaError,
    UnsupportedSchemaError,
)
from state_machines.grammar.boolean import intersection
from state_machines.grammar.text_languages import contains_word
from state_machines.json_schema.algebra.array_shape import ArrayShape, ItemSteps
from state_machines.json_schema.algebra.names import listed_names, name_cells
from state_machines.json_schema.algebra.object_shape import Matching, ObjectShape, Present
from state_machines.json_schema.algebra.terms import (
    Term,
    TermTable,
)
from state_machines.json_schema.emptiness.evaluation import (
    admitted,
    generated,
    is_empty,
    shape_is_inhabited,
    take_terms_read_for_strings,
)
from state_machines.json_schema.reader.assertions import admits_null
from state_machines.json_schema.reader.context import Context, schema_term
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.json_schema.reader.keywords import (
    KEYWORDS_BY_DRAFT,
    located_errors,
    schema_locations,
)

_SCHEMA_TERMS = 50_000
"""Terms visited to check a schema before a machine is built."""

PAIRED_TERMS = 4
"""Terms of conditions on one member up to which the conjunctions of pairs are checked."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int, float),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_PLACES = {"array": "items", "object": "additionalProperties"}
"""Where the constraint of a type's parts stands, such as that of the items of an array."""


def smallest_empty_schema(context: Context, root: SchemaLocation) -> SchemaLocation:
    """Return the smallest empty schema found within an empty schema that explains it.

    The search descends to subschemas that every value of a schema needs, as long as they are proven
    empty. The step budget and references to other documents end it early. Of a recursion without
    end, it returns the schema to which the recursion comes back.
    """
    path = {root.pointer: root}
    while True:
        location = next(reversed(path.values()))
        try:
            child = next(
                child
                for child in _needed_schemas(location, root)
                if is_empty(context, schema_term(context, child))
            )
        except (StopIteration, SchemaError, PatternError, GrammarBudgetError, RecursionError):
            return location
        pointer = child.pointer
        if pointer in path:
            return path[pointer]
        path[pointer] = child


def _needed_schemas(location: SchemaLocation, root: SchemaLocation) -> Iterator[SchemaLocation]:
    """Yield subschemas whose emptiness makes the schema empty."""
    if isinstance(location.schema, bool):
        return
    known = KEYWORDS_BY_DRAFT[location.dialect.name]
    schema = {name: value for name, value in location.schema.items() if name in known}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        is_here = location.resolver._base_uri == root.resolver._base_uri
        if is_here and (reference == "#" or reference.startswith("#/")):
            yield location.document.resolve(location, "$ref")
        if location.dialect.ref_overrides:
            return
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword, ())
        if keyword == "allOf" or len(parts) == 1:
            for index, part in enumerate(parts):
                yield location.child(part, keyword, index)
    if admits_null(location):
        return
    if schema.get("type") in ("object", ["object"]):
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name in properties:
                yield location.child(properties[name], "properties", name)
    if schema.get("type") in ("array", ["array"]):
        yield from _needed_items(location, schema)


def _needed_items(location: SchemaLocation, schema: dict[str, Any]) -> Iterator[SchemaLocation]:
    min_items, items = schema.get("minItems", 0), schema.get("items")
    keyword = "items" if isinstance(items, list) else "prefixItems"
    prefix = schema.get(keyword, ())
    for index, part in enumerate(prefix):
        if index < min_items:
            yield location.child(part, keyword, index)
    # `false` ends the items: it contradicts `minItems`, which is beside it.
    if isinstance(items, dict) and min_items > len(prefix):
        yield location.child(items, "items")
    min_contains = schema.get("minContains", 1) if location.dialect.counts_contained else 1
    if "contains" in schema and min_contains > 0:
        yield location.child(schema["contains"], "contains")


def has_idle_nullable(root: SchemaLocation) -> bool:
    """Whether a schema of the document has ``nullable: true`` without the ``type`` it adds to."""
    pending = [root.schema] if root.dialect.nullable else []
    while pending:
        spend()
        value = pending.pop()
        if isinstance(value, dict):
            if value.get("nullable") is True and "type" not in value:
                return True
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return False


def misplaced_hint(schema: Any) -> str:
    """Return a hint if ``enum`` or ``const`` has no value of the schema's type; else ``""``.

    >>> misplaced_hint({"type": "array", "items": {"type": "string"}, "enum": ["a"]})
    "No value of enum is of the type 'array'. Did you mean items.enum?"
    >>> misplaced_hint({"type": "integer", "const": "1"})
    "No value of const is of the type 'integer'"
    """
    if not isinstance(schema, Mapping):
        return ""
    kinds = schema.get("type")
    known = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(known, list) or not known or not all(each in _TYPES for each in known):
        return ""
    for keyword in ("enum", "const"):
        values = schema.get(keyword, []) if keyword == "enum" else [schema.get(keyword)]
        if keyword not in schema or not isinstance(values, list) or not values:
            continue
        if any(_has_type(value, kind) for value in values for kind in known):
            continue
        hint = f"No value of {keyword} is of the type {' or '.join(map(repr, known))}"
        place = next((_PLACES[kind] for kind in known if kind in _PLACES), None)
        if place is not None and _accepts(schema.get(place), values):
            hint += f". Did you mean {place}.{keyword}?"
        return hint
    return ""


def _accepts(part: Any, values: list[Any]) -> bool:
    """Return whether values may be of the type that the schema of a part names."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        return part is not False
    return all(_has_type(value, kind) for value in values)


def _has_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def check_reachable(
    context: Context, root: Term, check_array: Callable[[ArrayShape], None]
) -> None:
    """Evaluate every term that is reachable from ``root``, and decide whether it is empty.

    Args:
        context: The compilation.
        root: The term.
        check_array: Checks an array of unique items; called when all terms are evaluated.

    Raises:
        SchemaError: A reachable schema is malformed or unsupported.
    """
    seen = {root}
    unique: list[tuple[Term, SchemaLocation | None]] = []
    stack: list[tuple[Term, SchemaLocation | None]] = [(root, None)]
    while stack:
        term, parent = stack.pop()
        spend()
        with located_errors(term, parent=parent):
            children = [each for each in _children(context, term) if each not in seen]
            seen.update(children)
            if len(seen) > _SCHEMA_TERMS:
                raise UnsupportedSchemaError(
                    f"the schema has more than {_SCHEMA_TERMS:,} different sets of values",
                    hint="Simplify the schema",
                )
        if any(array.unique for array in generated(context, term).arrays):
            unique.append((term, parent))
        location = next(schema_locations(term), parent)
        stack.extend((child, location) for child in children)
        # The evaluation of property names reads only the keywords for strings. The other keywords
        # must be well-formed, too.
        for names in take_terms_read_for_strings(context):
            with located_errors(names, parent=location):
                generated(context, names)
    for term, parent in unique:
        with located_errors(term, parent=parent):
            for array in generated(context, term).arrays:
                check_array(array)


def _children(context: Context, term: Term) -> dict[Term, None]:
    """Return the terms of the members and items of a term's values, in a fixed order."""
    values = admitted(context, term)
    children: dict[Term, None] = {}
    for array in values.arrays:
        children.update(dict.fromkeys(ItemSteps(array, context.terms).terms()))
    for shape in values.objects:
        children.update(dict.fromkeys(_member_terms(shape, context.terms)))
    shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
    for container in shapes:
        shape_is_inhabited(context, container)
    return children


def _member_terms(shape: ObjectShape, table: TermTable) -> Iterator[Term]:
    """Yield the terms of a shape's members, combined with the conditions of its clauses."""
    if not shape.clauses:
        yield from shape.properties.values()
        for name in shape.required:
            if name not in shape.properties:
                yield shape.value_of(name, table)
        yield from (cell.term for cell in name_cells(shape, table))
        return
    present: dict[str, dict[Term, None]] = {}
    matching: dict[Matching, None] = {}
    for clause in shape.clauses:
        for condition in clause:
            match condition:
                case Present(name, term):
                    present.setdefault(name, {})[term] = None
                case Matching():
                    matching[condition] = None
    for name in listed_names(shape):
        spend(1 + len(matching) // 8)
        conditions = dict(present.get(name, {}))
        conditions.update((c.term, None) for c in matching if contains_word(c.names, name))
        yield from _with_conditions(shape.value_of(name, table), conditions, table)
    for cell in name_cells(shape, table):
        among = (c.term for c in matching if not intersection((cell.names, c.names)).is_empty)
        yield from _with_conditions(cell.term, among, table)


def _with_conditions(term: Term, conditions: Iterable[Term], table: TermTable) -> Iterator[Term]:
    """Yield a member's term, and its conjunctions with the conditions that a member can satisfy."""
    yield term
    terms = dict.fromkeys(conditions)
    for condition in terms:
        yield table.all_of((term, condition))
    if len(terms) <= PAIRED_TERMS:
        for pair in combinations(terms, 2):
            yield table.all_of((term, *pair))
    if terms:
        yield table.all_of((term, *terms))
