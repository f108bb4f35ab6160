"""What an answer is made of: sub-states, markers between them, and how they follow one another.

A :class:`SubState` is a stretch of the answer with a name and a language of its own; a
:class:`Marker` is text that delimits, and no content. :class:`Sequence`, :class:`Choice`,
:class:`Optional` and :class:`Loop` put them together; any of them is a :class:`Part`.

Free text (:class:`Text`) knows what may come after it: wherever a marker may follow, the text
cannot contain that marker, and once it is written, in whatever way it is cut into tokens, the text
is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from state_machines.errors import CompositionError
from state_machines.grammar.node import Node
from state_machines.machine import StateMachine

__all__ = [
    "Choice",
    "Loop",
    "Marker",
    "Optional",
    "Part",
    "Sequence",
    "Spell",
    "Structured",
    "SubState",
    "Text",
    "part_names",
    "repeated_part_names",
]

Spell: TypeAlias = Callable[[str], bytes]
"""How the text of a marker is spelled in a vocabulary, where it may hold special tokens."""


_LARGEST = 2**63 - 1
_BOUNDS = "Give bounds of which none is negative, the lower one first"


def _check_texts(part: object, name: object, *texts: object) -> None:
    """Raise for a value that is not a string, and for a string without a UTF-8 form."""
    known = name if isinstance(name, str) else type(part).__name__
    for text in (name, *texts):
        if not isinstance(text, str):
            raise CompositionError(
                f"names and texts are strings, not {type(text).__name__}", part=known
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise CompositionError(
                "a text holds half a surrogate pair, which is no character", part=repr(known)
            ) from error


def _check_bounds(part: str, form: str, minimum: object, maximum: object) -> None:
    """Raise for bounds that are not integers or are in the wrong order; ``form`` names the unit."""
    bounds = [minimum] if maximum is None else [minimum, maximum]
    for bound in bounds:
        if not isinstance(bound, int) or isinstance(bound, bool) or abs(bound) > _LARGEST:
            raise CompositionError(
                f"bounds are integers of 64 bits, not {type(bound).__name__}",
                part=part,
                hint=_BOUNDS,
            )
    numbers = [0, *(bound for bound in bounds if isinstance(bound, int))]
    if numbers != sorted(numbers):
        raise CompositionError(
            f"{form.format(minimum, maximum)} cannot be", part=part, hint=_BOUNDS
        )


class Part:
    """A piece of an answer. Immutable; equal to itself alone."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Marker(Part):
    """Fixed text around or between sub-states, counted to the one with the same name.

    Special tokens of the vocabulary that occur in ``text`` are written as these tokens. Where the
    marker ends a free text, the same text spelled by ordinary tokens is understood as well.
    """

    name: str
    text: str

    def __post_init__(self) -> None:
        _check_texts(self, self.name, self.text)
        if not self.text:
            raise CompositionError(
                "a marker is at least one character",
                part=self.name,
                hint="Leave out a marker that writes nothing",
            )


@dataclass(frozen=True, eq=False)
class SubState(Part, ABC):
    """A stretch of an answer. Subclasses say which texts it admits.

    ``begin`` and ``end`` are markers around it (``""``: none). Whoever writes a sub-state gives
    :meth:`machine`, and :meth:`parse` where its value is not its text.
    """

    name: str
    _: KW_ONLY
    begin: str = ""
    end: str = ""

    @abstractmethod
    def machine(self) -> StateMachine:
        """Return the machine of the texts that may stand here."""

    def language(self, spell: Spell) -> Node:
        """Return the texts as a language of bytes; for those that depend on special tokens."""
        del spell
        return self.machine().start

    def parse(self, text: str) -> Any:
        """Return what the text is the writing of."""
        return text


@dataclass(frozen=True, eq=False)
class Structured(SubState):
    """Text of a machine: JSON of a schema, a regular expression, a choice, or any other."""

    _: KW_ONLY
    grammar: StateMachine
    reader: Callable[[str], Any] = str

    def __post_init__(self) -> None:
        _check_texts(self, self.name, self.begin, self.end)
        if not isinstance(self.grammar, StateMachine):
            raise CompositionError(
                f"a grammar is a StateMachine, not {type(self.grammar).__name__}",
                part=self.name,
            )

    def machine(self) -> StateMachine:
        """Return the machine that was given."""
        return self.grammar

    def parse(self, text: str) -> Any:
        """Return what ``reader`` makes of the text."""
        return self.reader(text)


