"""Preparation of requests: checks, tokenization, compilation and the first mask."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from samplers import SamplingParameters
from state_machines import Vocabulary
from state_machines.completion import Guard
from state_machines.root import Text, part_names
from state_machines.tool_calls import ToolFormat
from state_machines.tool_calls.call import CALL

from ..answers.compile_queue import CompileJob, CompileQueue
from ..answers.compiler import STRUCTURED, Answer, AnswerCompiler, reasoning_delimiters
from ..answers.composition import REASONING, TEXT
from ..answers.response_format import ResponseFormat, ResponseFormatCompiler
from ..conversation.encoded_prompt import EncodedPrompt
from ..conversation.prompts import Prompt, PromptStyle
from ..conversation.raw_prompt import RawPrompt
from ..conversation.schema_text import MAX_CHARS, schema_text
from ..conversation.tool_format_detection import is_open
from ..errors import InvalidOptionError, PromptError, PromptTooLongError
from ..generation import SamplingHooks
from ..media.options import MediaOptions
from ..models.loading import LoadedModel
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..prompt_cache.prompt_caches import PromptCaches
from ..tools import ToolChoice, resolve_tools
from .dialects import Dialects
from .prompt_encoding import PromptEncoder
from .quote_sources import check_sources, sources, tool_sources
from .request import Request

_log = logging.getLogger(__name__)

_SLOW_SECONDS = 1.0
"""Processor time from which on a compilation is logged."""


class Preparation:
    """Prepares the requests of one model. Every invalid request is rejected here.

    Safe to use from several threads.

    Args:
        loaded: The model.
        vocabulary: Its vocabulary.
        options: Default options of requests.
        tool_format: Format of tool calls, or its name; ``None``: detected from the tokenizer.
        tokenizer_lock: Held while the tokenizer is used.
        caches: Determine whether a prompt needs message boundaries.
        compile_queue: Shared by the compilations of an engine.
        max_compile_seconds: Processor time for the compilation of a request, see ``CompileJob``.
        batch_size: Maximum number of sequences that run together.
        media: Limits of images and recordings.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        vocabulary: Vocabulary,
        options: GenerationOptions,
        tool_format: str | ToolFormat | None,
        tokenizer_lock: threading.Lock,
        caches: PromptCaches,
        compile_queue: CompileQueue,
        max_compile_seconds: float | None,
        batch_size: int,
        media: MediaOptions,
    ) -> None:
        self._loaded = loaded
        self._vocabulary = vocabulary
        self._options = options
        self._formats = ResponseFormatCompiler()
        self._dialects = Dialects(loaded.tokenizer, tool_format)
        self._answers = AnswerCompiler(vocabulary)
        self._tokenizer_lock = tokenizer_lock
        self._caches = caches
        self._prompts = PromptEncoder(loaded, vocabulary, tokenizer_lock, caches, media)
        self._compile_queue = compile_queue
        self._max_compile_seconds = max_compile_seconds
        self._batch_size = batch_size

    def request(
        self,
        prompt: Prompt | EncodedPrompt,
        response_format: Any,
        tools: Iterable[Any] | None,
        tool_choice: Any,
        overrides: OptionOverrides,
        cancelled: threading.Event | None = None,
        hooks: SamplingHooks | None = None,
    ) -> Request:
        """Prepare a request.

        Args:
            prompt: The prompt.
            response_format: The response format.
            tools: The tools.
            tool_choice: The tool choice.
            overrides: Options of this request.
            cancelled: Cancels the request, even while it is compiled.
            hooks: The caller's functions for sampling.

        Raises:
            RequestCancelledError: ``cancelled`` was set.
            ProxyError: The request is invalid; see :meth:`InferenceEngine.generate`.
        """
        cancelled, hooks = cancelled or threading.Event(), hooks or SamplingHooks()
        job = CompileJob(self._compile_queue, cancelled, self._max_compile_seconds)
        options = self._options.override(overrides)
        self._check_tokens(options)
        _check_answers(options, self._batch_size)
        _check_sampling(options, overrides, hooks)
        response = self._formats.compile(
            response_format, job, partial(sources, prompt, options), options.additional_properties
        )
        _check_parts(overrides.get("parts", {}), response)
        known_tools = resolve_tools(tools)
        check_sources(options.sources if overrides.get("sources") else None, response, known_tools)
        has_messages = not isinstance(prompt, RawPrompt | EncodedPrompt)
        if known_tools and not has_messages:
            raise PromptError("a raw prompt cannot describe tools; give messages")
        if overrides.get("schema_in_prompt", "off") != "off" and not has_messages:
            raise PromptError("a raw prompt cannot describe the schema; give messages")
        choice = ToolChoice.of(tool_choice, known_tools)
        for option in ("stop", "stop_token_ids"):
            if overrides.get(option):
                _check_stop(option, response, choice)
        dialect = self._dialects.of(options)
        style = PromptStyle(
            thinking=self._answers.thinks(response, choice, options),
            tools=[tool.to_function() for tool in known_tools],
            tool_text=dialect.tool_text,
            native_tools=dialect.is_native,
            schema_text=self._schema_text(response, choice, options),
            variables=options.chat_template_kwargs,
            continues=options.continue_final_message,
        )
        encoded, boundaries = self._prompts.encode(prompt, style, options, cancelled)
        prompt_ids = encoded.token_ids
        if options.exact_choices:
            self._caches.check_scoring(len(prompt_ids))
        with self._tokenizer_lock:
            markers = reasoning_delimiters(options, dialect.answers)
            tokenizer = self._loaded.tokenizer
            opened = (pair for pair in markers if is_open(tokenizer, prompt_ids, pair))
            open_reasoning = next(opened, None)
        answer = self._answers.compile(
            response,
            choice,
            options,
            dialect.answers,
            has_tools=bool(known_tools),
            open_reasoning=open_reasoning,
            sources=sources(prompt, options) if tool_sources(choice.tools) else None,
            job=job,
        )
        if hooks.sampler is not None and answer.machine is not None and answer.machine.temperatures:
            raise InvalidOptionError(
                "rules of the grammar have a temperature, which has no effect beside a sampler",
                option="sampler",
                hint="Leave out the sampler, or the option temperature of the rules.",
            )
        max_tokens = self._available_tokens(len(prompt_ids), options.token_limit)
        guard = self._guard(answer, max_tokens, job)
        if job.used_seconds > _SLOW_SECONDS:
            _log.warning("compiling the answer's grammar took %.1f s", job.used_seconds)
        return Request(
            encoded,
            answer,
            options,
            max_tokens,
            guard=guard,
            tools={tool.name: tool for tool in choice.tools},
            boundaries=boundaries,
            hooks=hooks,
            has_messages=has_messages,
            cancelled=cancelled,
        )

    def _schema_text(
        self, response: ResponseFormat, choice: ToolChoice, options: GenerationOptions
    ) -> str:
        """Return the description of the response format in the prompt."""
        if options.schema_in_prompt == "off" or not choice.may_answer:
            return ""
        # A token has about three characters of a schema, so this is a third of the context.
        max_chars = min(MAX_CHARS, self._loaded.context_length or MAX_CHARS)
        return schema_text(
            response.schemas,
            options.schema_in_prompt,
            may_call=choice.may_call,
            max_chars=max_chars,
        )

    def _guard(self, answer: Answer, max_tokens: int, job: CompileJob) -> Guard | None:
        """Plan the completion and compute the first mask; raises if nothing fits."""
        machine = answer.machine
        if machine is None:
            return None

        def first_steps() -> Guard:
            guard = Guard(machine.matcher(self._vocabulary), max_tokens)
            guard.matcher.allowed_tokens()
            return guard

        return job.run(first_steps)

    def _available_tokens(self, prompt_tokens: int, max_tokens: int) -> int:
        """Return ``max_tokens``, or fewer if the context has less room."""
        context_length = self._loaded.context_length
        if context_length is None:
            return max_tokens
        available = min(max_tokens, context_length - prompt_tokens)
        if available < 1:
            raise PromptTooLongError(
                f"the prompt has {prompt_tokens} tokens, and the model's context {context_length}",
                prompt_tokens=prompt_tokens,
                context_length=context_length,
            )
        return available

    def _check_tokens(self, options: GenerationOptions) -> None:
        """Raise for tokens outside of the vocabulary."""
        for token_id in options.stop_ids:
            if token_id >= self._vocabulary.size:
                raise InvalidOptionError(
                    f"stop_token_ids names token {token_id}; the model has {self._vocabulary.size}",
                    option="stop_token_ids",
                )
        samplings: list[SamplingParameters] = [options, *options.parts.values()]
        for sampling in samplings:
            for token_id, _ in sampling.bias_pairs:
                if token_id >= self._vocabulary.size:
                    raise InvalidOptionError(
                        f"logit_bias names token {token_id}; the model has {self._vocabulary.size}",
                        option="logit_bias",
                    )


