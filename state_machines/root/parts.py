"""The parts of an answer: sub-states, free text, markers, and their composition.

A :class:`SubState` is a stretch of the answer with its name and its language, such as the arguments
of a call. A :class:`Marker` is text that delimits and is no content, such as ``<tool_call>``.
:class:`Series`, :class:`Choice`, :class:`Optional` and :class:`Repeat` compose them; each of these
is a :class:`Part`.

Free text (:class:`Text`) ends where a marker that may follow it is complete. It is found by its
characters, so it does not matter how it is cut into tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from state_machines.errors import CompositionError, has_surrogate
from state_machines.grammar.node import Node
from state_machines.grammar.tokens import Spell
from state_machines.machine import StateMachine

_LARGEST = 2**63 - 1
_BOUNDS = "Bounds are not negative, and the lower one comes first"


def check_texts(part: object, name: object, *texts: object) -> None:
    """Raise for a value that is not a string, and for a string that has no UTF-8 form."""
    known = name if isinstance(name, str) else type(part).__name__
    for text in (name, *texts):
        if not isinstance(text, str):
            raise CompositionError(
                f"names and texts are strings, not {type(text).__name__}", part=known
            )
        if has_surrogate(text):
            raise CompositionError(
                "a text contains half a surrogate pair, which is no character", part=repr(known)
            )


def _check_bounds(part: str, form: str, minimum: object, maximum: object) -> None:
    """Raise for bounds that are no integers or out of order; ``form`` describes them in errors."""
    bounds: list[Any] = [0, minimum] if maximum is None else [0, minimum, maximum]
    for bound in bounds:
        if not isinstance(bound, int) or isinstance(bound, bool) or abs(bound) > _LARGEST:
            raise CompositionError(
                f"bounds are integers of 64 bits, not {type(bound).__name__}",
                part=part,
                hint=_BOUNDS,
            )
    if bounds != sorted(bounds):
        raise CompositionError(
            f"{form.format(minimum, maximum)} cannot be", part=part, hint=_BOUNDS
        )


class Part:
    """A part of an answer. Immutable; equal to itself alone."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Marker(Part):
    """Fixed text around or between sub-states.

    Special tokens of the vocabulary that occur in ``text`` are written as these tokens. Where the
    marker ends a free text, the same text in ordinary tokens counts as well.

    Attributes:
        name: The name of the part that the marker is attributed to.
        text: The text, not empty.
        continues: Whether the output continues behind end tokens in the text,
            as between two turns of a conversation. Otherwise an end token can only be last. The
            generation loop must then ask the matcher whether the output has ended. Special tokens
            in such a text cannot be written in ordinary tokens.
    """

    name: str
    text: str
    _: KW_ONLY
    continues: bool = False

    def __post_init__(self) -> None:
        check_texts(self, self.name, self.text)
        if not self.text:
            raise CompositionError(
                "a marker has at least one character",
                part=self.name,
                hint="Leave out a marker that writes nothing",
            )


class MarkerPrefixes:
    """The proper prefixes of the markers that may end a text.

    Bytes at the end of the output that equal one may belong to the text or to a marker.
    """

    def __init__(self, markers: Iterable[str]) -> None:
        forms = [marker.encode() for marker in markers]
        self._prefixes = {form[:size] for form in forms for size in range(1, len(form))}
        # Markers may have 64,000 bytes together, and each token asks.
        self._max_length = max(map(len, self._prefixes), default=0)
        self._last_bytes = {prefix[-1] for prefix in self._prefixes}

    def length_at_end(self, text: bytes) -> int:
        """Return the length of the longest prefix that ``text`` ends with."""
        if not text or text[-1] not in self._last_bytes:
            return 0
        sizes = range(min(self._max_length, len(text)), 0, -1)
        return next((size for size in sizes if text[-size:] in self._prefixes), 0)


@dataclass(frozen=True, eq=False)
class SubState(Part, ABC):
    """A stretch of an answer, with a language that subclasses define.

    A subclass implements :meth:`machine`, and :meth:`parse` if its value is not its text.

    Attributes:
        name: The name of the part.
        begin: The marker before it; empty if there is none.
        end: The marker after it; empty if there is none.
    """

    name: str
    _: KW_ONLY
    begin: str = ""
    end: str = ""

    @property
    def has_values(self) -> bool:
        """Whether the texts are values of a JSON Schema."""
        return False

    @abstractmethod
    def machine(self) -> StateMachine:
        """Return the machine of the texts that the sub-state admits."""

    def spelled_machine(self, spell: Spell) -> StateMachine:
        """Return the machine of the texts, with markers in them as ``spell`` writes them.

        Overridden where the texts contain markers.
        """
        del spell
        return self.machine()

    def parse(self, text: str) -> Any:
        """Return the value of a text."""
        return text


@dataclass(frozen=True, eq=False)
class LineStart(SubState):
    """A sub-state that follows free text only at the start of a line, or of the text.

    No line of the text begins with a heading: once it is written, the sub-state is certain. A line
    feed within the beginning of a heading does not start a line. If the sub-state stands in place
    of the text and not behind it, only the first line does not begin with a heading.

    Attributes:
        headings: The language of headings, over code points. None is empty. A heading begins with a
            text of the sub-state, and may end in the part behind it.
    """

    _: KW_ONLY
    headings: Node


class DistinctValue(NamedTuple):
    """A value that an answer has, and may not have again.

    Attributes:
        kind: Values of different kinds are never equal.
        value: The value as JSON, with sorted names.
    """

    kind: str
    value: str


