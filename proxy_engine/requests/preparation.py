"""Preparation of requests: tokenization, compilation and the first mask."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from state_machines import StateMachine, Vocabulary
from state_machines.caches import WeakKeyLruCache
from state_machines.completion import Guard
from state_machines.tool_calls import CallNames, Delimiters, ToolFormat

from ..answers.compile_queue import CompileJob, CompileQueue
from ..answers.compiler import AnswerCompiler, ModelMarkup, reasoning_delimiters
from ..answers.composition import REASONING
from ..answers.response_format import ResponseFormat, ResponseFormatCompiler
from ..checks import reusable
from ..conversation.content import TextContent
from ..conversation.interaction import Role
from ..conversation.messages import RawPrompt, to_interactions
from ..conversation.prompts import EncodedPrompt, Prompt, PromptStyle
from ..conversation.schema_text import MAX_CHARS, schema_text
from ..conversation.tool_format_detection import chosen, detect
from ..errors import InvalidOptionError, PromptError
from ..generation import SamplingHooks
from ..options.generation import GenerationOptions, PartOptions
from ..options.overrides import OptionOverrides
from ..results.parts import RejectedAnswer
from ..runtime.worker import check_process
from ..tools import ToolChoice, resolve_tools
from ..tools.choice import answered_arguments
from .option_checks import (
    check_answer_options,
    check_sampling,
    check_tokens,
    tool_sources,
)
from .prompt_encoding import PromptEncoder
from .request import Request, not_repeatable
from .retries import excluded_arguments, excluded_values, with_rejected

_log = logging.getLogger(__name__)

_SLOW_SECONDS = 1.0
"""Processor time from which on a compilation is logged."""

_SCHEMA_TEXTS = 64
"""Response formats whose descriptions are cached: that of a large schema takes milliseconds."""

_NOW_JSON = "Now write the answer as JSON, and nothing else."
_NOW_ANSWER = "Now write only the final answer."
"""The messages between the freeform answer and the constrained one."""

_PROMPT = "prompt"
"""The source that is the text of the user's last message, unless the request gives another."""


