"""Compile response format, tools and reasoning into one state machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product

from state_machines import SchemaError, StateMachine, Vocabulary
from state_machines.errors import CompositionError
from state_machines.json_schema.closed_schema import closed_schema
from state_machines.root import Part, RootStateMachine, Structured, Text
from state_machines.tool_calls import Delimiters, ToolFormat, ToolSignature
from state_machines.tool_calls.tool_format import NO_DELIMITERS

from ..errors import InvalidOptionError
from ..options.generation import GenerationOptions, ReasoningOptions
from ..tools import Tool, ToolChoice, tool_schema_errors
from .compile_queue import CompileCache, CompileJob
from .composition import TEXT, Calls, Reasoning, compose_answer
from .response_format import ResponseFormat

STRUCTURED = "structured"
_FALLBACK_REASONING = Delimiters("<think>", "</think>")

# Unbounded text and structured output alone need no composition.
_FREE = Text(TEXT)


@dataclass(frozen=True, slots=True)
class Answer:
    """A compiled answer.

    Attributes:
        machine: The state machine; ``None`` for free text.
        part: The only part of an answer that is no composition.
        response: The response format.
        new_id: Makes the id of a tool call from the tool's name and the call's number.
    """

    machine: StateMachine | None
    part: Part | None
    response: ResponseFormat
    new_id: Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a model writes tool calls and reasoning.

    Attributes:
        tool_format: The format of tool calls.
        reasoning: The markers around reasoning; ``None`` if the model has none.
    """

    tool_format: ToolFormat
    reasoning: Delimiters | None


class AnswerCompiler:
    """Compiles answers for a model, with an LRU cache of machines. Thread-safe.

    Args:
        vocabulary: The model's vocabulary.
        capacity: Capacity of the cache, in machines.
    """

    def __init__(self, vocabulary: Vocabulary, capacity: int = 64) -> None:
        self._vocabulary = vocabulary
        # A key has the ids of objects, which are kept alive with the machine.
        self._machines: CompileCache[tuple[RootStateMachine, object]] = CompileCache(capacity)

    def thinks(
        self, response: ResponseFormat, choice: ToolChoice, options: GenerationOptions
    ) -> bool:
        """Return whether the chat template should enable reasoning."""
        given = options.reasoning_option
        if given is None:
            return response.is_free or choice.may_call
        return given is not False

    def compile(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        dialect: Dialect,
        *,
        has_tools: bool,
        open_reasoning: Delimiters | None,
        sources: Mapping[str, str] | None = None,
        job: CompileJob | None = None,
    ) -> Answer:
        """Compile the answer of a request.

        Args:
            response: The response format.
            choice: The tools that may be called.
            options: The options.
            dialect: How the model writes tool calls and reasoning.
            has_tools: Whether the prompt describes tools, even if none may be called.
            open_reasoning: The markers of reasoning that the prompt has opened, if it has.
            sources: The texts that arguments of tools are quoted from, by name.
            job: The job that the compilation is part of.

        Raises:
            CompositionError: The parts cannot be combined.
            MarkerError: The vocabulary lacks a marker of the tool format.
            ToolNameError: The tool format cannot write a tool's name.
            ToolSchemaError: The schema of a tool is refused.
            ProxyError: :meth:`CompileJob.run` raised it.
        """
        thinks = self.thinks(response, choice, options)
        reasoning = _reasoning(options, dialect, thinks=thinks, opened=open_reasoning)
        own = dialect.tool_format
        tool_format = own if has_tools or own.answer != NO_DELIMITERS else None
        unwanted = _unwanted(options, dialect)
        is_plain = reasoning is None and tool_format is None and response.part is None
        is_plain = is_plain and response.delimiters == NO_DELIMITERS
        if is_plain and (response.machine is not None or not (unwanted or _is_limited(options))):
            part = _FREE if response.machine is None else structured_part(response)
            return Answer(response.machine, part, response, own.new_id)
        key = self._key(response, choice, options, reasoning, tool_format, unwanted)
        job = job or CompileJob()

        def compose() -> tuple[RootStateMachine, object]:
            machine = self._compose(
                response, choice, options, reasoning, tool_format, unwanted, sources or {}
            )
            return machine, (response.part, response.machine, choice.tools)

        if response.sources or sources:
            # The cache would hold the sources of many requests.
            machine, _ = job.run(compose)
        else:
            machine, _ = self._machines.get(key, compose, job)
        return Answer(machine, None, response, own.new_id)

    def _compose(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        reasoning: Reasoning | None,
        tool_format: ToolFormat | None,
        unwanted: tuple[str, ...],
        sources: Mapping[str, str],
    ) -> RootStateMachine:
        content = response.part
        if content is None and response.machine is not None:
            content = structured_part(response)
        calls = None
        if tool_format is not None:
            tool_format.check(self._vocabulary)
        if tool_format is not None and choice.may_call:
            calls = Calls(
                format=tool_format,
                tools=[_signature(tool, options) for tool in choice.tools],
                min_calls=0 if choice.may_answer else 1,
                max_calls=_max_calls(choice, options),
                sources=sources,
            )
        stop = self._stop_strings(options)
        with _naming_tools(choice), _naming_stop_strings(stop, tool_format):
            part = compose_answer(
                content,
                calls=calls,
                reasoning=reasoning,
                dialect=tool_format,
                excluding=unwanted,
                stop=stop,
            )
            return RootStateMachine(part, self._vocabulary)

    def _stop_strings(self, options: GenerationOptions) -> tuple[str, ...]:
        """Return the stop strings, and the texts of tokens that end free text."""
        forms = (self._vocabulary.token_bytes[token_id] for token_id in options.stop_ids)
        texts = (_token_text(form) for form in forms if form is not None)
        return tuple(dict.fromkeys((*options.stop_strings, *filter(None, texts))))

    def _key(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        reasoning: Reasoning | None,
        tool_format: ToolFormat | None,
        unwanted: tuple[str, ...],
    ) -> Hashable:
        tools = [[tool.name, tool.arguments_schema] for tool in choice.tools]
        return (
            id(response.part or response.machine),
            response.delimiters,
            # Not sorted: properties are written in the schema's order.
            json.dumps(tools),
            tuple(tool.input.key if tool.input is not None else None for tool in choice.tools),
            choice.may_answer,
            _max_calls(choice, options),
            options.additional_properties,
            reasoning,
            tool_format,
            unwanted,
            self._stop_strings(options),
        )


