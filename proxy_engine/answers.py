"""What an answer may be: response format, tools and reasoning put together, in the model's way."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from state_machines import StateMachine, Vocabulary
from state_machines.answer import TEXT, Calls, Reasoning, compose_answer
from state_machines.root import Part, RootStateMachine, Structured, Text
from state_machines.tools import Delimiters, ToolFormat, ToolSignature
from state_machines.tools.tool_format import NO_DELIMITERS

from .options import GenerationOptions, ReasoningOptions
from .response_format import ResponseFormat
from .tools import ToolChoice

__all__ = ["STRUCTURED", "Answer", "AnswerCompiler"]

STRUCTURED = "structured"
_FALLBACK_REASONING = Delimiters("<think>", "</think>")

# A text without bounds, and structured output alone, need no composition.
_FREE = Text(TEXT)


@dataclass(frozen=True, slots=True)
class Answer:
    """A compiled answer.

    ``machine`` is ``None`` for free text. ``part`` is the part that writes all of it, where it is
    no composition. ``new_id`` makes the id of a call from its tool's name and its number.
    """

    machine: StateMachine | None
    part: Part | None
    response: ResponseFormat
    new_id: Callable[[str, int], str]


class AnswerCompiler:
    """Compiles answers for one model, and remembers the machines used last.

    ``dialect`` is the format of the model's family, ``reasoning`` the markers that it knows.
    ``capacity`` is in machines. Safe to use from several threads.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        dialect: ToolFormat,
        reasoning: Delimiters | None,
        capacity: int = 64,
    ) -> None:
        self._vocabulary = vocabulary
        self._dialect = dialect
        self._reasoning = reasoning
        self._capacity = capacity
        self._machines: OrderedDict[Hashable, tuple[RootStateMachine, object]] = OrderedDict()
        self._lock = threading.Lock()

    def thinks(
        self, response: ResponseFormat, choice: ToolChoice, options: GenerationOptions
    ) -> bool:
        """Whether the prompt is to invite reasoning."""
        if options.reasoning is None:
            return response.is_free or choice.may_call
        return options.reasoning is not False

    def compile(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        *,
        has_tools: bool,
        is_reasoning_open: bool,
    ) -> Answer:
        """Return what may be answered.

        ``has_tools``: the prompt names tools, whether they may be called or not.
        ``is_reasoning_open``: the prompt ends with the marker that begins reasoning.

        Raises ``CompositionError``, ``MarkerError``, ``ToolNameError``, ``ToolSchemaError``.
        """
        thinks = self.thinks(response, choice, options)
        reasoning = self._reasoning_of(options, thinks=thinks, is_open=is_reasoning_open)
        dialect = self._dialect if has_tools or self._dialect.answer != NO_DELIMITERS else None
        if reasoning is None and dialect is None and response.part is None:
            part = _FREE if response.machine is None else _structured(response)
            return Answer(response.machine, part, response, self._dialect.new_id)
        key = self._key(response, choice, options, reasoning, dialect)
        machine = self._machine(
            key, response, lambda: self._compose(response, choice, options, reasoning, dialect)
        )
        return Answer(machine, None, response, self._dialect.new_id)

    def _compose(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        reasoning: Reasoning | None,
        dialect: ToolFormat | None,
    ) -> RootStateMachine:
        content = response.part
        if content is None and response.machine is not None:
            content = _structured(response)
        calls = None
        if dialect is not None:
            dialect.check(self._vocabulary)
        if dialect is not None and choice.may_call:
            calls = Calls(
                format=dialect,
                tools=[ToolSignature(tool.name, tool.arguments_schema) for tool in choice.tools],
                least=0 if choice.may_answer else 1,
                most=_most_calls(choice, options),
            )
        part = compose_answer(content, calls=calls, reasoning=reasoning, dialect=dialect)
        return RootStateMachine(part, self._vocabulary)

    def _reasoning_of(
        self, options: GenerationOptions, *, thinks: bool, is_open: bool
    ) -> Reasoning | None:
        given = options.reasoning
        own = ReasoningOptions(is_required=given is True)
        if isinstance(given, ReasoningOptions):
            own = given
        delimiters = self._reasoning
        if own.begin is not None and own.end is not None:
            delimiters = Delimiters(own.begin, own.end)
        if is_open and given is False:
            # The model's template leaves no other way than to close it at once.
            own = ReasoningOptions(most=0)
        elif not thinks and not is_open:
            return None
        if delimiters is None:
            if given is None:
                return None
            delimiters = _FALLBACK_REASONING
        return Reasoning(
            delimiters=delimiters,
            is_open=is_open,
            is_required=own.is_required,
            least=own.least,
            most=own.most,
        )

    def _key(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        reasoning: Reasoning | None,
        dialect: ToolFormat | None,
    ) -> Hashable:
        tools = [[tool.name, tool.arguments_schema] for tool in choice.tools]
        return (
            id(response.part or response.machine),
            # In their order: so the properties are written.
            json.dumps(tools),
            choice.may_answer,
            _most_calls(choice, options),
            reasoning,
            None if dialect is None else dialect.name,
        )

    def _machine(
        self, key: Hashable, response: ResponseFormat, make: Callable[[], RootStateMachine]
    ) -> RootStateMachine:
        with self._lock:
            known = self._machines.get(key)
            if known is None:
                # What the key names by its id is kept with the machine.
                known = self._machines[key] = make(), (response.part, response.machine)
            self._machines.move_to_end(key)
            if len(self._machines) > self._capacity:
                self._machines.popitem(last=False)
            return known[0]


def _most_calls(choice: ToolChoice, options: GenerationOptions) -> int:
    # Who names a tool wants that call.
    is_one = choice.mode == "named" or not options.parallel_tool_calls
    return 1 if is_one else options.max_tool_calls


def _structured(response: ResponseFormat) -> Structured:
    if response.machine is None:
        raise AssertionError("free text is not structured")
    return Structured(STRUCTURED, grammar=response.machine)
