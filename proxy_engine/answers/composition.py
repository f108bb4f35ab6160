"""The parts of a whole answer: reasoning, then content or tool calls.

::

    [reasoning]  content                       without tools
    [reasoning]  text [calls]                  with tools, free text; calls also as JSON in text
    [reasoning]  text [calls text]…            the same, in formats with text between calls
    [reasoning]  structured output | calls     with tools and a response format
    [reasoning]  calls                         with required calls

A freeform answer precedes the content or the calls, and is reported as reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from state_machines.errors import CompositionError
from state_machines.json_schema.machine import AdditionalProperties
from state_machines.root.parts import Choice, Marker, Optional, Part, Series, Text
from state_machines.tool_calls.call import ToolSignature
from state_machines.tool_calls.calls_in_text import CallsInText, calls_in_text
from state_machines.tool_calls.tool_format import NO_DELIMITERS, Delimiters, ToolFormat

TEXT = "text"
REASONING = "reasoning"

SPACES = ("\n\n", "\n")
"""Whitespace between reasoning and the rest."""


@dataclass(frozen=True, kw_only=True)
class Reasoning:
    """Reasoning before the answer.

    Attributes:
        delimiters: The markers around it.
        is_open: Whether the prompt has opened it.
        is_required: Whether the model must reason.
        min_chars: Minimum number of characters.
        max_chars: Maximum number of characters; ``None``: no limit.
    """

    delimiters: Delimiters
    is_open: bool = False
    is_required: bool = False
    min_chars: int = 0
    max_chars: int | None = None

    def __post_init__(self) -> None:
        if not self.delimiters.end or not (self.delimiters.begin or self.is_open):
            raise CompositionError(
                "reasoning needs a begin and an end marker",
                part=REASONING,
                hint="Give them in ReasoningOptions: the model's tokenizer has none",
            )


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Tool calls of an answer.

    Attributes:
        format: The model's tool format.
        tools: The tools that may be called.
        min_calls: Minimum number of calls.
        max_calls: Maximum number of calls; ``None``: no limit.
        sources: The texts that arguments are quoted from, by name.
        additional_properties: How the arguments' schemas treat further properties.
        in_text: Where JSON in free text that names a tool is a call.
    """

    format: ToolFormat
    tools: Sequence[ToolSignature]
    min_calls: int = 0
    max_calls: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    additional_properties: AdditionalProperties = "schema"
    in_text: CallsInText = "off"

    def part(self, min_calls: int, text: Text | None = None) -> Part:
        """Return the part with at least ``min_calls`` calls and, between them, ``text``."""
        return self.format.calls(
            self.tools,
            min_calls=min_calls,
            max_calls=self.max_calls,
            options=self._options,
            text=text,
        )

    def as_json(self, calls: Part, excluding: Sequence[str] = ()) -> Part | None:
        """Return the part with calls as JSON in free text; ``None`` if they are text.

        Args:
            calls: The calls in the model's own format.
            excluding: Texts that end the free text.
        """
        if self.in_text == "off":
            return None
        return calls_in_text(
            self.tools,
            calls,
            max_calls=self.max_calls if self.format.parallel else 1,
            options=self._options,
            excluding=(
                self.format.start,
                *(format.start for format in self.format.also),
                *excluding,
            ),
        )

    @property
    def _options(self) -> Mapping[str, Any]:
        return {
            "sources": self.sources,
            "additional_properties": self.additional_properties,
        }


def compose_answer(
    content: Part | None = None,
    *,
    calls: Calls | None = None,
    reasoning: Reasoning | None = None,
    freeform: Delimiters | None = None,
    dialect: ToolFormat | None = None,
    excluding: Sequence[str] = (),
    stop: Sequence[str] = (),
) -> Part:
    """Return the parts of an answer.

    Args:
        content: The content; ``None``: free text.
        calls: Tool calls in place of the content or after it. If ``min_calls`` is positive, there
            is no content.
        reasoning: Reasoning before the content.
        freeform: The texts around a freeform answer before the content. End tokens in the second do
            not end the output.
        dialect: The model's tool format, also for answers without calls: free text does not
            contain its markers, and content is written between its answer delimiters.
        excluding: Texts that free text must not contain.
        stop: Texts that end free text, and the answer. They do not apply to reasoning, structured
            output, calls and compositions.

    Raises:
        CompositionError: The parts cannot be combined.
    """
    dialect = dialect or (calls.format if calls is not None else None)
    without = dict.fromkeys((*excluding, *_foreign(reasoning, dialect)))
    rest = _answer(content, calls, dialect, tuple(without), tuple(stop))
    if dialect is not None and dialect.finish:
        rest = Series(rest, Marker(TEXT, dialect.finish))
    if freeform is not None:
        end = Marker(REASONING, freeform.end, continues=True)
        rest = Series(Text(REASONING, begin=freeform.begin), end, rest)
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
    before = Series(thought, space)
    if reasoning.is_open or reasoning.is_required:
        return Series(before, rest)
    return Series(Optional(before), rest)