@dataclass(frozen=True, eq=False)
class DistinctSubState(SubState):
    """A sub-state whose value differs from the values of all earlier sub-states of its kind.

    Once all values of a kind have been written, the answer cannot contain another one.
    """

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the values."""

    @property
    def excluded(self) -> Iterable[DistinctValue]:
        """Values that the answer must not have, as if earlier sub-states had them."""
        return ()

    @abstractmethod
    def value_of(self, text: str) -> DistinctValue | None:
        """Return the value of a text of the sub-state; ``None`` if it may come again."""

    @abstractmethod
    def spellings(self, value: DistinctValue) -> Node:
        """Return the language of the texts with a value, in bytes; other texts may be in it."""

    @abstractmethod
    def count_values(self, limit: int) -> int:
        """Return a lower bound on the number of values, up to a limit."""


@dataclass(frozen=True, eq=False)
class Structured(SubState):
    """Text that a state machine admits.

    Attributes:
        grammar: The machine: of a JSON schema, a regular expression, a choice, or any other.
        reader: Returns the value of a text.
    """

    _: KW_ONLY
    grammar: StateMachine
    reader: Callable[[str], Any] = str

    def __post_init__(self) -> None:
        check_texts(self, self.name, self.begin, self.end)
        if not isinstance(self.grammar, StateMachine):
            raise CompositionError(
                f"a grammar is a StateMachine, not {type(self.grammar).__name__}",
                part=self.name,
            )

    @property
    def has_values(self) -> bool:
        """Whether the texts are values of a JSON Schema."""
        return self.grammar.has_values

    def machine(self) -> StateMachine:
        """Return the machine."""
        return self.grammar

    def parse(self, text: str) -> Any:
        """Return what ``reader`` returns for a text."""
        return self.reader(text)


@dataclass(frozen=True, eq=False)
class Text(Part):
    """Free text.

    The text contains no marker that may follow it, and no heading of a :class:`LineStart` that may
    follow it. It does not begin with a marker or heading that may stand in its place. (A marker
    between two rounds of a repetition counts together with the part after it.) Where several
    markers end at the same character, the longest counts.

    No text directly follows another one, since markers could hide where they meet: a text that may
    be empty is left out there, and one that may not raises an error.

    Attributes:
        name: The name of the part.
        begin: The marker before it; empty if there is none.
        end: The marker after it; empty if there is none.
        min_chars: The least number of characters.
        max_chars: The greatest number of characters; ``None`` if there is no bound.
        stop: Strings that end the text. A stop string is a marker and not part of the text.
        excluding: Strings that the text cannot contain.
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
                    f"stop and excluding are tuples of strings, not {type(texts).__name__}",
                    part=str(self.name),
                )
        texts = (self.begin, self.end, *self.stop, *self.excluding)
        check_texts(self, self.name, *texts)
        form = "a text of {} to {} characters"
        _check_bounds(self.name, form, self.min_chars, self.max_chars)
        if "" in (*self.stop, *self.excluding):
            raise CompositionError(
                "stop and excluding cannot contain the empty string",
                part=self.name,
                hint="Every text contains the empty string",
            )


@dataclass(frozen=True, eq=False, init=False)
class Series(Part):
    """Parts in a row."""

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part) -> None:
        object.__setattr__(self, "parts", parts)


@dataclass(frozen=True, eq=False, init=False)
class Choice(Part):
    """One of several parts. Text that two of them admit is attributed to the earlier one."""

    options: tuple[Part, ...]

    def __init__(self, *options: Part) -> None:
        if not options:
            raise CompositionError(
                "a choice needs at least one option",
                part="choice",
                hint="Leave out the choice, or give it options",
            )
        object.__setattr__(self, "options", options)


@dataclass(frozen=True, eq=False)
class Optional(Part):
    """A part, or nothing."""

    part: Part


@dataclass(frozen=True, eq=False)
class Repeat(Part):
    """A part that is repeated. It cannot be a part that may be empty.

    Attributes:
        part: The part of each round.
        min_count: The least number of rounds.
        max_count: The greatest number of rounds; ``None`` if there is no bound.
        between: The part between two rounds.
    """

    part: Part
    _: KW_ONLY
    min_count: int = 0
    max_count: int | None = None
    between: Part | None = None

    def __post_init__(self) -> None:
        _check_bounds("repeat", "{} to {} times", self.min_count, self.max_count)


def leaves(part: Part) -> Iterator[Marker | SubState | Text]:
    """Yield the sub-states, texts and markers inside a part, in the order of the answer."""
    # Not recursive: hundreds of tools have thousands of parts.
    stack = [part]
    while stack:
        part = stack.pop()
        match part:
            case Marker() | SubState() | Text():
                yield part
            case Series(parts=inner) | Choice(options=inner):
                stack.extend(reversed(inner))
            case Optional():
                stack.append(part.part)
            case Repeat():
                if part.between is not None:
                    stack.append(part.between)
                stack.append(part.part)


def part_names(part: Part) -> Iterator[str]:
    """Yield the names of all parts inside a part; some of them more than once."""
    return (leaf.name for leaf in leaves(part))


def repeated_part_names(part: Part) -> frozenset[str]:
    """Return the names that more than one sub-state of an answer may have."""
    return frozenset(name for name, count in _counted(part).items() if count > 1)


def _counted(part: Part) -> Counter[str]:
    """Return the number of sub-states of each name that an answer may have; 2 stands for many."""
    counted: Counter[str] = Counter()
    match part:
        case Series():
            for each in part.parts:
                counted.update(_counted(each))
        case Choice():
            for each in part.options:
                counted |= _counted(each)
        case Optional():
            counted = _counted(part.part)
        case Repeat():
            rounds = 1 if part.max_count == 1 else 2
            parts = [part.part, *([part.between] if part.between is not None else [])]
            for each in parts * rounds:
                counted.update(_counted(each))
        case SubState():
            counted[part.name] = 1
    return counted