def _check_answers(options: GenerationOptions, batch_size: int) -> None:
    """Raise for particles or answers that the engine cannot sample."""
    for name in ("particles",) if options.particles > 1 else ("n",):
        count = getattr(options, name)
        if count > batch_size:
            raise InvalidOptionError(
                f"{name} is {count}, and the engine runs {batch_size} sequences together",
                option=name,
                hint=f"Give {name}={batch_size} or fewer, or create the engine with a larger "
                "batch_size.",
            )
    samplings: list[SamplingParameters] = [options, *options.parts.values()]
    if options.particles > 1 and all(sampling.temperature == 0 for sampling in samplings):
        raise InvalidOptionError(
            "particles are samples, and at temperature 0 all of them would be equal",
            option="particles",
            hint="Give temperature=1 for the model's own distribution.",
        )


def _check_sampling(
    options: GenerationOptions, overrides: OptionOverrides, hooks: SamplingHooks
) -> None:
    """Raise for ways of sampling that cannot be combined."""
    if hooks.sampler is not None:
        given = [name for name in overrides if name in SamplingParameters.model_fields]
        if given or any(part.model_fields_set - {"max_tokens"} for part in options.parts.values()):
            name = given[0] if given else "parts"
            raise InvalidOptionError(
                f"{name} has no effect beside a sampler, which selects the tokens",
                option=name,
                hint="Apply it in the sampler.",
            )
    samplings: list[SamplingParameters] = [options, *options.parts.values()]
    reasons = {
        "sampler": hooks.sampler is not None,
        "logits_processors": bool(hooks.logits_processors),
        "xtc_probability": any(sampling.has_xtc for sampling in samplings),
    }
    exact = "particles" if options.particles > 1 else "exact_choices"
    if options.particles == 1 and not options.exact_choices:
        return
    for name, is_given in reasons.items():
        if is_given:
            raise InvalidOptionError(
                f"{exact} draws from the model's own distribution, which {name} changes",
                option=name,
                hint=f"Leave out {exact} or {name}.",
            )


def _check_stop(option: str, response: ResponseFormat, choice: ToolChoice) -> None:
    """Raise for stop strings or tokens if no part of the answer is free text."""
    if choice.may_answer and (response.is_free or isinstance(response.part, Text)):
        return
    if not choice.may_answer:
        reason = "the answer is a tool call, which is always complete"
        hint = f"Leave {option} out, or let tool_choice be 'auto'."
    elif response.part is not None:
        reason = "the response format is a composition of parts"
        hint = "Give the stop strings to its parts: Text(stop=...)."
    else:
        reason = "the answer is structured, which is always complete"
        hint = f"Leave {option} out: structured output ends by itself."
    what = "stop strings" if option == "stop" else "stop tokens"
    raise InvalidOptionError(f"{what} end free text, and {reason}", option=option, hint=hint)


def _check_parts(given: Iterable[str], response: ResponseFormat) -> None:
    """Raise for options of a part that no answer to this request has."""
    own = () if response.part is None else part_names(response.part)
    known = list(dict.fromkeys((TEXT, REASONING, STRUCTURED, CALL, *own)))
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise InvalidOptionError(
                f"parts names {name!r}, which is not a part of the answer",
                option="parts",
                hint=f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(known)}.",
            )
