"""A whole answer: reasoning, then content or tool calls, as a model family writes them.

::

    [reasoning]  content                       nothing to call
    [reasoning]  text, then no call or several tools, and the model may answer in its own words
    [reasoning]  structured output | calls     tools, and an answer that has a form
    [reasoning]  calls                         a call is asked for
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace

from state_machines.errors import CompositionError
from state_machines.root.parts import Choice, Marker, Optional, Part, Sequence, Text
from state_machines.tool_calls.call import ToolSignature
from state_machines.tool_calls.tool_format import NO_DELIMITERS, Delimiters, ToolFormat

__all__ = ["REASONING", "TEXT", "Calls", "Reasoning", "compose_answer"]

TEXT = "text"
REASONING = "reasoning"

SPACES = ("\n\n", "\n")
"""What models write between reasoning and the rest."""


@dataclass(frozen=True, kw_only=True)
class Reasoning:
    """Reasoning of ``min_chars`` to ``max_chars`` characters, between ``delimiters``.

    ``is_open``: the prompt ends with the delimiter that begins it. ``is_required``: there must be
    some; otherwise it is the model's choice.
    """

    delimiters: Delimiters
    is_open: bool = False
    is_required: bool = False
    min_chars: int = 0
    max_chars: int | None = None

    def __post_init__(self) -> None:
        if not self.delimiters.end or not (self.delimiters.begin or self.is_open):
            raise CompositionError(
                "reasoning needs texts that begin and end it",
                part=REASONING,
                hint="Name them: the model's tokenizer knows none",
            )


@dataclass(frozen=True, kw_only=True)
class Calls:
    """``min_calls`` to ``max_calls`` calls of ``tools`` (``None``: no bound)."""

    format: ToolFormat
    tools: Several[ToolSignature]
    min_calls: int = 0
    max_calls: int | None = None

    def part(self, min_calls: int) -> Part:
        """Return the part that writes at least ``min_calls`` calls."""
        return self.format.calls(self.tools, min_calls=min_calls, max_calls=self.max_calls)


def compose_answer(
    content: Part | None = None,
    *,
    calls: Calls | None = None,
    reasoning: Reasoning | None = None,
    dialect: ToolFormat | None = None,
    excluding: Several[str] = (),
    stop: Several[str] = (),
) -> Part:
    """Return the parts of an answer.

    ``content`` is what is asked for; ``None``: free text. ``calls`` with a ``min_calls`` of one
    or more leave no room for it. ``dialect`` is the format of the model's family, with calls or
    without: its markers are kept out of free text, and where it has some around answers these are
    written. ``excluding`` are more texts that free text must not contain. ``stop`` are texts that
    end free text, and the answer with it. They do not apply to structured output, calls and
    reasoning, nor to a ``content`` that is a composition. Raises
    :class:`~state_machines.errors.CompositionError`.
    """
    dialect = dialect or (calls.format if calls is not None else None)
    without = dict.fromkeys((*excluding, *_foreign(reasoning, dialect)))
    rest = _answer(content, calls, dialect, tuple(without), tuple(stop))
    if dialect is not None and dialect.finish:
        rest = Sequence(rest, Marker(TEXT, dialect.finish))
    if reasoning is None:
        return rest
    begin = "" if reasoning.is_open else reasoning.delimiters.begin
    thought = Text(
        REASONING,
        begin=begin,
        end=reasoning.delimiters.end,
        min_chars=reasoning.min_chars,
        max_chars=reasoning.max_chars,
    )
    space: Part = Optional(Choice(*(Marker(REASONING, text) for text in SPACES)))
    if dialect is not None and dialect.joint:
        space = Marker(REASONING, dialect.joint)
    before = Sequence(thought, space)
    if reasoning.is_open or reasoning.is_required:
        return Sequence(before, rest)
    return Sequence(Optional(before), rest)


def _answer(
    content: Part | None,
    calls: Calls | None,
    dialect: ToolFormat | None,
    without: tuple[str, ...],
    stop: tuple[str, ...],
) -> Part:
    if content is None:
        content = Text(TEXT)
    ended = content
    if isinstance(content, Text):
        content = _excluding(content, without)
        ended = replace(content, stop=tuple(dict.fromkeys((*content.stop, *stop))))
    answer = _delimited(ended, dialect.answer if dialect is not None else NO_DELIMITERS)
    if calls is None:
        return answer
    if calls.min_calls:
        return calls.part(calls.min_calls)
    if not isinstance(content, Text):
        return Choice(answer, calls.part(1))
    preamble, joint = calls.format.preamble, calls.format.joint
    if calls.format.answer == NO_DELIMITERS and preamble == NO_DELIMITERS:
        start = calls.format.start
        free = replace(content, excluding=tuple(t for t in content.excluding if t != start))
        if not stop:
            return Sequence(free, calls.part(0))
        stops = (Marker(TEXT, text) for text in stop)
        return Sequence(free, Optional(Choice(*stops, calls.part(1))))
    # A stop string ends the answer, and calls must follow this text; so there is none in it.
    said = _delimited(_excluding(content, stop), preamble)
    before = [said, *([Marker(TEXT, joint)] if joint else [])]
    return Choice(answer, Sequence(Optional(Sequence(*before)), calls.part(1)))


def _excluding(text: Text, more: Several[str]) -> Text:
    return replace(text, excluding=tuple(dict.fromkeys((*text.excluding, *more))))


def _foreign(reasoning: Reasoning | None, dialect: ToolFormat | None) -> Iterator[str]:
    """Yield the markers that have no place in free text."""
    if reasoning is not None:
        yield from filter(None, (reasoning.delimiters.begin, reasoning.delimiters.end))
    if dialect is not None:
        yield dialect.start


def _delimited(content: Part, around: Delimiters) -> Part:
    identifier = getattr(content, "name", TEXT)
    parts = [content]
    if around.begin:
        parts.insert(0, Marker(identifier, around.begin))
    if around.end:
        parts.append(Marker(identifier, around.end))
    return Sequence(*parts) if len(parts) > 1 else content