@dataclass(frozen=True, eq=False)
class Text(Part):
    """Free text of ``min_chars`` to ``max_chars`` characters (``None``: no bound).

    It contains none of the texts in ``excluding``, and no marker that may come after it; nor does
    it begin with a marker that may stand in its place. (One ``between`` two rounds of a loop counts
    together with what comes after it.) Where several markers end at once, the longest is meant.
    Writing one of ``stop`` ends it; the stop string is a marker then, and no part of the text.

    So that no marker hides where two texts meet, none comes directly after another: a text that can
    be empty is left out there, and one that cannot raises an error.
    """

    name: str = "text"
    _: KW_ONLY
    begin: str = ""
    end: str = ""
    min_chars: int = 0
    max_chars: int | None = None
    stop: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for texts in (self.stop, self.excluding):
            if not isinstance(texts, tuple):
                raise CompositionError(
                    f"stop and excluding are tuples of texts, not {type(texts).__name__}",
                    part=str(self.name),
                )
        texts = (self.begin, self.end, *self.stop, *self.excluding)
        _check_texts(self, self.name, *texts)
        form = "a text of {} to {} characters"
        _check_bounds(self.name, form, self.min_chars, self.max_chars)
        if "" in (*self.stop, *self.excluding):
            raise CompositionError(
                "a text cannot be kept from the empty string",
                part=self.name,
                hint="Let stop and excluding be tuples of texts that are not empty",
            )


@dataclass(frozen=True, eq=False, init=False)
class Sequence(Part):
    """One part after the other."""

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part) -> None:
        object.__setattr__(self, "parts", parts)


@dataclass(frozen=True, eq=False, init=False)
class Choice(Part):
    """One of several parts. Where two could have written the same, it was the earlier one."""

    options: tuple[Part, ...]

    def __init__(self, *options: Part) -> None:
        if not options:
            raise CompositionError(
                "a choice needs something to choose from",
                part="choice",
                hint="Leave out the choice, or name what to choose from",
            )
        object.__setattr__(self, "options", options)


@dataclass(frozen=True, eq=False)
class Optional(Part):
    """A part, or nothing."""

    part: Part


@dataclass(frozen=True, eq=False)
class Loop(Part):
    """A part repeated ``min_count`` to ``max_count`` times (``None``: no bound).

    ``between`` stands between two rounds.

    A part that can be empty cannot be repeated.
    """

    part: Part
    _: KW_ONLY
    min_count: int = 0
    max_count: int | None = None
    between: Part | None = None

    def __post_init__(self) -> None:
        _check_bounds("loop", "{} to {} times", self.min_count, self.max_count)


def part_names(part: Part) -> Iterator[str]:
    """Yield the names of all that a part is made of; some of them more than once."""
    match part:
        case Sequence(parts=inner) | Choice(options=inner):
            for each in inner:
                yield from part_names(each)
        case Optional():
            yield from part_names(part.part)
        case Loop():
            yield from part_names(part.part)
            if part.between is not None:
                yield from part_names(part.between)
        case Marker() | SubState() | Text():
            yield part.name


def repeated_part_names(part: Part) -> frozenset[str]:
    """Return the names of sub-states of which an answer may hold more than one."""
    return frozenset(name for name, count in _counted(part).items() if count > 1)


def _counted(part: Part) -> Counter[str]:
    """Return how many sub-states of a name there may be; two stands for many."""
    counted: Counter[str] = Counter()
    match part:
        case Sequence():
            for each in part.parts:
                counted.update(_counted(each))
        case Choice():
            for each in part.options:
                counted |= _counted(each)
        case Optional():
            counted = _counted(part.part)
        case Loop():
            rounds = 1 if part.max_count == 1 else 2
            parts = [part.part, *([part.between] if part.between is not None else [])]
            for each in parts * rounds:
                counted.update(_counted(each))
        case SubState():
            counted[part.name] = 1
    return counted
