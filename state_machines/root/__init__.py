"""The root state machine: answers composed of text, reasoning, structured output, tool calls.

Its matchers attribute the output to the parts of the answer. Reading order: ``parts``,
``positions`` and ``spellings`` (of markers), ``answer_automaton``, ``attribution``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from state_machines.budgets import derivative_budget
from state_machines.errors import UnsupportedStructuralTagError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import optional, union
from state_machines.grammar.tokens import Spell
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.matcher import Matcher
from state_machines.root.answer_automaton import AnswerAutomaton
from state_machines.root.attribution import Attribution, Piece
from state_machines.root.parts import (
    Choice,
    LineStart,
    Marker,
    Optional,
    Part,
    Repeat,
    Series,
    Structured,
    SubState,
    Text,
    leaves,
    part_names,
    repeated_part_names,
)
from state_machines.root.spellings import speller
from state_machines.vocabulary import Vocabulary

if TYPE_CHECKING:
    from state_machines.structural_tags import Format

__all__ = [
    "Choice",
    "LineStart",
    "Marker",
    "Optional",
    "Part",
    "Piece",
    "Repeat",
    "RootMatcher",
    "RootStateMachine",
    "Series",
    "StructuralTagPart",
    "Structured",
    "SubState",
    "Text",
    "leaves",
    "part_names",
    "repeated_part_names",
]


@dataclass(frozen=True, eq=False)
class StructuralTagPart(SubState):
    """A stretch of an answer that a structural tag describes. Its value is its text.

    Attributes:
        format: The format of the tag, see :mod:`state_machines.structural_tags.formats`.
    """

    _: KW_ONLY
    format: Format = field(repr=False)

    @classmethod
    def of(cls, tag: Any, name: str = "structured") -> Self:
        """Return the part of a structural tag in either of XGrammar's forms.

        Args:
            tag: The tag as parsed JSON, or its text.
            name: The name of the part.

        Raises:
            StructuralTagError: The tag is malformed, or a part of it cannot be enforced.
            SchemaError: A schema in it is refused. The pointer is one of the tag.
        """
        # Deferred: few answers have structural tags.
        from state_machines.structural_tags import parse  # noqa: PLC0415

        return cls(name, format=parse(tag))

    def machine(self) -> StateMachine:
        """Return the machine of the texts, without special tokens."""
        return self.spelled_machine(str.encode)

    def spelled_machine(self, spell: Spell) -> StateMachine:
        """Return the machine of the texts."""
        from state_machines.structural_tags import bounded  # noqa: PLC0415

        with bounded():
            machine = self.format.compiled(spell)
        if machine.start is EMPTY:
            raise UnsupportedStructuralTagError("no text matches the structural tag", pointer="")
        return machine


class RootStateMachine(StateMachine):
    r"""Admits the answers that a composition of parts describes.

    Args:
        part: The composition.
        vocabulary: The vocabulary of the matchers, in which markers may be special tokens. A
            matcher of another vocabulary would be wrong. Without a vocabulary no text is special;
            that serves tests and :meth:`matches`.

    Raises:
        CompositionError: The composition is ambiguous or cannot be written.

    >>> from state_machines import RegexStateMachine
    >>> from state_machines.root import Optional, RootStateMachine, Series, Structured, Text
    >>> number = Structured("number", grammar=RegexStateMachine(r"\d+"))
    >>> thoughts = Text("reasoning", begin="<think>", end="</think>")
    >>> machine = RootStateMachine(Series(Optional(thoughts), number))
    >>> machine.matches("<think>6 times 7</think>42"), machine.matches("6 times 7 is 42")
    (True, False)
    """

    def __init__(self, part: Part, vocabulary: Vocabulary | None = None) -> None:
        names = {} if vocabulary is None else vocabulary.special_tokens
        ends = () if vocabulary is None else vocabulary.end_token_ids
        self.part = part
        self.automaton = AnswerAutomaton(
            part,
            speller(names),
            end_tokens=[name for name, token_id in names.items() if token_id in ends],
        )
        start = self.automaton.node(self.automaton.start)
        super().__init__(start, inner=self.automaton.machines)

    @classmethod
    def from_structural_tag(cls, tag: Any, vocabulary: Vocabulary | None = None) -> Self:
        """Return the machine of a structural tag in either of XGrammar's forms.

        Args:
            tag: The structural tag as parsed JSON, or its text.
            vocabulary: As for the constructor. Strings of the tag that name special tokens are
                written as these tokens.

        Raises:
            StructuralTagError: The tag is malformed, or a part of it cannot be enforced.
            SchemaError: A schema in it is refused. The pointer is one of the tag.

        >>> end = {"type": "const_string", "value": "."}
        >>> tag = {"type": "structural_tag", "format": {"type": "plus", "content": end}}
        >>> RootStateMachine.from_structural_tag(tag).matches("...")
        True
        """
        return cls(StructuralTagPart.of(tag), vocabulary)

    def matcher(self, vocabulary: Vocabulary) -> RootMatcher:
        """Return a matcher at the beginning of the answer; cheap."""
        self.trim()
        return RootMatcher(self, vocabulary)

    def pieces(self, text: str | bytes) -> list[Piece]:
        """Return the pieces of an answer; adjacent pieces of one part are joined."""
        attribution = Attribution(self.automaton)
        found: list[Piece] = []
        written = text.encode() if isinstance(text, str) else text
        for part, piece in (*attribution.feed(written), *attribution.finish()):
            if found and found[-1].part is part:
                found[-1] = Piece(part, found[-1].text + piece)
            else:
                found.append(Piece(part, piece))
        return found


class RootMatcher(Matcher):
    """A matcher that attributes the output to the parts of the answer."""

    def __init__(self, machine: RootStateMachine, vocabulary: Vocabulary) -> None:
        super().__init__(machine.start, vocabulary, machine)
        self._automaton = machine.automaton
        self._attribution = Attribution(machine.automaton)
        self._pieces: list[Piece] = []

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that may write next, in order of preference."""
        return self._attribution.parts

    @property
    def is_in_values(self) -> bool:
        """Whether the next token belongs to values of a JSON Schema."""
        part = next(iter(self.parts), None)
        return isinstance(part, SubState) and part.has_values

    def move(self, token_id: int, state: Node | None) -> None:
        """Take a token; see :meth:`Matcher.move`."""
        # On a copy: the attribution may exceed its budget, and the matcher must not change then.
        attribution = self._attribution.copy()
        if state is None:
            pieces = attribution.finish()
        else:
            form = self.vocabulary.token_bytes[token_id]
            with derivative_budget(LIMITS.mask_steps):
                pieces = attribution.feed(
                    form or b"", SpelledTokens.of(self.vocabulary).form(token_id)
                )
        self._attribution = attribution
        self._pieces += pieces
        super().move(token_id, state)

    def take_pieces(self, *, is_last: bool = False) -> list[Piece]:
        """Return the pieces that have become certain since the last call, in order.

        All pieces together are the output; none is ever revised.

        Args:
            is_last: Whether the output stops here, though no end token was taken.
        """
        if is_last and not self.is_finished:
            self._pieces += self._attribution.finish()
        pieces, self._pieces = self._pieces, []
        return pieces

    def end_texts(self) -> None:
        """Restrict free texts to their shortest continuation: their end, or a marker."""
        attribution = self._attribution.copy()
        with derivative_budget(LIMITS.mask_steps):
            attribution.end_texts()
            state = union(
                self._automaton.node_after(transition, node, text)
                for transition, node, _, text in attribution.threads
            )
            if self.is_accepting:
                state = optional(state)
        if state is not EMPTY:
            self._attribution = attribution
            self.state = state

    def copy(self) -> Self:
        """Return an independent matcher at the same point of the answer."""
        twin = super().copy()
        twin._attribution = self._attribution.copy()
        twin._pieces = list(self._pieces)
        return twin
