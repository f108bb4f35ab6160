"""Object shapes: the objects that a conjunction of object keywords admits.

Shapes are closed under conjunction; the complement of a shape is a union of shapes with *clauses*
about members. A condition is a literal in SAT terms, a clause is a disjunction of conditions: an
object lacks a shape if a required member is absent or a member has a value that the shape does not
admit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.boolean import everything
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import contains_word, without_words
from state_machines.json_schema.algebra.terms import FALSE, TRUE, Term, TermTable

NAMES_PER_STEP = 32
"""Names of a shape that are copied in one step."""

CLAUSES_PER_STEP = 4
"""Clauses of a shape that are compared in one step."""


@dataclass(frozen=True, slots=True)
class Absent:
    """No member has the name."""

    name: str


@dataclass(frozen=True, slots=True)
class Present:
    """A member has the name, and its value is in ``term``."""

    name: str
    term: Term


@dataclass(frozen=True, slots=True)
class Matching:
    """Some member has a name in ``names``, a language of code points, and a value in ``term``."""

    names: Node
    term: Term


Condition: TypeAlias = Absent | Present | Matching

Clause: TypeAlias = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class NameRule:
    """The term of the properties whose name is in ``names``, a language of code points."""

    names: Node
    term: Term


NO_OTHER_NAMES = (NameRule(everything(ANY_CODE_POINT), FALSE),)
"""The rules of a shape whose objects have listed names alone."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectShape:
    """A set of objects.

    Attributes:
        properties: Terms of the values of listed names; a listed name may be absent.
        name_rules: Rules for all other names; a value satisfies every rule for its name.
        required: Names that must be present.
        clauses: Clauses that must hold; ``properties`` lists all names in them.
        min_members: Smallest number of members.
        max_members: Largest number of members; ``None`` for no bound.
        order: The names in ``properties`` of schemas, in their order.
        lists_names: Whether a schema has ``properties``.
        limits_others: Whether a schema says something about names that it does not list.
    """

    properties: Mapping[str, Term] = field(default_factory=dict)
    name_rules: tuple[NameRule, ...] = ()
    required: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()
    min_members: int = 0
    max_members: int | None = None
    order: tuple[str, ...] = ()
    lists_names: bool = False
    limits_others: bool = False
    _hash: int | None = field(default=None, init=False, repr=False)

    def _key(self) -> tuple[object, ...]:
        listed, clauses = frozenset(self.properties.items()), frozenset(self.clauses)
        others = (self.min_members, self.max_members, self.lists_names, self.limits_others)
        return (listed, self.order, self.name_rules, self.required, clauses, others)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ObjectShape) and self._key() == other._key()

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self._key())
            object.__setattr__(self, "_hash", known)
        return known

    @property
    def is_unconstrained(self) -> bool:
        """Whether every object has this shape, and none of them is left out of generation."""
        return (
            (not self.lists_names or self.limits_others)
            and not self.required
            and not self.clauses
            and not self.min_members
            and self.max_members is None
            and not self.name_rules
            and all(term is TRUE for term in self.properties.values())
        )

    @property
    def is_contradictory(self) -> bool:
        """Whether bounds, clauses or false terms show that no object has this shape."""
        needed = max(self.min_members, len(self.required))
        if self.max_members is not None and self.max_members < needed:
            return True
        if () in self.clauses:
            return True
        if FALSE not in self.properties.values():
            return False
        return any(self.properties.get(name) is FALSE for name in self.required)

    @property
    def has_listed_names(self) -> bool:
        """Whether all names of its objects are listed."""
        every = everything(ANY_CODE_POINT)
        return any(rule.term is FALSE and rule.names is every for rule in self.name_rules)

    def value_of(self, name: str, table: TermTable) -> Term:
        """Return the term of the values of a name."""
        known = self.properties.get(name)
        if known is not None:
            return known
        if not self.name_rules:
            return TRUE
        return table.all_of(
            rule.term for rule in self.name_rules if contains_word(rule.names, name)
        )

    def conjoin(self, other: ObjectShape, table: TermTable) -> ObjectShape:
        """Return the intersection of both sets."""
        copied = len(self.required) + len(self.order) + len(other.required) + len(other.order)
        if copied >= NAMES_PER_STEP:
            spend(copied // NAMES_PER_STEP)
        bounds = [bound for bound in (self.max_members, other.max_members) if bound is not None]
        both = ObjectShape(
            properties=self._conjoined_properties(other, table),
            name_rules=tuple(dict.fromkeys(self.name_rules + other.name_rules)),
            required=tuple(dict.fromkeys(self.required + other.required)),
            min_members=max(self.min_members, other.min_members),
            max_members=min(bounds) if bounds else None,
            order=tuple(dict.fromkeys(self.order + other.order)),
            lists_names=self.lists_names or other.lists_names,
            limits_others=self.limits_others or other.limits_others,
        )
        if not self.clauses and not other.clauses:
            return both
        residual, affected = both._split_clauses(self, other)
        more_residual, more_affected = both._split_clauses(other, self)
        return both.with_clauses((*residual, *more_residual), (*affected, *more_affected), table)

    def _split_clauses(
        self, part: ObjectShape, joined: ObjectShape
    ) -> tuple[Sequence[Clause], Sequence[Clause]]:
        """Split the clauses of ``part`` by whether the conjunction with ``joined`` affects them.

        ``self`` is that conjunction. A clause is affected if it names a property whose term has
        changed or that has become required. Clauses name only listed properties.
        """
        if not part.clauses:
            return (), ()
        touched = part.properties if joined.name_rules else joined.properties
        spend(len(touched) // 16)
        listed = part.properties
        changed = {n for n in touched if n in listed and self.properties[n] is not listed[n]}
        if joined.required:
            changed |= set(joined.required).difference(part.required)
        if not changed:
            return part.clauses, ()
        spend(len(part.clauses) // 8)
        residual: list[Clause] = []
        affected: list[Clause] = []
        for clause in part.clauses:
            (affected if _mentions(clause, changed) else residual).append(clause)
        return residual, affected

    def _conjoined_properties(self, other: ObjectShape, table: TermTable) -> Mapping[str, Term]:
        # Fast path: most keywords constrain no single property.
        if not other.properties and not other.name_rules:
            return self.properties
        if not self.properties and not self.name_rules:
            return other.properties
        if len(self.properties) >= NAMES_PER_STEP:
            spend(len(self.properties) // NAMES_PER_STEP)
        joined = dict(self.properties)
        changed: Iterable[str] = other.properties
        if other.name_rules:
            changed = dict.fromkeys((*self.properties, *other.properties))
        for name in changed:
            spend()
            left, right = self.value_of(name, table), other.value_of(name, table)
            if left is right or right is TRUE:
                joined[name] = left
            elif left is TRUE:
                joined[name] = right
            else:
                joined[name] = table.all_of((left, right))
        return joined

    def with_clauses(
        self, residual: Iterable[Clause], pending: Iterable[Clause], table: TermTable
    ) -> ObjectShape:
        """Return the shape with other clauses.

        The clauses are simplified, and the only condition of each unit clause is assigned, up to a
        fixed point. A unit clause with a :class:`Matching` condition stays a clause, since it names
        no member.

        Args:
            residual: Clauses that the shape cannot simplify.
            pending: Clauses to evaluate.
            table: The terms.
        """
        shape, settled, waiting = self, list(residual), list(pending)
        while waiting:
            spend()
            clause = residual_clause(waiting.pop(), partial(shape._evaluate, table=table))
            if clause is None:
                continue
            if len(clause) != 1 or isinstance(clause[0], Matching):
                settled.append(clause)
                continue
            unit = clause[0]
            shape = shape._assign(unit, table)
            spend(len(settled) // 16)
            names = {unit.name}
            waiting.extend(other for other in settled if _mentions(other, names))
            settled = [other for other in settled if not _mentions(other, names)]
        spend(len(settled) // CLAUSES_PER_STEP)
        return replace(shape, clauses=tuple(dict.fromkeys(settled)))

    def _evaluate(self, condition: Condition, table: TermTable) -> bool | None:
        """Return whether a condition holds for all objects of the shape, or for none.

        Compares terms by identity only; ``None`` if that does not decide the condition.
        """
        match condition:
            case Absent(name):
                if self.properties.get(name) is FALSE:
                    return True
                return False if name in self.required else None
            case Present(name, term):
                known = self.value_of(name, table)
                both = table.all_of((known, term))
                if both is FALSE:
                    return False
                return True if both is known and name in self.required else None
            case Matching(names, term):
                return False if term is FALSE or names is EMPTY else None

    def _assign(self, condition: Absent | Present, table: TermTable) -> ObjectShape:
        """Return the objects of the shape for which a condition holds; clauses stay as they are."""
        name = condition.name
        if isinstance(condition, Absent):
            return replace(self, properties={**self.properties, name: FALSE})
        term = table.all_of((self.value_of(name, table), condition.term))
        return replace(
            self,
            properties={**self.properties, name: term},
            required=tuple(dict.fromkeys((*self.required, name))),
        )

    def closed(self, table: TermTable) -> ObjectShape:
        """Return the objects whose names are all listed in schemas.

        The shape itself, if no schema lists names, if one says something about other names, or if
        other names are needed.
        """
        if not self.lists_names or self.limits_others:
            return self
        listed = frozenset(self.order)
        clauses = [tuple(_among(clause, self.order)) for clause in self.clauses]
        needed = {condition.name for clause in clauses for condition in clause}
        if () in clauses or not needed.union(self.required) <= listed:
            return self
        closed = replace(
            self,
            properties={name: t for name, t in self.properties.items() if name in listed},
            name_rules=NO_OTHER_NAMES,
            clauses=(),
        )
        return closed.with_clauses((), clauses, table)

    def complement(self, table: TermTable) -> tuple[ObjectShape, ...]:
        """Return the complement of the set, as a union of shapes."""
        return tuple(self._failures(table))

    def _failures(self, table: TermTable) -> Iterable[ObjectShape]:
        failures: list[Condition] = [Absent(name) for name in self.required]
        failures.extend(
            Present(name, table.negation(term))
            for name, term in self.properties.items()
            if term is not TRUE
        )
        named = (*self.required, *self.properties)
        failures.extend(
            Matching(without_words(rule.names, self.properties), table.negation(rule.term))
            for rule in self.name_rules
        )
        if failures:
            yield shape_of_clauses(named, [tuple(failures)], table)
        for clause in self.clauses:
            yield _none_of(clause, table)
        if self.min_members > 0:
            yield ObjectShape(max_members=self.min_members - 1)
        if self.max_members is not None:
            yield ObjectShape(min_members=self.max_members + 1)


def shape_of_clauses(
    names: Iterable[str], clauses: Iterable[Clause], table: TermTable
) -> ObjectShape:
    """Return the objects for which all clauses hold; ``names`` are all names in the clauses."""
    return ObjectShape(dict.fromkeys(names, TRUE)).with_clauses((), clauses, table)


def union_as_clauses(
    shapes: Sequence[ObjectShape], table: TermTable, max_clauses: int
) -> ObjectShape | None:
    """Return the union of shapes as one shape with clauses, so that conjunctions do not multiply.

    By distribution: each clause of the result joins one clause of every shape.

    Returns:
        ``None`` if that takes more than ``max_clauses`` clauses, or a shape bounds the number of
        properties or constrains unlisted ones, which clauses cannot express.
    """
    if any(
        shape.name_rules or shape.min_members or shape.max_members is not None for shape in shapes
    ):
        return None
    forms = [_as_clauses(shape) for shape in shapes]
    if prod(map(len, forms)) > max_clauses:
        return None
    joined = (dict.fromkeys(c for clause in chosen for c in clause) for chosen in product(*forms))
    clauses = dict.fromkeys(tuple(clause) for clause in joined if not _is_tautology(clause))
    names = dict.fromkeys(name for shape in shapes for name in (*shape.properties, *shape.required))
    order = tuple(dict.fromkeys(name for shape in shapes for name in shape.order))
    return replace(
        shape_of_clauses(names, clauses, table),
        order=order,
        lists_names=all(shape.lists_names for shape in shapes),
        limits_others=any(shape.limits_others for shape in shapes),
    )


def _as_clauses(shape: ObjectShape) -> list[Clause]:
    clauses: list[Clause] = []
    for name in shape.required:
        clauses.append((Present(name, shape.properties.get(name, TRUE)),))
    for name, term in shape.properties.items():
        if term is not TRUE and name not in shape.required:
            clauses.append((Absent(name), Present(name, term)))
    return [*clauses, *shape.clauses]


def _is_tautology(clause: Mapping[Condition, None]) -> bool:
    return any(isinstance(c, Absent) and Present(c.name, TRUE) in clause for c in clause)


def _none_of(clause: Clause, table: TermTable) -> ObjectShape:
    """Return the objects for which every condition of a clause is false."""
    shape = ObjectShape()
    for condition in clause:
        match condition:
            case Absent(name):
                failing = ObjectShape(required=(name,))
            case Present(name, term):
                failing = ObjectShape(properties={name: table.negation(term)})
            case Matching(names, term):
                failing = ObjectShape(name_rules=(NameRule(names, table.negation(term)),))
        shape = shape.conjoin(failing, table)
    return shape


def _among(clause: Clause, names: Iterable[str]) -> Iterator[Absent | Present]:
    """Yield the conditions of a clause for objects that have no other names."""
    for condition in clause:
        if not isinstance(condition, Matching):
            yield condition
            continue
        for name in names:
            if contains_word(condition.names, name):
                yield Present(name, condition.term)


def _mentions(clause: Clause, names: Container[str]) -> bool:
    """Return whether a condition of the clause names one of the given names."""
    return any(not isinstance(c, Matching) and c.name in names for c in clause)


def residual_clause(clause: Clause, evaluate: Callable[[Condition], bool | None]) -> Clause | None:
    """Return the clause without its false conditions; ``None`` if a condition is true."""
    undecided: list[Condition] = []
    for condition in clause:
        value = evaluate(condition)
        if value:
            return None
        if value is None:
            undecided.append(condition)
    return tuple(undecided)


def bit_indices(bits: int) -> Iterator[int]:
    """Yield the indices of the set bits, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
