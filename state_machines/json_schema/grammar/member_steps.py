"""The members of an object shape as transitions of a small automaton."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import partial

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.boolean import difference, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.shortest import shortest_text
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import (
    contains_word,
    count_words,
    without_words,
)
from state_machines.json_schema.algebra.names import ListedNames, NameCell, name_cells
from state_machines.json_schema.algebra.object_shape import Matching, ObjectShape, bit_indices
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.emptiness.evaluation import is_empty
from state_machines.json_schema.grammar.clause_tracker import (
    AssignmentCache,
    ClauseTracker,
    MemberEffect,
    MemberState,
)
from state_machines.json_schema.grammar.translator import Translator
from state_machines.limits import LIMITS

__all__ = ["MemberState", "MemberSteps"]


class MemberSteps:
    """The automaton of an object's members: which may come next, and when the object may end.

    Args:
        shape: The shape.
        translator: Decides which terms have values that can be generated.

    Attributes:
        any_order: Whether members come in any order, and not in that of the schema.
        start: The state before the first member.
        listed: The listed names; bit sets in states are sets of their numbers.
        cells: The unlisted names, by the term of their values.
        is_bounded: Whether the end depends on clauses or on the number of members.
    """

    def __init__(self, shape: ObjectShape, translator: Translator) -> None:
        context = translator.context
        self.shape = shape
        self.any_order = translator.any_order
        self.listed = ListedNames(shape, context.terms)
        names, terms, empty = self.listed.names, self.listed.terms, partial(is_empty, context)
        self.cells = [cell for cell in name_cells(shape, context.terms) if not empty(cell.term)]
        self._tracker = ClauseTracker(shape, dict(zip(names, terms, strict=True)), translator)
        self._effects = [MemberEffect()] * len(names)
        if self._tracker.clauses:
            self._effects = list(map(self._tracker.effect_of, names, terms))
        self._by_absence = [self._tracker.by_absence.get(name, 0) for name in names]
        self._max_counted = max(shape.min_members, shape.max_members or 0)
        self.is_bounded = bool(self._max_counted or self._tracker.clauses)
        self._completions = AssignmentCache(shape, self.listed, self.cells, self._tracker)
        self._unlisted_effects: LruCache[tuple[object, ...], MemberEffect] = LruCache(
            LIMITS.member_facts
        )
        inhabited = [name for name, term in zip(names, terms, strict=True) if not empty(term)]
        self.start = MemberState(
            allowed=self.listed.bit_set(inhabited), missing=self.listed.bit_set(shape.required)
        )

    @property
    def has_clauses(self) -> bool:
        """Whether there are clauses that members can satisfy or not."""
        return bool(self._tracker.clauses)

    def may_end(self, state: MemberState) -> bool:
        """Return whether the object may be closed."""
        return (
            not state.missing
            and state.member_count >= self.shape.min_members
            and self._satisfied_without(state, state.allowed) == self._tracker.all_clauses
        )

    def _satisfied_without(self, state: MemberState, names: int) -> int:
        """Return the clauses that are satisfied once some listed names can no longer come."""
        satisfied = state.satisfied
        if satisfied != self._tracker.all_clauses:
            spend(names.bit_count() // 32)
            for index in bit_indices(names):
                satisfied |= self._by_absence[index]
        return satisfied

    def candidates(self, state: MemberState) -> int:
        """Return the bit set of the listed names that may come next."""
        allowed = state.allowed
        if state.missing and not self.any_order:
            first = state.missing & -state.missing
            allowed &= (first << 1) - 1
        if not self.is_bounded:
            return allowed
        if not self.has_clauses and not allowed & ~self._completions.inhabited_names:
            return self._candidates_by_count(state, allowed)
        possible = 0
        for index in bit_indices(allowed):
            spend()
            if any(True for _ in self.after_listed(state, index)):
                possible |= 1 << index
        return possible

    def _candidates_by_count(self, state: MemberState, allowed: int) -> int:
        """Return the names that may come next in an object without clauses.

        Fewer names are left after a later name, so a binary search finds the last possible one.
        Missing names are searched separately.
        """
        possible = 0
        for names in (allowed & state.missing, allowed & ~state.missing):
            indices = list(bit_indices(names))
            spend(1 + len(indices) // 32)
            stop = bisect_left(
                indices, True, key=lambda index: not any(self.after_listed(state, index))
            )
            possible |= names & ((1 << indices[stop]) - 1) if stop < len(indices) else names
        return possible

    def canonical_state(self, state: MemberState) -> MemberState:
        """Return a state after which the same follows each listed name that may come next.

        Where names come in order, what follows a name does not depend on the names before it, so
        all states in which the name may come share one node for it.
        """
        if self.is_bounded or self.any_order:
            return state
        return MemberState(self.start.allowed, state.missing, state.unlisted, is_first=False)

    def unlisted(self, state: MemberState) -> Iterator[tuple[NameCell, Node, str | None]]:
        """Yield the unlisted names that may come next: their cell, their language, an example.

        The same follows each name of the language as follows the example, and however many of the
        names are taken, one is left. Without an example, each name has to be remembered.
        """
        if state.missing and not self.any_order:
            return
        for cell in self.cells:
            names = without_words(cell.names, state.unlisted) if state.unlisted else cell.names
            if not self.is_bounded:
                if not names.is_empty:
                    yield cell, names, "" if self._has_names_to_spare(state, cell) else None
                continue
            for part, name, example in self._kinds(state, names):
                if any(True for _ in self.after_unlisted(state, cell, name, example)):
                    yield cell, part, None if name is not None else example

    def any_name(self, state: MemberState) -> NameCell | None:
        """Return the cell of the unlisted names if any name may come next, all with one term."""
        if self.is_bounded or len(self.cells) != 1 or (state.missing and not self.any_order):
            return None
        return self.cells[0] if self.cells[0].holds_all_unlisted else None

    def _kinds(self, state: MemberState, names: Node) -> Iterator[tuple[Node, str | None, str]]:
        """Split names by the residual clauses they can satisfy: (language, name, example).

        Few names have to be remembered. They are alike, so one of them stands for all.
        """
        parts = [names]
        for clause in self._tracker.residual(state.satisfied):
            for condition in clause:
                if not isinstance(condition, Matching):
                    continue
                inside = [intersection((part, condition.names)) for part in parts]
                parts = [
                    *(part for part in inside if not part.is_empty),
                    *(difference(part, condition.names, ANY_CODE_POINT) for part in parts),
                ]
        for part in parts:
            if part.is_empty:
                continue
            example = shortest_text(part)
            ample = self._completions.ample
            yield part, example if count_words(part, ample) < ample else None, example

    def _has_names_to_spare(self, state: MemberState, cell: NameCell) -> bool:
        """Return whether names are left in a cell however many of them are required."""
        if cell.names.max_length is None:
            return True
        spare = len(state.unlisted) + self.shape.min_members + 3
        return count_words(cell.names, spare) >= spare

    def after_listed(self, state: MemberState, index: int) -> Iterator[tuple[Term, MemberState]]:
        """Yield the transitions by a listed name: the term of its value, and the next state."""
        term, bit = self.listed.terms[index], 1 << index
        allowed = state.allowed & ~bit if self.any_order else state.allowed & ~((bit << 1) - 1)
        missing = state.missing & ~bit
        if not self.is_bounded:
            yield term, MemberState(allowed, missing, state.unlisted, is_first=False)
            return
        satisfied = self._satisfied_without(state, state.allowed & ~allowed & ~bit)
        target = state._replace(allowed=allowed, missing=missing, satisfied=satisfied)
        name = self.listed.names[index]
        yield from self._after_member(state, target, name, self._effects[index], term)

    def after_unlisted(
        self, state: MemberState, cell: NameCell, name: str | None, example: str
    ) -> Iterator[tuple[Term, MemberState]]:
        """Yield the transitions by an unlisted name: the term of its value, and the next state.

        Args:
            state: The state before the name.
            cell: The cell of the name.
            name: The name, if it has to be remembered.
            example: The name, or one with the same effect.
        """
        allowed = state.allowed if self.any_order else 0
        unlisted = state.unlisted if name is None else state.unlisted | {name}
        if not self.is_bounded:
            yield cell.term, MemberState(allowed, state.missing, unlisted, is_first=False)
            return
        satisfied = state.satisfied
        if not self.any_order:
            satisfied = self._satisfied_without(state, state.allowed)
        target = state._replace(allowed=allowed, unlisted=unlisted, satisfied=satisfied)
        effect = self._effect_of_unlisted(example, cell)
        yield from self._after_member(state, target, example, effect, cell.term)

    def _effect_of_unlisted(self, name: str, cell: NameCell) -> MemberEffect:
        named = name if name in self._tracker.names else None
        languages = self._tracker.languages
        kind = (cell, named, *(contains_word(language, name) for language in languages))
        known = self._unlisted_effects.peek(kind)
        if known is None:
            known = self._unlisted_effects.put(kind, self._tracker.effect_of(name, cell.term))
        return known

    def _after_member(
        self, before: MemberState, state: MemberState, name: str, effect: MemberEffect, term: Term
    ) -> Iterator[tuple[Term, MemberState]]:
        """Yield the values of a member after which the object can be completed."""
        count = min(state.member_count + 1, self._max_counted)
        for value, satisfied in self._tracker.alternatives(term, effect, state.satisfied):
            target = state._replace(is_first=False, member_count=count, satisfied=satisfied)
            if self._completions.can_complete(target, before, name):
                yield value, target
