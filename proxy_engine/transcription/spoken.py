"""The language of constrained transcripts, and the constrained text in a transcript.

A speech model writes a space before each word, the first one included. Words may precede the
constrained text, a *lead-in* such as "please call"::

    [space] [lead-in space] constrained text

A lead-in contains no text of the constraint as whole words, so a transcript ends with its first
constrained text. Otherwise the period that usually follows would continue the lead-in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from state_machines import RegexStateMachine, StateMachine
from state_machines.budgets import step_budget
from state_machines.errors import PatternError
from state_machines.grammar.boolean import difference, everything, intersection
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    concatenation,
    literal,
    optional,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import byte_set
from state_machines.limits import LIMITS
from state_machines.root import Marker, Optional, Series

from ..answers.response_format import Cached, OuterFormat, ResponseFormat
from ..errors import InvalidOptionError

_BYTES = byte_set(range(256))
_PUNCTUATION = byte_set(byte for byte in range(128) if not chr(byte).isalnum())
_SPACE = literal(b" ")
_ANY = everything(_BYTES)


@dataclass(frozen=True, slots=True)
class SpokenText:
    """A transcript by its parts.

    Attributes:
        lead_in: The text before the constrained text.
        text: The constrained text.
        parsed: Its value.
    """

    lead_in: str
    text: str
    parsed: Any


@dataclass(frozen=True, slots=True)
class Spoken(OuterFormat):
    """A response format as a speech model writes it: see the module.

    The parsed value is a ``SpokenText``, except for free text and compositions.

    Attributes:
        response_format: A response format.
        lead_in: A pattern of the text that may precede the output and a space; ``None``: none.
        max_lead_in: Maximum length of a lead-in in bytes. Without a limit, a model that hears no
            constrained text fills its context.
    """

    response_format: Any
    lead_in: str | None = None
    max_lead_in: int = 0

    def around(self, inner: ResponseFormat, cached: Cached) -> ResponseFormat:
        """Return the inner format after a space and a lead-in that may be missing.

        Raises:
            InvalidOptionError: There is a lead-in, but no constrained text after it.
        """
        machine = inner.machine
        if machine is None and self.lead_in is not None:
            raise InvalidOptionError(
                "lead_in precedes constrained text, and the response format is free text or a "
                "composition of parts",
                option="lead_in",
                hint="Leave it out, or give a pattern, a choice, a grammar or a JSON Schema.",
            )
        if machine is None:
            if inner.part is None:
                return inner
            space = Optional(Marker("space", " "))
            return replace(inner, part=Series(space, inner.part))
        spoken = cached(
            (Spoken, machine, self.lead_in, self.max_lead_in),
            lambda: SpokenStateMachine(machine, self.lead_in, self.max_lead_in),
        )

        def parse(text: str) -> SpokenText:
            lead_in, constrained = spoken.split(text)
            return SpokenText(lead_in, constrained, inner.parse(constrained))

        return replace(inner, machine=spoken, parse=parse)


class SpokenStateMachine(StateMachine):
    """Texts of a machine, after a space and a lead-in that may be missing.

    Args:
        machine: The machine of the constrained text.
        lead_in: The pattern of lead-ins; ``None``: none.
        max_lead_in: Their maximum length in bytes.

    Raises:
        InvalidOptionError: The pattern is invalid, or each of its texts contains constrained text.
        GrammarBudgetError: The lead-ins are too ambiguous.
    """

    def __init__(self, machine: StateMachine, lead_in: str | None, max_lead_in: int = 0) -> None:
        self.machine = machine
        before = EMPTY
        if lead_in is not None:
            with step_budget(LIMITS.compile_steps):
                before = _lead_ins(lead_in, machine, max_lead_in)
        super().__init__(
            concatenation(optional(_SPACE), optional(concatenation(before, _SPACE)), machine.start),
            inner=(machine,),
        )

    def split(self, text: str) -> tuple[str, str]:
        """Return the lead-in and the constrained text of a transcript.

        The lead-in is the shortest one, since one option of a choice may end with another.
        """
        with step_budget(LIMITS.compile_steps):
            for start in _starts(text):
                if self.machine.matches(text[start:]):
                    return text[:start].strip(), text[start:]
        raise AssertionError("a transcript contains constrained text")


def _starts(text: str) -> Iterator[int]:
    """Yield where constrained text may begin, the first space left out if possible."""
    if text.startswith(" "):
        yield 1
    yield 0
    yield from (at + 1 for at, character in enumerate(text) if at and character == " ")


def _lead_ins(pattern: str, machine: StateMachine, max_bytes: int) -> Node:
    """Return the lead-ins that begin with a word and contain no text of a machine as words."""
    try:
        admitted = RegexStateMachine(pattern).start
    except PatternError as error:
        raise InvalidOptionError(f"lead_in: {error}", option="lead_in") from error
    before = optional(concatenation(_ANY, _SPACE))
    after = optional(concatenation(symbols(_PUNCTUATION), _ANY))
    refused = union(
        (EPSILON, concatenation(_SPACE, _ANY), concatenation(before, machine.start, after))
    )
    found = difference(admitted, refused, _BYTES)
    if found.is_empty:
        raise InvalidOptionError(
            "each text of lead_in is empty, begins with a space or contains constrained text",
            option="lead_in",
        )
    within = intersection((found, repetition(symbols(_BYTES), 0, max_bytes)))
    return EMPTY if within.is_empty else within
