"""Completions of raw prompts: responses and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal

from pydantic import BaseModel

from state_machines import Vocabulary

from ...results.events import StreamEvent, TextDelta
from ...results.generation import GenerationResult
from ..schemas.common import TokenLogprob
from ..schemas.completions import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionLogprobs,
)
from .choices import ChoicesEncoder, EncoderOptions


class CompletionEncoder(ChoicesEncoder[str]):
    """Encodes the answers to raw prompts.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        prompts: The prompts, as text or as token ids.
        is_echoed: Whether each text starts with its prompt.
        choices: The number of answers to each prompt; they follow each other.
        kept: The number of those in the response: the ones whose tokens have the highest mean
            log-probability, if there are more answers.
        options: The optional contents of the response.
    """

    id_prefix = "cmpl-"
    response_type = Completion
    response_object = "text_completion"
    chunk_type = CompletionChunk
    chunk_object = "text_completion"

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        *,
        prompts: Sequence[str | Sequence[int]],
        is_echoed: bool,
        choices: int,
        kept: int,
        options: EncoderOptions,
    ) -> None:
        super().__init__(model, vocabulary, prompts=len(prompts), choices=choices, options=options)
        echoes = [self._texts.text(prompt) if is_echoed else "" for prompt in prompts]
        self._kept = kept
        self._echoes = [echo for echo in echoes for _ in range(choices)]

    def begin(self) -> Iterator[bytes]:
        """Return a chunk with the prompt for each answer, if prompts are echoed."""
        for index, echo in enumerate(self._echoes):
            if echo:
                yield self._chunk(choices=[self._chunk_choice(index, echo, None, None)])

    def response(self) -> BaseModel:
        """Return the response."""
        response = super().response()
        assert isinstance(response, Completion)
        if self._kept < self._choices_per_prompt:
            results = self._results()
            kept = [response.choices[index] for index in self._most_likely(results)]
            for index, choice in enumerate(kept):
                choice.index = index
            response.choices = kept
        return response

    def _most_likely(self, results: list[GenerationResult[Any]]) -> Iterator[int]:
        """Yield the indexes of the answers in the response, best first for each prompt."""
        for begin in range(0, len(results), self._choices_per_prompt):
            candidates = range(begin, begin + self._choices_per_prompt)
            # Sorting is stable: equal answers stay in order.
            ranked = sorted(candidates, key=lambda index: -_mean_logprob(results[index]))
            yield from ranked[: self._kept]

    def _delta(self, event: StreamEvent[Any]) -> str | None:
        return event.text if isinstance(event, TextDelta) else None

    def _chunk_choice(
        self,
        index: int,
        delta: str | None,
        logprobs: CompletionLogprobs | None,
        result: GenerationResult[Any] | None,
    ) -> CompletionChunkChoice:
        return CompletionChunkChoice(
            index=index,
            text=delta or "",
            logprobs=logprobs,
            finish_reason=None if result is None else _reason(result),
        )

    def _whole_choice(
        self, index: int, result: GenerationResult[Any], logprobs: CompletionLogprobs | None
    ) -> CompletionChoice:
        return CompletionChoice(
            index=index,
            text=self._echoes[index] + result.text,
            logprobs=logprobs,
            finish_reason=_reason(result),
        )

    def _logprobs(
        self, earlier: list[TokenLogprob], logprobs: list[TokenLogprob]
    ) -> CompletionLogprobs:
        begin = sum(len(one.token) for one in earlier)
        ends = accumulate((len(one.token) for one in logprobs), initial=begin)
        return CompletionLogprobs(
            tokens=[one.token for one in logprobs],
            token_logprobs=[one.logprob for one in logprobs],
            top_logprobs=[{top.token: top.logprob for top in one.top_logprobs} for one in logprobs],
            text_offset=[*ends][:-1],
        )


def _reason(result: GenerationResult[Any]) -> Literal["stop", "length"]:
    return "length" if result.finish_reason == "length" else "stop"


def _mean_logprob(result: GenerationResult[Any]) -> float:
    """Return the mean log-probability of an answer's tokens, before any mask."""
    logprobs = [token.chosen.before_mask for token in result.logprobs or ()]
    return sum(logprobs) / len(logprobs) if logprobs else 0.0