def _answer(
    content: Part | None,
    calls: Calls | None,
    dialect: ToolFormat | None,
    without: tuple[str, ...],
    stop: tuple[str, ...],
) -> Part:
    is_free = content is None
    if content is None:
        content = Text(TEXT)
    ended = content
    if isinstance(content, Text):
        content = _excluding(content, without)
        ended = replace(content, stop=tuple(dict.fromkeys((*content.stop, *stop))))
    answer: Part = _delimited(ended, dialect.answer if dialect is not None else NO_DELIMITERS)
    if calls is None:
        return answer
    if calls.min_calls:
        return calls.part(calls.min_calls)
    if not isinstance(content, Text):
        return Choice(answer, calls.part(1))
    preamble, joint = calls.format.preamble, calls.format.joint
    if calls.format.answer == NO_DELIMITERS and preamble == NO_DELIMITERS:
        return _text_and_calls(content, calls, stop, is_free=is_free)
    native = calls.part(1)
    written = calls.as_json(native, stop) if is_free else None
    if written is not None:
        is_instead = calls.in_text == "start"
        ends: list[Part] = [Marker(TEXT, text) for text in stop]
        last = ends if is_instead else [*ends, written]
        if preamble == calls.format.answer:
            # A single text: its JSON is a call, whether or not native calls may follow the text.
            after = Series(*_marker(preamble.end), Optional(Series(*_marker(joint), native)))
            end = _marker(preamble.end)
            free: Part = Series(content, Choice(after, *(Series(part, *end) for part in last)))
            if is_instead:
                free = Choice(Series(written, *end), free)
            return Choice(_delimited(free, replace(preamble, end="")), native)
        free = Choice(written, ended) if is_instead else Series(content, Optional(Choice(*last)))
        answer = _delimited(free, calls.format.answer)
    # Calls must follow this text, and a stop string would end the answer: it cannot have one.
    said = _delimited(_excluding(content, stop), preamble)
    return Choice(answer, Series(Optional(Series(said, *_marker(joint))), native))


def _marker(text: str) -> list[Marker]:
    return [Marker(TEXT, text)] if text else []


def _text_and_calls(text: Text, calls: Calls, stop: Sequence[str], *, is_free: bool) -> Part:
    """Return free text and calls after it; then more of both if the format has it."""
    entry = calls.format
    markers = [Marker(TEXT, text) for text in stop]
    if is_free and entry.interleaved:
        # Text before a call cannot contain a stop string, which would end the answer.
        text = _excluding(text, (entry.start, entry.result.begin, *stop))
        native = calls.part(1, text)
        stops = [Optional(Choice(*markers))] if markers else []
        written = calls.as_json(native, (entry.result.begin, *stop))
        if written is None:
            return Series(text, Optional(native), *stops)
        if calls.in_text == "start":
            return Choice(written, Series(text, Optional(native), *stops))
        # Calls as JSON end the answer, so only the first text ends with them.
        return Series(replace(text), Choice(Series(Optional(native), *stops), written))
    text = replace(text, excluding=tuple(t for t in text.excluding if t != entry.start))
    native = calls.part(1)
    written = calls.as_json(native, stop) if is_free else None
    if written is None:
        return Series(text, Optional(Choice(*markers, native)))
    if calls.in_text == "start":
        return Choice(written, Series(text, Optional(Choice(*markers, native))))
    return Series(text, Optional(Choice(*markers, native, written)))


def _excluding(text: Text, more: Sequence[str]) -> Text:
    return replace(text, excluding=tuple(dict.fromkeys((*text.excluding, *more))))


def _foreign(reasoning: Reasoning | None, dialect: ToolFormat | None) -> Iterator[str]:
    """Yield the markers that free text must not contain."""
    if reasoning is not None:
        yield from filter(None, (reasoning.delimiters.begin, reasoning.delimiters.end))
    if dialect is not None:
        yield dialect.start


def _delimited(content: Part, around: Delimiters) -> Part:
    name = getattr(content, "name", TEXT)
    parts = [content]
    if around.begin:
        parts.insert(0, Marker(name, around.begin))
    if around.end:
        parts.append(Marker(name, around.end))
    return Series(*parts) if len(parts) > 1 else content
