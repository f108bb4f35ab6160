"""Compile response format, tools and reasoning into one state machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from state_machines import SchemaError, StateMachine, Vocabulary
from state_machines.errors import CompositionError
from state_machines.root import Part, RootStateMachine, Structured, Text
from state_machines.tool_calls import CallNames, Delimiters, ToolFormat
from state_machines.tool_calls.tool_format import NO_DELIMITERS

from ..errors import InvalidOptionError, ToolSchemaError
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
class CompiledAnswer:
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
class ModelMarkup:
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
        self._machines: CompileCache[tuple[RootStateMachine, _Composition]] = CompileCache(capacity)

    def thinks(
        self, response: ResponseFormat, choice: ToolChoice, options: GenerationOptions
    ) -> bool:
        """Return whether the chat template should enable reasoning."""
        option = options.reasoning_option
        if option is not None:
            return option is not False
        return not options.freeform_first and (response.is_free or choice.may_call)

    def compile(
        self,
        response: ResponseFormat,
        choice: ToolChoice,
        options: GenerationOptions,
        markup: ModelMarkup,
        *,
        has_tools: bool,
        open_reasoning: Delimiters | None,
        freeform: Delimiters | None = None,
        names: CallNames | None = None,
        sources: Mapping[str, str] | None = None,
        job: CompileJob | None = None,
    ) -> CompiledAnswer:
        """Compile the answer of a request.

        Args:
            response: The response format.
            choice: The tools that may be called.
            options: The options.
            markup: How the model writes tool calls and reasoning.
            has_tools: Whether the prompt describes tools, even if none may be called.
            open_reasoning: The markers of reasoning that the prompt has opened, if it has.
            freeform: The texts around a freeform answer, if one precedes the constrained one.
            names: The names of the tools as the prompt has them; by default those that the format
                writes.
            sources: The texts that arguments of tools are quoted from, by name.
            job: The job that the compilation is part of.

        Raises:
            CompositionError: The parts cannot be combined.
            MarkerError: The vocabulary lacks a marker of the tool format.
            ToolNameError: Two tools have the same name.
            ToolSchemaError: The schema of a tool is refused.
            ProxyError: :meth:`CompileJob.run` raised it.
        """
        thinks = self.thinks(response, choice, options)
        reasoning = _reasoning(options, markup, thinks=thinks, opened=open_reasoning)
        tool_format = markup.tool_format
        new_id = tool_format.new_id
        writes_format = has_tools or tool_format.answer != NO_DELIMITERS
        unwanted = _unwanted(options, markup)
        is_plain = not (reasoning or freeform or writes_format or response.part)
        is_plain = is_plain and response.delimiters == NO_DELIMITERS
        if is_plain and (response.machine is not None or not (unwanted or _is_limited(options))):
            part = _FREE if response.machine is None else structured_part(response)
            return CompiledAnswer(response.machine, part, response, new_id)
        composition = _Composition(
            response,
            choice,
            options,
            reasoning,
            freeform,
            tool_format if writes_format else None,
            unwanted,
            self._stop_strings(options),
            names or CallNames(tool_format, choice.tools),
            sources or {},
        )

        def compile() -> tuple[RootStateMachine, _Composition]:
            return composition.compile(self._vocabulary), composition

        job = job or CompileJob()
        if response.sources or sources:
            # The cache would hold the sources of many requests.
            machine, _ = job.run(compile)
        else:
            machine, _ = self._machines.get(composition.key, compile, job)
        return CompiledAnswer(machine, None, response, new_id)

    def _stop_strings(self, options: GenerationOptions) -> tuple[str, ...]:
        """Return the stop strings, and the texts of tokens that end free text."""
        forms = (self._vocabulary.token_bytes[token_id] for token_id in options.stop_ids)
        texts = (_token_text(form) for form in forms if form is not None)
        return tuple(dict.fromkeys((*options.stop_strings, *filter(None, texts))))


@dataclass(frozen=True, slots=True, eq=False)
class _Composition:
    """The parts of an answer and the rules of its text; see ``compose_answer``."""

    response: ResponseFormat
    choice: ToolChoice
    options: GenerationOptions
    reasoning: Reasoning | None
    freeform: Delimiters | None
    tool_format: ToolFormat | None
    unwanted: tuple[str, ...]
    stop: tuple[str, ...]
    names: CallNames
    sources: Mapping[str, str]

    @property
    def key(self) -> Hashable:
        """Equal for compositions with equal machines, as long as the objects are alive."""
        excluded = self.choice.excluded
        tools = [
            [
                tool.name,
                self.names.write(tool.name),
                tool.arguments_schema,
                excluded.get(tool.name),
            ]
            for tool in self.choice.tools
        ]
        return (
            id(self.response.part or self.response.machine),
            self.response.delimiters,
            # Not sorted: properties are written in the schema's order.
            json.dumps(tools, default=repr),
            tuple(tool.input and tool.input.key for tool in self.choice.tools),
            self.choice.may_answer,
            _max_calls(self.choice, self.options),
            self.options.additional_properties,
            self.options.calls_in_text,
            self.reasoning,
            self.freeform,
            self.tool_format,
            self.unwanted,
            self.stop,
        )

    def compile(self, vocabulary: Vocabulary) -> RootStateMachine:
        """Return the machine of the answer.

        Raises:
            ToolSchemaError: The schema of a tool is refused. ``others`` has the errors of others.
            CompositionError: The parts cannot be combined.
        """
        try:
            return self._machine(vocabulary)
        except ToolSchemaError as error:
            others = (tool for tool in self.choice.tools if tool.name != error.tool)
            error.others = tuple(filter(None, (self._refusal(tool, vocabulary) for tool in others)))
            raise

    def _refusal(self, tool: Tool, vocabulary: Vocabulary) -> ToolSchemaError | None:
        """Return the error of a tool that is refused by itself."""
        alone = replace(self, choice=replace(self.choice, tools=(tool,)))
        try:
            alone._machine(vocabulary)
        except ToolSchemaError as error:
            return error
        return None

    def _machine(self, vocabulary: Vocabulary) -> RootStateMachine:
        content = self.response.part
        if self.response.machine is not None:
            content = structured_part(self.response)
        calls = None
        if self.tool_format is not None:
            self.tool_format.check(vocabulary)
            if self.choice.may_call:
                calls = Calls(
                    format=self.tool_format,
                    tools=self.names.signatures(self.choice.signatures),
                    min_calls=0 if self.choice.may_answer else 1,
                    max_calls=_max_calls(self.choice, self.options),
                    sources=self.sources,
                    additional_properties=self.options.additional_properties,
                    in_text=self.options.calls_in_text,
                )
        try:
            part = compose_answer(
                content,
                calls=calls,
                reasoning=self.reasoning,
                freeform=self.freeform,
                dialect=self.tool_format,
                excluding=self.unwanted,
                stop=self.stop,
            )
            return RootStateMachine(part, vocabulary)
        except SchemaError as error:
            tool = next((tool for tool in self.choice.tools if tool.name == error.tool), None)
            if tool is None:
                raise
            # The cause locates the error within the tool's schema.
            refusal = error.__cause__ if isinstance(error.__cause__, SchemaError) else error
            with tool_schema_errors(tool):
                raise refusal from refusal.__cause__
        except CompositionError as error:
            self._check_stop(error)
            self._check_excluded(vocabulary, error)
            raise

    def _check_excluded(self, vocabulary: Vocabulary, error: CompositionError) -> None:
        """Raise ``InvalidOptionError`` if a call is required and all calls are excluded."""
        if not self.choice.excluded:
            return
        # Raises the error if the calls are not its reason.
        replace(self, choice=self.choice.excluding({}))._machine(vocabulary)
        raise InvalidOptionError(
            "tool_choice requires a call, and every call that is possible has been made",
            option="tool_choice",
            hint="allow_repeated_calls=True permits calls that have a result.",
        ) from error

    def _check_stop(self, error: CompositionError) -> None:
        """Raise ``InvalidOptionError`` if a stop string is a part of a marker."""
        if self.tool_format is None:
            return
        around = (self.tool_format.answer, self.tool_format.preamble)
        texts = (text for delimiters in around for text in (delimiters.begin, delimiters.end))
        for text, marker in product(self.stop, (self.tool_format.start, *texts)):
            if text in marker:
                raise InvalidOptionError(
                    f"the stop string {text!r} is a part of {marker!r}, a marker of the tool "
                    f"format {self.tool_format.name!r}",
                    option="stop",
                    hint="Choose a text that does not occur in the marker.",
                ) from error


def reasoning_delimiters(options: GenerationOptions, markup: ModelMarkup) -> tuple[Delimiters, ...]:
    """Return the markers that may open reasoning in a prompt."""
    return tuple(filter(None, (_chosen_delimiters(options), markup.reasoning)))


def _unwanted(options: GenerationOptions, markup: ModelMarkup) -> tuple[str, ...]:
    """Return the markers that free text must not contain if reasoning is disabled."""
    if options.reasoning_option is not False or markup.reasoning is None:
        return ()
    return tuple(filter(None, (markup.reasoning.begin, markup.reasoning.end)))


def _reasoning(
    options: GenerationOptions, markup: ModelMarkup, *, thinks: bool, opened: Delimiters | None
) -> Reasoning | None:
    option = options.reasoning_option
    if opened is None and not thinks:
        return None
    # Reasoning that the prompt has opened needs the matching end marker.
    delimiters = opened or _chosen_delimiters(options) or markup.reasoning
    if delimiters is None and option is None:
        return None
    if isinstance(option, ReasoningOptions):
        limits = option
    elif option is False:
        # The chat template always opens reasoning, so it is closed at once.
        limits = ReasoningOptions(max_chars=0)
    else:
        limits = ReasoningOptions(is_required=option is True)
    return Reasoning(
        delimiters=delimiters or _FALLBACK_REASONING,
        is_open=opened is not None,
        is_required=limits.is_required,
        min_chars=limits.min_chars,
        max_chars=limits.max_chars,
    )


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
    if choice.mode == "named" or not options.parallel_tool_calls:
        return 1
    return options.max_tool_calls


def _chosen_delimiters(options: GenerationOptions) -> Delimiters | None:
    reasoning = options.reasoning
    if not isinstance(reasoning, ReasoningOptions):
        return None
    begin, end = reasoning.begin, reasoning.end
    return None if begin is None or end is None else Delimiters(begin, end)


def _is_limited(options: GenerationOptions) -> bool:
    """Return whether free text may have to end early, which needs a matcher."""
    state = options.parts.get(TEXT)
    return bool(options.stop) or (state is not None and state.max_tokens is not None)


def structured_part(response: ResponseFormat) -> Structured:
    """Return the part of a response format that has a machine."""
    if response.machine is None:
        raise AssertionError("free text is not structured")
    around = response.delimiters
    return Structured(STRUCTURED, grammar=response.machine, begin=around.begin, end=around.end)