def reasoning_delimiters(options: GenerationOptions, dialect: Dialect) -> tuple[Delimiters, ...]:
    """Return the markers that may open reasoning in a prompt."""
    return tuple(filter(None, (_own_delimiters(options), dialect.reasoning)))


def _unwanted(options: GenerationOptions, dialect: Dialect) -> tuple[str, ...]:
    """Return the markers that free text must not contain if reasoning is disabled."""
    if options.reasoning_option is not False or dialect.reasoning is None:
        return ()
    return tuple(filter(None, (dialect.reasoning.begin, dialect.reasoning.end)))


def _reasoning(
    options: GenerationOptions, dialect: Dialect, *, thinks: bool, opened: Delimiters | None
) -> Reasoning | None:
    given = options.reasoning_option
    own = ReasoningOptions(is_required=given is True)
    if isinstance(given, ReasoningOptions):
        own = given
    # Reasoning that the prompt has opened needs the matching end marker.
    delimiters = opened or _own_delimiters(options) or dialect.reasoning
    is_open = opened is not None
    if is_open and given is False:
        # The chat template always opens reasoning, so it is closed at once.
        own = ReasoningOptions(max_chars=0)
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
        min_chars=own.min_chars,
        max_chars=own.max_chars,
    )


def _signature(tool: Tool, options: GenerationOptions) -> ToolSignature:
    signature = tool.signature
    if options.additional_properties == "schema":
        return signature
    return replace(signature, parameters=closed_schema(signature.parameters, closes_arrays=False))


def _token_text(form: bytes) -> str:
    """Return the text of a token; ``""`` if it has none: a special token, or a half character."""
    if form.startswith(Vocabulary.SPECIAL_MARK):
        return ""
    try:
        return form.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _max_calls(choice: ToolChoice, options: GenerationOptions) -> int:
    # A named tool is called exactly once.
    is_one = choice.mode == "named" or not options.parallel_tool_calls
    return 1 if is_one else options.max_tool_calls


def _own_delimiters(options: GenerationOptions) -> Delimiters | None:
    given = options.reasoning
    if not isinstance(given, ReasoningOptions) or given.begin is None or given.end is None:
        return None
    return Delimiters(given.begin, given.end)


def _is_limited(options: GenerationOptions) -> bool:
    """Return whether free text may have to end early, which needs a matcher."""
    state = options.parts.get(TEXT)
    return bool(options.stop) or (state is not None and state.max_tokens is not None)


@contextmanager
def _naming_tools(choice: ToolChoice) -> Iterator[None]:
    """Convert a ``SchemaError`` of a tool to ``ToolSchemaError``."""
    try:
        yield
        return
    except SchemaError as error:
        tool = next((tool for tool in choice.tools if tool.name == error.tool), None)
        if tool is None:
            raise
        # The cause locates the error within the tool's schema.
        refusal = error.__cause__ if isinstance(error.__cause__, SchemaError) else error
    with tool_schema_errors(tool):
        raise refusal


@contextmanager
def _naming_stop_strings(stop: tuple[str, ...], tool_format: ToolFormat | None) -> Iterator[None]:
    """Convert the ``CompositionError`` of a stop string within a marker of the tool format."""
    try:
        yield
    except CompositionError as error:
        if tool_format is None:
            raise
        around = (tool_format.answer, tool_format.preamble)
        markers = (tool_format.start, *(text for each in around for text in (each.begin, each.end)))
        for text, marker in product(stop, markers):
            if text in marker:
                raise InvalidOptionError(
                    f"the stop string {text!r} is a part of {marker!r}, a marker of the tool "
                    f"format {tool_format.name!r}",
                    option="stop",
                    hint="Choose a text that does not occur in the marker.",
                ) from error
        raise


def structured_part(response: ResponseFormat) -> Structured:
    """Return the part of a response format that has a machine."""
    if response.machine is None:
        raise AssertionError("free text is not structured")
    around = response.delimiters
    return Structured(STRUCTURED, grammar=response.machine, begin=around.begin, end=around.end)
