"""Convert the output of an answer's parts to events, and a complete answer to values.

:class:`AnswerReader` reads an answer while it is generated. The functions return the values of a
complete one: of its parts, of its tool calls, and captured texts.
"""

from __future__ import annotations

import codecs
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import jsonschema

from state_machines import GrammarBudgetError, InvalidArgumentError, JsonSchemaStateMachine
from state_machines.argument_notations import INPUT, JSON
from state_machines.budgets import step_budget
from state_machines.limits import LIMITS
from state_machines.root import Marker, Part, Piece, Structured, SubState, Text, repeated_part_names
from state_machines.tool_calls.argument_stream import ArgumentStream
from state_machines.tool_calls.call import (
    CALL,
    CallArguments,
    CallEnd,
    CallId,
    CallLayout,
    CallStart,
    CallText,
    InputDecoder,
)
from state_machines.tool_calls.calls_in_text import NamedArguments
from state_machines.vocabulary import Vocabulary

from ..checks import reference_token
from ..conversation.content import ToolCall
from ..errors import OutputValidationError
from ..results.events import (
    Event,
    PartialValue,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from ..results.json_cursor import PartialJson
from ..results.parts import AnswerPart
from ..tools import Tool
from ..tools.call_parsing import unique_call_id
from ..validation import JsonValidator
from .composition import REASONING

_CALL_PARTS = (CallStart, CallId, CallText, CallArguments, CallEnd)


@dataclass(slots=True)
class _OpenCall:
    """A call that is being generated."""

    index: int
    name: str
    id: str = ""
    id_part: CallId | None = None
    id_text: str = ""
    text: list[str] = field(default_factory=list)
    arguments: CallArguments | None = None
    written: list[str] = field(default_factory=list)
    decoder: InputDecoder | None = None
    stream: ArgumentStream | None = None
    end: str = ""
    closing: str = ""
    is_whole: bool = False

    def event(self, kind: Callable[..., Event], **fields: Any) -> Event:
        """Return an event of the call."""
        return kind(part=CALL, index=self.index, id=self.id, **fields)


@dataclass(slots=True)
class _JsonCall:
    """A call that is written as JSON in text, up to its arguments.

    Attributes:
        opening: The text before the tool's name.
        head: The text from the name on.
        arguments: The arguments, once they have begun.
    """

    opening: str = ""
    head: str = ""
    arguments: CallArguments | None = None


class AnswerReader:
    """Reads the output of one answer, piece by piece.

    Args:
        new_id: Makes the id of a call from the tool's name and the call's number, if the model
            writes no ids.
        watches_value: Whether to emit ``PartialValue`` events.
        repeated: The names of parts whose values are lists of values.
    """

    def __init__(
        self,
        *,
        new_id: Callable[[str, int], str],
        watches_value: bool = False,
        repeated: frozenset[str] = frozenset(),
    ) -> None:
        self._new_id = new_id
        self._watches_value = watches_value
        self._repeated = repeated
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._written: list[tuple[Part, list[str]]] = []
        self._call: _OpenCall | None = None
        self._json_call = _JsonCall()
        self._value: tuple[str, PartialJson] | None = None
        self.calls: list[ToolCall] = []

    def read(self, pieces: Sequence[Piece], *, is_last: bool = False) -> list[Event]:
        """Take pieces of output, and return the events.

        Raises:
            OutputValidationError: The arguments of a complete call cannot be parsed, because they
                are nested too deeply for Python.
        """
        events: list[Event] = []
        for part, written in pieces:
            events += self._read(part, self._decoded(part, written))
        if is_last:
            left = self._decoder.decode(b"", final=True)
            if left and self._written:
                events += self._read(self._written[-1][0], left)
            if self._json_call.head and self._json_call.arguments is None:
                events += self._read(Marker(CALL, self._json_call.head), self._json_call.head)
            events += self._end_call(may_be_cut=True)
            events += self._end_value()
        return events

    @property
    def values(self) -> list[tuple[SubState, str]]:
        """The parts other than text and tool calls, with their output so far."""
        return [(part, "".join(texts)) for part, texts in self._written if _is_value(part)]

    @property
    def text(self) -> str:
        """Free text and structured output so far."""
        return "".join(
            text
            for part, texts in self._written
            if _is_value(part) or (isinstance(part, Text) and part.name != REASONING)
            for text in texts
        )

    @property
    def reasoning(self) -> str:
        """Reasoning so far."""
        return "".join(
            text
            for part, texts in self._written
            if isinstance(part, Text) and part.name == REASONING
            for text in texts
        )

    @property
    def parts(self) -> tuple[AnswerPart, ...]:
        """The output so far, by part, with the JSON Pointer of the value of each part.

        A single value is the whole answer. Several are members by name.
        """
        is_single = len({part.name for part, _ in self._written if _is_value(part)}) == 1
        counts: Counter[str] = Counter()
        call = -1
        # Some formats write the call's id before the tool's name.
        unwritten_name = ""
        parts = []
        for part, texts in self._written:
            pointer = None
            if isinstance(part, CallStart):
                call += 1
                unwritten_name = part.tool.written_name
            if unwritten_name and isinstance(part, Marker) and unwritten_name in part.text:
                unwritten_name = ""
                pointer = f"/tool_calls/{call}/name"
            elif isinstance(part, CallArguments):
                if part.notation is JSON:
                    pointer = f"/tool_calls/{call}/arguments"
            elif _is_value(part):
                pointer = "" if is_single else f"/{reference_token(part.name)}"
                if part.name in self._repeated:
                    pointer += f"/{counts[part.name]}"
                counts[part.name] += 1
            if any(texts):
                is_marker = isinstance(part, Marker | CallLayout)
                name = getattr(part, "name", "")
                parts.append(AnswerPart(name, "".join(texts), is_marker, pointer))
        return tuple(parts)

    def _decoded(self, part: Part, written: bytes) -> str:
        if isinstance(part, Text):
            return self._decoder.decode(written)
        return self._decoder.decode(written.replace(Vocabulary.SPECIAL_MARK, b""))

    def _read(self, part: Part, text: str) -> Iterator[Event]:
        if isinstance(part, NamedArguments):
            yield from self._named_arguments(part, text)
            return
        is_new = not self._written or self._written[-1][0] is not part
        if is_new:
            yield from self._end_value()
            self._written.append((part, []))
        self._written[-1][1].append(text)
        call = self._call
        match part:
            case CallStart() if is_new:
                yield from self._end_call()
                call = self._call = _OpenCall(len(self.calls), part.tool.name)
            case CallId() if call is not None and call.arguments is None:
                call.id_part = part
                call.id_text += text
            case CallArguments():
                yield from self._arguments(_of(call), part, text)
            case CallEnd():
                _of(call).end += text
                _of(call).is_whole = _of(call).end == part.text
            case CallStart() | CallText():
                pass
            case CallLayout():
                if self._json_call.arguments is not None:
                    yield from self._end_call()
                    self._json_call = _JsonCall()
                self._json_call.opening += text
            case Marker():
                yield from self._end_call()
            case Text() if text:
                kind = ReasoningDelta if part.name == REASONING else TextDelta
                yield kind(part=part.name, text=text)
            case SubState() if _is_value(part):
                yield from self._structured(part, text, is_new=is_new)
        if call is not None and isinstance(part, _CALL_PARTS):
            call.text.append(text)

    def _named_arguments(self, part: NamedArguments, text: str) -> Iterator[Event]:
        """Read the name and the arguments of a call as the parts of a call in a tool format."""
        written = self._json_call
        if written.arguments is not None:
            yield from self._read(written.arguments, text)
            return
        written.head += text
        found = part.split(written.head)
        if found is None:
            return
        start, written.arguments, arguments = found
        yield from self._read(start, start.text)
        opening = written.opening[written.opening.index("{") :]
        call = _of(self._call)
        call.text.insert(0, opening)
        call.closing = "}" * opening.count("{")
        yield from self._read(written.arguments, arguments)

    def _arguments(self, call: _OpenCall, part: CallArguments, text: str) -> Iterator[Event]:
        if call.arguments is None:
            call.arguments = part
            written = call.id_part.parse(call.id_text) if call.id_part is not None else None
            call.id = unique_call_id(written, self._new_id, call.name, self.calls)
            is_custom = part.tool.input is not None
            call.decoder = InputDecoder(part.notation) if is_custom else None
            if not is_custom and part.notation is not JSON:
                call.stream = ArgumentStream(part)
            yield call.event(ToolCallStarted, name=call.name, is_custom=is_custom)
        call.written.append(text)
        if call.decoder is not None:
            if more := call.decoder.add(text):
                yield call.event(ToolInputDelta, input=more)
        elif more := call.stream.add(text) if call.stream is not None else text:
            yield call.event(ToolCallDelta, arguments=more)

    def _end_call(self, *, may_be_cut: bool = False) -> Iterator[Event]:
        call, self._call = self._call, None
        if call is None or call.arguments is None:
            return
        may_be_cut = may_be_cut and not call.is_whole
        # Only JSON text reveals whether it is complete.
        if may_be_cut and call.arguments.notation is not JSON:
            return
        written = "".join(call.written)
        try:
            arguments = call.arguments.parse(written)
        except ValueError as error:
            if may_be_cut:
                return
            raise OutputValidationError(
                f"the arguments of the call of {call.name!r} cannot be parsed: {error}",
                text=written,
            ) from error
        is_custom = call.decoder is not None
        if call.decoder is not None:
            if more := arguments[INPUT].removeprefix(call.decoder.decoded):
                yield call.event(ToolInputDelta, input=more)
        elif call.stream is not None and (more := call.stream.end(arguments)):
            yield call.event(ToolCallDelta, arguments=more)
        self.calls.append(
            ToolCall(
                call.id,
                call.name,
                arguments,
                "".join((*call.text, call.closing)),
                is_custom=is_custom,
            )
        )
        yield call.event(ToolCallFinished, name=call.name, arguments=arguments, is_custom=is_custom)

    def _structured(self, part: SubState, text: str, *, is_new: bool) -> Iterator[Event]:
        if is_new and self._watches_value and isinstance(part.machine(), JsonSchemaStateMachine):
            self._value = part.name, PartialJson()
        if text:
            yield TextDelta(part=part.name, text=text)
        if self._value is not None and self._value[1].add(text):
            yield PartialValue(part=part.name, value=self._value[1].value)

    def _end_value(self) -> Iterator[Event]:
        ended, self._value = self._value, None
        if ended is not None and ended[1].add("", last=True):
            yield PartialValue(part=ended[0], value=ended[1].value)


def _of(call: _OpenCall | None) -> _OpenCall:
    if call is None:
        raise AssertionError("a call's parts come after its start")
    return call


def _is_value(part: Part) -> TypeGuard[SubState]:
    if isinstance(part, CallArguments | CallId | CallLayout):
        return False
    return isinstance(part, SubState)


_log = logging.getLogger(__name__)


def composed_value(composition: Part, values: Iterable[tuple[SubState, str]]) -> Any:
    """Return the value of a composition of parts.

    Args:
        composition: The composition.
        values: The parts of the answer that have values, each with its text.

    Returns:
        A value, or a ``dict`` by the names of the parts if there are several; ``None`` if there
        are none.

    Raises:
        OutputValidationError: A text cannot be parsed.
    """
    parsed: dict[str, Any] = {}
    repeated = repeated_part_names(composition)
    for part, text in values:
        try:
            value = part.parse(text)
        except Exception as error:
            # The caller's own parser may raise errors of any type.
            raise OutputValidationError(
                f"the text of {part.name!r} cannot be parsed: {error}", text=text
            ) from error
        if part.name in repeated:
            parsed.setdefault(part.name, []).append(value)
        else:
            parsed[part.name] = value
    return next(iter(parsed.values())) if len(parsed) == 1 else parsed or None


def captured_texts(values: Iterable[tuple[SubState, str]]) -> dict[str, str | list[str]]:
    """Return the texts that grammars captured in the values of an answer, by name."""
    found: dict[str, list[str]] = {}
    for part, text in values:
        machine = part.grammar if isinstance(part, Structured) else None
        captured = getattr(machine, "captures", None)
        if captured is None:
            # No grammar with rules.
            continue
        try:
            with step_budget(LIMITS.mask_steps):
                captures = captured(text)
        except (GrammarBudgetError, InvalidArgumentError) as error:
            _log.warning("the captures of %r are missing: %s", part.name, error)
            continue
        for name, texts in captures.items():
            found.setdefault(name, []).extend([texts] if isinstance(texts, str) else texts)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}


def checked_calls(calls: Iterable[ToolCall], tools: Mapping[str, Tool]) -> Iterator[ToolCall]:
    """Validate tool calls, and add their arguments as Python values.

    Raises:
        OutputValidationError: A call does not match the schema of its tool.
    """
    for call in calls:
        tool = tools[call.name]
        try:
            JsonValidator(tool.arguments_schema).validate(call.arguments)
        except jsonschema.ValidationError as error:
            raise OutputValidationError(
                f"the call of {call.name!r} does not match its schema: {error.message}",
                text=call.raw,
            ) from error
        yield replace(call, parsed=tool.parse(call.arguments))