@dataclass(eq=False)
class Preparation:
    """Prepares the requests of one model. Every invalid request is rejected here.

    Safe to use from several threads.

    Attributes:
        prompts: Encodes prompts.
        options: Default options of requests.
        tool_format: Format of tool calls, or its name; ``None``: detected from the tokenizer.
        compile_queue: Shared by the compilations of an engine.
        max_compile_seconds: Processor time for the compilation of a request, see ``CompileJob``.
        detected: The tool format, and how it is known.
    """

    prompts: PromptEncoder
    options: GenerationOptions
    tool_format: str | ToolFormat | None
    compile_queue: CompileQueue
    max_compile_seconds: float | None

    def __post_init__(self) -> None:
        self._formats = ResponseFormatCompiler()
        self._answers = AnswerCompiler(self.prompts.vocabulary)
        self._schema_texts: WeakKeyLruCache[StateMachine, dict[object, str]] = WeakKeyLruCache(
            _SCHEMA_TEXTS
        )
        tokenizer = self.prompts.loaded.tokenizer
        self._native = detect(tokenizer)
        self._is_format_known = self._native.is_native
        self.detected = chosen(tokenizer, self._native, self.tool_format)
        self._default_markup = ModelMarkup(self.detected.format, self.detected.reasoning)

    def request(
        self,
        prompt: Prompt | EncodedPrompt,
        response_format: Any,
        arguments: Mapping[str, Any],
        cancelled: threading.Event | None = None,
        rejected: Sequence[RejectedAnswer] = (),
    ) -> Request:
        """Check and compile a request.

        Args:
            prompt: The prompt.
            response_format: The response format.
            arguments: Tools, the caller's functions for sampling, and options, by name.
            cancelled: Cancels the request, even while it is compiled.
            rejected: The answers of earlier attempts, which are in the prompt and excluded.

        Raises:
            EngineForkedError: The process was forked.
            RequestCancelledError: ``cancelled`` was set.
            ProxyError: The request is invalid; see :meth:`InferenceEngine.generate`.
        """
        check_process()
        started = time.perf_counter()
        if self.prompts.loaded.speech is not None and not isinstance(prompt, EncodedPrompt):
            raise PromptError(
                "the model transcribes speech and answers no prompts",
                hint="Use engine.transcribe(audio).",
            )
        # Retries read the arguments again.
        arguments = reusable(arguments)
        others = dict(arguments)
        tools, tool_choice = others.pop("tools", None), others.pop("tool_choice", None)
        hooks = SamplingHooks.of(
            others.pop("sampler", None),
            others.pop("logits_processors", None),
            others.pop("logprob_vectors", None),
        )
        overrides = cast(OptionOverrides, others)
        cancelled = cancelled or threading.Event()
        job = CompileJob(self.compile_queue, cancelled, self.max_compile_seconds)
        options = self.options.override(overrides)
        check_tokens(options, self.prompts.vocabulary)
        check_sampling(options, overrides, hooks)
        sources = partial(_sources, prompt, options)
        response = self._formats.compile(
            response_format,
            job,
            sources,
            options.additional_properties,
            excluded_values(rejected),
            write_defaults=options.write_defaults,
        )
        known_tools = resolve_tools(tools)
        choice = ToolChoice.of(tool_choice, known_tools)
        has_messages = not isinstance(prompt, RawPrompt | EncodedPrompt)
        check_answer_options(overrides, response, known_tools, choice, has_messages=has_messages)
        choice = choice.excluding(_excluded_arguments(prompt, rejected, choice, options))
        markup = self._markup(options)
        if known_tools and not self._is_format_known:
            self._is_format_known = True
            _log.warning(
                "the chat template writes tool calls in a format that is not known, so tools are "
                "described in plain text, and calls are written in the format %r",
                markup.tool_format.name,
            )
        names = CallNames(markup.tool_format, known_tools)
        schema_text = self._schema_text(response, choice, options) if has_messages else ""
        is_behind_freeform = self._is_behind_freeform(schema_text, options)
        style = PromptStyle(
            thinking=self._answers.thinks(response, choice, options),
            tools=[tool.to_function() for tool in known_tools if tool.is_described],
            tool_format=markup.tool_format,
            names=names,
            # The chat template describes tools in the model's own format only.
            native_tools=self._native.is_native and markup.tool_format == self._native.format,
            schema_text="" if is_behind_freeform else schema_text,
            variables=options.chat_template_kwargs,
            continues=options.continue_final_message,
        )
        written = with_rejected(prompt, rejected, continues=style.continues)
        encoded = self.prompts.encode(written, style, options, cancelled)
        markers = reasoning_delimiters(options, markup)
        opened = self.prompts.opened(encoded.token_ids, markers)
        max_tokens, context_length = options.token_limit, self.prompts.context_length
        if context_length is not None:
            max_tokens = min(max_tokens, context_length - len(encoded.token_ids))
        freeform = None
        is_constrained = choice.may_call or not response.is_free
        if is_constrained and not isinstance(prompt, RawPrompt | EncodedPrompt):
            text = schema_text if is_behind_freeform else ""
            freeform = self._freeform(prompt, style, options, opened, response, choice, text)
            options = options if freeform is None else _with_freeform_limit(options, max_tokens)
        answer = self._answers.compile(
            response,
            choice,
            options,
            markup,
            has_tools=bool(known_tools),
            open_reasoning=opened,
            freeform=freeform,
            names=names,
            sources=sources() if tool_sources(choice.tools) else None,
            job=job,
        )
        if hooks.sampler is not None and answer.machine is not None and answer.machine.temperatures:
            raise InvalidOptionError(
                "rules of the grammar have a temperature, which has no effect beside a sampler",
                option="sampler",
                hint="Leave out the sampler, or the option temperature of the rules.",
            )
        if options.confidence is None and response.is_enumeration and hooks.sampler is None:
            options = options.model_copy(update={"confidence": True})
        guard = None
        if answer.machine is not None:
            vocabulary = self.prompts.vocabulary
            guard = job.run(partial(_first_guard, answer.machine, vocabulary, max_tokens))
        if job.used_seconds > _SLOW_SECONDS:
            _log.warning("compiling the answer's grammar took %.1f s", job.used_seconds)
        repeat = partial(self.request, prompt, response_format, arguments, cancelled)
        return Request(
            encoded,
            answer,
            options,
            max_tokens,
            guard=guard,
            tools={tool.name: tool for tool in choice.tools},
            hooks=hooks,
            has_messages=has_messages,
            cancelled=cancelled,
            preparation_seconds=time.perf_counter() - started,
            rejected=tuple(rejected),
            # Holds the prompt with its images and recordings.
            repeat=repeat if options.max_retries else not_repeatable,
        )

    def _markup(self, options: GenerationOptions) -> ModelMarkup:
        """Return how tools and reasoning are written in the prompt and in the answer."""
        if options.tool_format is None and options.tool_delimiters is None:
            return self._default_markup
        with self.prompts.tokenizer_lock:
            tokenizer = self.prompts.loaded.tokenizer
            found = chosen(tokenizer, self.detected, options.tool_format)
        tool_format = found.format
        if options.tool_delimiters is not None:
            tool_format = tool_format.with_delimiters(*options.tool_delimiters)
        return ModelMarkup(tool_format, found.reasoning)

    def _is_behind_freeform(self, schema_text: str, options: GenerationOptions) -> bool:
        """Whether the message behind a freeform answer describes the response format.

        The grammar forces that message, which cannot spell control tokens; a prompt can.
        """
        if not options.freeform_first or options.schema_in_prompt != "auto":
            return False
        return not self.prompts.spells_control_tokens(f"\n{schema_text}")

    def _freeform(
        self,
        prompt: Prompt,
        style: PromptStyle,
        options: GenerationOptions,
        opened: Delimiters | None,
        response: ResponseFormat,
        choice: ToolChoice,
        schema_text: str,
    ) -> Delimiters | None:
        """Return the texts around a freeform answer; the second text asks for the constrained one.

        Args:
            prompt: The prompt.
            style: How it is rendered.
            options: The options of the request.
            opened: The markers of reasoning that every prompt opens, if it does.
            response: The response format.
            choice: The tools that may be called.
            schema_text: Describes the response format behind the freeform answer.
        """
        freeform_options = options.freeform_first_options
        if freeform_options is None:
            return None
        is_json = bool(response.schemas) and not choice.may_call
        message = freeform_options.instruction or (_NOW_JSON if is_json else _NOW_ANSWER)
        if schema_text:
            message = f"{message}\n\n{schema_text}"
        turn = self.prompts.next_turn(style, message)
        if opened is not None and turn.end.rstrip().endswith(opened.begin):
            turn = replace(turn, end=f"{turn.end}{opened.end}\n\n")
        is_continued = to_interactions(prompt)[-1].role is Role.ASSISTANT
        return replace(turn, begin="") if is_continued and options.continue_final_message else turn

    def _schema_text(
        self, response: ResponseFormat, choice: ToolChoice, options: GenerationOptions
    ) -> str:
        """Return the description of the response format in the prompt."""
        if options.schema_in_prompt == "off" or not choice.may_answer:
            return ""
        # A token has about three characters of a schema, so this is a third of the context.
        max_chars = min(MAX_CHARS, self.prompts.context_length or MAX_CHARS)
        key = mode, may_call = options.schema_in_prompt, choice.may_call
        known: dict[object, str] = {}
        # A class of the caller may be unhashable, such as a dataclass.
        machine = response.machine if isinstance(response.machine, Hashable) else None
        if machine is not None:
            known = self._schema_texts.get(machine) or {}
        if key not in known:
            schemas = response.schemas
            known[key] = schema_text(schemas, mode, may_call=may_call, max_chars=max_chars)
            if machine is not None:
                self._schema_texts.put(machine, known)
        return known[key]


