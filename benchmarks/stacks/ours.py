"""The project's own engine, with its default options but for those of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any, Literal

import mlx.core as mx
from mlx.nn.layers.base import Module

from proxy_engine import (
    GenerationOptions,
    GenerationResult,
    InferenceEngine,
    OutputValidationError,
    PromptProgress,
    RawPrompt,
    SpeculationOptions,
)
from stacks.base import (
    RefusedRequestError,
    Request,
    Sampling,
    Setting,
    Written,
    checked_prompt,
    parsed_schema,
)
from state_machines import JsonSchemaStateMachine, ProxyError

__all__ = ["OurStack", "make_stack", "make_undrafted_stack"]


class OurStack:
    """The stack, with the methods for figures of this engine only.

    ``speculation`` is the engine's option, ``draft_model`` its draft model.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        speculation: Literal["auto", "off"] | SpeculationOptions = "auto",
        draft_model: Module | None = None,
    ) -> None:
        try:
            self.version = version("proxy-engine")
        except PackageNotFoundError:
            self.version = "unknown"
        self._setting = setting
        # The documents have members that their schemas do not list, and peers write them.
        self._options = GenerationOptions(speculation=speculation, additional_properties="schema")
        self._draft_model = draft_model
        self._engine = self._new_engine()

    @property
    def engine(self) -> InferenceEngine:
        """The engine itself. Another one after ``forget``."""
        return self._engine

    def prompt_of(self, request: Request) -> str | RawPrompt:
        """Return the prompt as the engine takes it: raw, if there is no chat template."""
        is_raw = not self._setting.tokenizer.has_chat_template
        return RawPrompt(request.prompt) if is_raw else request.prompt

    def write(self, request: Request) -> Written:
        """Generate to the end; see ``Stack``."""
        started = perf_counter()
        result = self.generate(request)
        seconds = perf_counter() - started
        checked_prompt(request, result.usage.prompt_tokens)
        return Written(
            result.text,
            result.usage.completion_tokens,
            seconds,
            seconds - result.usage.completion_seconds,
            result.usage,
        )

    def generate(self, request: Request, *, trace: bool = False) -> GenerationResult[Any]:
        """Return the engine's own result. Raises :class:`RefusedRequestError`."""
        try:
            return self._engine.generate(
                self.prompt_of(request),
                response_format=parsed_schema(request),
                max_tokens=request.max_tokens,
                trace=trace,
                **sampling_options(request.sampling),
            )
        except OutputValidationError:
            raise
        except ProxyError as error:
            raise RefusedRequestError(str(error)) from error

    def first_token(self, request: Request) -> float:
        """Seconds until the stream's first event that tells of an answer; see ``Stack``."""
        started = perf_counter()
        with self._engine.stream(
            self.prompt_of(request),
            response_format=parsed_schema(request),
            max_tokens=request.max_tokens,
            **sampling_options(request.sampling),
        ) as stream:
            for event in stream:
                if not isinstance(event, PromptProgress):
                    break
            seconds = perf_counter() - started
        # Requests come one after the other: once this one is through, nothing runs any more.
        self._engine.generate(RawPrompt("."), max_tokens=1)
        return seconds

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        """Whether the schema is taken and allows a text of these tokens; see ``Stack``."""
        try:
            machine = JsonSchemaStateMachine(parsed_schema(request))
        except ProxyError:
            return False
        matcher = machine.matcher(self._engine.vocabulary)
        for token_id in token_ids:
            if not matcher.allowed_tokens()[token_id]:
                return False
            matcher.advance(token_id)
        return matcher.is_accepting

    def takes(self, request: Request) -> bool:
        """Whether the request is not refused at once. The model does not run."""
        try:
            self._engine.stream(
                self.prompt_of(request),
                response_format=parsed_schema(request),
                max_tokens=request.max_tokens,
                **sampling_options(request.sampling),
            ).close()
        except ProxyError:
            return False
        return True

    def write_together(self, requests: Sequence[Request]) -> tuple[list[str], float]:
        """Return the texts of requests that differ in their prompts alone, and the seconds."""
        started = perf_counter()
        results = self._engine.generate_batch(
            [self.prompt_of(request) for request in requests],
            response_format=parsed_schema(requests[0]),
            max_tokens=requests[0].max_tokens,
            **sampling_options(requests[0].sampling),
        )
        return [result.text for result in results], perf_counter() - started

    def write_in_threads(self, requests: Sequence[Request]) -> tuple[list[str], float]:
        """Return the texts of requests that are made by a thread each, and the seconds."""
        with ThreadPoolExecutor(len(requests)) as threads:
            started = perf_counter()
            results = list(threads.map(self.generate, requests))
            return [result.text for result in results], perf_counter() - started

    def write_alone(self, requests: Sequence[Request]) -> tuple[list[str], float]:
        """Return the texts of requests that are made one after the other, and the seconds."""
        started = perf_counter()
        results = [self.generate(request) for request in requests]
        return [result.text for result in results], perf_counter() - started

    def forget(self) -> None:
        """Start anew, with a vocabulary that has no masks yet; see ``Stack``."""
        self._engine.close()
        self._engine = self._new_engine()

    def close(self) -> None:
        """Stop the engine's thread."""
        self._engine.close()
        mx.synchronize()

    def _new_engine(self) -> InferenceEngine:
        return InferenceEngine(
            self._setting.model,
            self._setting.tokenizer,
            options=self._options,
            draft_model=self._draft_model,
            on_progress=None,
        )


def sampling_options(sampling: Sampling) -> dict[str, Any]:
    """Return the engine's options for a way of sampling."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }


def make_stack(setting: Setting) -> OurStack:
    """Set up the stack."""
    return OurStack(setting)


def make_undrafted_stack(setting: Setting) -> OurStack:
    """Set up the stack without drafts (``speculation="off"``)."""
    return OurStack(setting, speculation="off")
