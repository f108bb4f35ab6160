"""Evaluation of terms: their head normal forms, their generated values, and their emptiness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from state_machines.budgets import Verdict
from state_machines.errors import InvalidSchemaError
from state_machines.grammar.boolean import complement, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.exactly_one import in_exactly_one
from state_machines.json_schema.algebra.object_shape import NameRule, ObjectShape
from state_machines.json_schema.algebra.terms import (
    FALSE,
    Conjunction,
    Disjunction,
    Evaluated,
    ExactlyOne,
    NamedBy,
    Negation,
    Term,
    TextsOf,
)
from state_machines.json_schema.algebra.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    ValueSet,
    conjoin,
    disjoin,
    negate,
    restrict_one_type,
    value_set,
)
from state_machines.json_schema.emptiness.clause_solver import object_is_inhabited
from state_machines.json_schema.reader.context import Context
from state_machines.json_schema.reader.document import SchemaLocation
from state_machines.json_schema.reader.keywords import keywords_of, located_errors
from state_machines.limits import LIMITS

T = TypeVar("T")


class _CyclicQueryError(Exception):
    """An emptiness query needs a term whose evaluation made the query."""


class _UnknownTermError(Exception):
    """The emptiness of a term depends on the term ``args[0]``, which has not been visited."""


def admitted(context: Context, term: Term) -> ValueSet:
    """Return the head normal form of a term.

    Raises:
        SchemaError: A schema is malformed or unsupported, or applies itself to the same value.
    """
    known = context.known.values.get(term)
    if known is None:
        active = _enter(context, term, context.known.thread.values)
        try:
            known = context.known.values.setdefault(term, _evaluate(context, term))
        finally:
            del active[term]
    return known


def strings(context: Context, term: Term) -> Node:
    """Return the strings of a term, as a language of code points.

    Only keywords for strings are read, so the term may contain the schema that is being evaluated.
    :func:`take_terms_read_for_strings` returns the terms whose other keywords are still unread.
    """
    # As above, and no function of both: it would take a frame at each level of a schema.
    known = context.known.strings.get(term)
    if known is None:
        active = _enter(context, term, context.known.thread.strings)
        try:
            known = context.known.strings.setdefault(term, _evaluate_strings(context, term))
        finally:
            del active[term]
    return known


def take_terms_read_for_strings(context: Context) -> list[Term]:
    """Return the terms whose strings this thread has read since the last call."""
    thread = context.known.thread
    taken, thread.read_for_strings = thread.read_for_strings, []
    return taken


def shape_is_inhabited(context: Context, shape: ArrayShape | ObjectShape) -> bool:
    """Return whether some array or object has the shape."""
    known = context.known.inhabited.get(shape)
    if known is None:
        known = is_inhabited(context, shape, lambda term: not is_empty(context, term))
        context.known.inhabited[shape] = known
    return known


def is_inhabited(
    context: Context, shape: ArrayShape | ObjectShape, has_value: Callable[[Term], bool]
) -> bool:
    """Return whether some array or object has the shape, given which terms have a value."""
    if isinstance(shape, ArrayShape):
        return shape.is_inhabited(context.terms, has_value)
    return object_is_inhabited(shape, context.terms, has_value)


def is_empty(context: Context, term: Term) -> bool:
    """Return whether a term has no (finite) JSON value."""
    known = context.known.is_empty.get(term)
    if known is None:
        known = not admitted(context, term).has_scalar and solve_emptiness(
            context, term, lambda inner: admitted(context, inner), context.known.is_empty
        )
        context.known.is_empty[term] = known
    return known


def solve_emptiness(
    context: Context,
    start: Term,
    values_of: Callable[[Term], ValueSet],
    known: dict[Term, bool],
) -> bool:
    """Return whether a term is empty, and store all results found in ``known``.

    A term is inhabited if it contains a scalar, or an array or object all of whose required
    parts are inhabited. Values are finite, so a recursive term is inhabited only if the
    recursion can end. Least fixed point: a term on the stack counts as empty. If it turns out
    inhabited, the terms that were decided on that assumption are decided again.
    """
    stack = [start]
    on_stack = {start}
    dependants: dict[Term, dict[Term, None]] = {}
    assumed_empty: set[Term] = set()

    def has_value(term: Term) -> bool:
        result = known.get(term)
        if result is not None:
            return not result
        if term not in on_stack and term not in assumed_empty:
            raise _UnknownTermError(term)
        dependants.setdefault(term, {})[stack[-1]] = None
        return False

    while stack:
        term = stack[-1]
        values = values_of(term)
        shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
        try:
            has_some = values.has_scalar or any(
                is_inhabited(context, shape, has_value) for shape in shapes
            )
        except _UnknownTermError as unknown:
            stack.append(unknown.args[0])
            on_stack.add(unknown.args[0])
            continue
        stack.pop()
        on_stack.discard(term)
        if not has_some:
            assumed_empty.add(term)
            continue
        known[term] = False
        if term is start:
            return False
        again = [each for each in dependants.pop(term, {}) if each in assumed_empty]
        assumed_empty.difference_update(again)
        stack.extend(again)
        on_stack.update(again)
    known.update(dict.fromkeys(assumed_empty, True))
    return True


def are_disjoint(context: Context, left: Term, right: Term) -> Verdict:
    """Return whether two terms share no value.

    Not known if the result depends on a term whose evaluation made this query, or if too many
    queries are nested.
    """
    both = context.terms.all_of((left, right))
    answer = _query(context, lambda: is_empty(context, both))
    return Verdict.UNKNOWN if answer is None else Verdict.of(answer)


def admitted_unless_cyclic(context: Context, term: Term) -> ValueSet | None:
    """Return the head normal form of a term; ``None`` if it depends on a term in progress."""
    return _query(context, lambda: admitted(context, term))


def _query(context: Context, compute: Callable[[], T]) -> T | None:
    thread = context.known.thread
    if thread.query_depth >= LIMITS.nested_emptiness_queries:
        return None
    thread.query_depth += 1
    try:
        return compute()
    except _CyclicQueryError:
        return None
    finally:
        thread.query_depth -= 1


def _enter(context: Context, term: Term, active: dict[Term, int]) -> dict[Term, int]:
    """Note that the evaluation of a term begins.

    Raises:
        SchemaError: The term is being evaluated.
    """
    thread = context.known.thread
    if term not in active:
        active[term] = thread.query_depth
        return active
    if active[term] < thread.query_depth:
        raise _CyclicQueryError
    terms = (*reversed(thread.strings), *reversed(thread.values))
    pointers = (each.pointer for each in terms if isinstance(each, SchemaLocation))
    raise InvalidSchemaError(
        "the schema refers to itself without an array or object in between",
        pointer=next(pointers, ""),
        keyword="$ref",
        hint="Remove the reference, or put it below properties or items",
    )


def _evaluate(context: Context, term: Term) -> ValueSet:
    match term:
        case SchemaLocation():
            return _schema_values(context, term)
        case Evaluated():
            return value_set(term)
        case Conjunction(parts):
            return _conjoined(context, _with_shared_prefix(context, parts))
        case Disjunction(parts):
            return disjoin([admitted(context, part) for part in parts])
        case Negation(part):
            return _complement(context, part)
    raise AssertionError(f"not a term: {term}")


def _conjoined(context: Context, parts: Sequence[Term]) -> ValueSet:
    sets = [admitted(context, part) for part in parts]
    return reduce(lambda a, b: conjoin(a, b, context.terms), sets)


def _with_shared_prefix(context: Context, parts: tuple[Term, ...]) -> Sequence[Term]:
    """Return the parts of a conjunction, all but the last as one evaluated term if possible."""
    if len(parts) > 2:
        others = context.terms.known_conjunction(parts[:-1])
        if others in context.known.values:
            return others, parts[-1]
    return parts


def _complement(context: Context, term: Term) -> ValueSet:
    """Return the complement of a term.

    De Morgan's laws are applied to terms with many shapes, because the product of the shapes'
    complements could be large.
    """
    if isinstance(term, Disjunction):
        return _conjoined(context, [context.terms.negation(part) for part in term.parts])
    values = admitted(context, term)
    if len(values.arrays) > 1 or len(values.objects) > 1:
        if isinstance(term, SchemaLocation):
            return _schema_complement(context, term)
        if isinstance(term, Conjunction):
            return disjoin([admitted(context, context.terms.negation(part)) for part in term.parts])
    return negate(values, context.terms)


def _evaluate_strings(context: Context, term: Term) -> Node:
    context.known.thread.read_for_strings.append(term)
    match term:
        case SchemaLocation():
            return _schema_strings(context, term)
        case Evaluated():
            return value_set(term).strings
        case Conjunction(parts):
            return intersection([strings(context, part) for part in parts])
        case Disjunction(parts):
            return union([strings(context, part) for part in parts])
        case Negation(part):
            return complement(strings(context, part), ANY_CODE_POINT)
    raise AssertionError(f"not a term: {term}")


def _schema_values(context: Context, location: SchemaLocation) -> ValueSet:
    """Return the values that a schema admits."""
    result = ANY_VALUE
    for name, value, read in keywords_of(context, location):
        with located_errors(location, name):
            part = _answered(context, read(context, location, value))
            values = admitted(context, part) if isinstance(part, Term) else part
            result = conjoin(result, values, context.terms)
    return result


def _schema_complement(context: Context, location: SchemaLocation) -> ValueSet:
    """Return the values that a schema rejects, which violate at least one keyword."""
    values, violating = ANY_VALUE, []
    for name, value, read in keywords_of(context, location):
        with located_errors(location, name):
            part = _answered(context, read(context, location, value))
            if isinstance(part, Term):
                violating.append(admitted(context, context.terms.negation(part)))
            else:
                values = conjoin(values, part, context.terms)
    return disjoin((negate(values, context.terms), *violating))


def _schema_strings(context: Context, location: SchemaLocation) -> Node:
    """Return the strings that a schema admits; only keywords for strings are read."""
    result = ANY_TEXT
    for name, value, read in keywords_of(context, location, for_type="string"):
        with located_errors(location, name):
            part = _answered(context, read(context, location, value))
            language = strings(context, part) if isinstance(part, Term) else part.strings
            result = intersection((result, language))
    return result


def _answered(context: Context, part: Term | ValueSet) -> Term | ValueSet:
    """Return the values of a keyword, after the question that its reader left open is answered."""
    if isinstance(part, ValueSet):
        return part
    match part:
        case ExactlyOne(parts, within):
            return in_exactly_one(
                parts,
                within,
                context.terms,
                lambda term: admitted_unless_cyclic(context, term),
                lambda left, right: are_disjoint(context, left, right),
            )
        case NamedBy(names):
            # Names are strings, so only keywords for strings are read. The schema of the names may
            # therefore contain this one.
            allowed = strings(context, names)
            rejected = NameRule(complement(allowed, ANY_CODE_POINT), FALSE)
            rules = () if allowed is ANY_TEXT else (rejected,)
            return restrict_one_type(ObjectShape(name_rules=rules, limits_others=True))
        case TextsOf(content):
            return restrict_one_type(context.json_texts(context, content))
    return part


def generated(context: Context, term: Term) -> ValueSet:
    """Return the values of a term that are generated, closed if the options say so.

    Closing leaves out values, but never all of them. It applies to the normal form of a whole
    conjunction, since an object may have the properties that any of its parts lists.
    """
    if context.options.additional_properties == "schema":
        return admitted(context, term)
    known = context.known.generated
    if term not in known:
        known[term] = _closed_values(context, admitted(context, term))
    return known[term]


def _closed_values(context: Context, values: ValueSet) -> ValueSet:
    objects = tuple(dict.fromkeys(_closed_shape(context, shape) for shape in values.objects))
    arrays = values.arrays
    if context.options.closes_arrays:
        arrays = tuple(dict.fromkeys(shape.closed() for shape in arrays))
    return replace(values, arrays=arrays, objects=objects)


def _closed_shape(context: Context, shape: ObjectShape) -> ObjectShape:
    """Return a closed shape if it still has finite objects.

    Required members are the same in both shapes. Further members, up to the least number, may be
    recursive: the recursion may end only in objects with names that no schema lists.
    """
    closed = shape.closed(context.terms)
    if closed is shape or not shape_is_inhabited(context, closed):
        return shape
    needs_more = closed.min_members > len(closed.required)
    if needs_more and not is_inhabited(context, closed, lambda t: _has_closed_value(context, t)):
        return shape
    return closed


def _has_closed_value(context: Context, term: Term) -> bool:
    """Return whether a term has a value if all objects below are closed."""

    def closed_values(inner: Term) -> ValueSet:
        values = admitted(context, inner)
        return replace(values, objects=tuple(s.closed(context.terms) for s in values.objects))

    known = context.known.is_empty_closed
    if term not in known:
        known[term] = solve_emptiness(context, term, closed_values, known)
    return not known[term]