def _with_freeform_limit(options: GenerationOptions, max_tokens: int) -> GenerationOptions:
    """Return options that limit the part of a freeform answer, if they do not yet.

    Args:
        options: The options.
        max_tokens: Tokens that both answers may have together.
    """
    part = options.parts.get(REASONING, PartOptions())
    given = options.freeform_first_options
    if given is None or part.max_tokens is not None:
        return options
    limit = min(given.max_tokens, max(1, max_tokens // 2))
    limited = part.model_copy(update={"max_tokens": limit})
    return options.override({"parts": {**options.parts, REASONING: limited}})


def _sources(prompt: Prompt | EncodedPrompt, options: GenerationOptions) -> dict[str, str]:
    """Return the texts that a request quotes from, by name.

    Raises:
        PromptError: The prompt is malformed.
    """
    sources = dict(options.sources or {})
    if _PROMPT in sources or isinstance(prompt, RawPrompt | EncodedPrompt):
        return sources
    for message in reversed(to_interactions(prompt)):
        if message.role is Role.USER:
            texts = [part.text for part in message.content if isinstance(part, TextContent)]
            return {**sources, _PROMPT: "\n".join(texts)}
    return sources


def _excluded_arguments(
    prompt: Prompt | EncodedPrompt,
    rejected: Sequence[RejectedAnswer],
    choice: ToolChoice,
    options: GenerationOptions,
) -> Mapping[str, Sequence[Any]]:
    """Return the arguments of rejected and of answered calls, by the tool's name."""
    excluded = excluded_arguments(rejected)
    allowed = options.allow_repeated_calls
    if allowed in (None, True) or not choice.may_call or isinstance(prompt, EncodedPrompt):
        return excluded
    names = () if isinstance(allowed, bool) else allowed
    answered = answered_arguments(to_interactions(prompt)).items()
    more = {name: arguments for name, arguments in answered if name not in names}
    return {name: [*excluded.get(name, ()), *more.get(name, ())] for name in {**excluded, **more}}


def _first_guard(machine: StateMachine, vocabulary: Vocabulary, max_tokens: int) -> Guard:
    """Plan the completion and compute the first mask; raises if nothing fits."""
    guard = Guard(machine.matcher(vocabulary), max_tokens)
    guard.matcher.allowed_tokens()
    return guard
