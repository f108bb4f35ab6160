"""Completions of raw prompts: responses and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from state_machines import Vocabulary

from ...results.events import StreamEvent, TextDelta
from ...results.generation import GenerationResult
from ...results.parts import TokenLogprobs
from .choices import ChoicesEncoder
from .encoder import EncoderOptions, Fields


class CompletionEncoder(ChoicesEncoder):
    """Encodes the answers to raw prompts.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        options: The optional contents of the response.
        prompts: The prompts, as text or as token ids.
        is_echoed: Whether each text starts with its prompt.
        prompt_logprobs: For each prompt, its tokens with their log-probabilities, if these are
            echoed. The first token has no log-probability.
        choices: The number of answers to each prompt; they follow each other.
        kept: The number of those in the response: the ones whose tokens have the highest mean
            log-probability, if there are more answers.
    """

    id_prefix = "cmpl-"
    response_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        options: EncoderOptions,
        *,
        prompts: Sequence[str | Sequence[int]],
        is_echoed: bool,
        prompt_logprobs: Sequence[Sequence[TokenLogprobs]] = (),
        choices: int,
        kept: int,
    ) -> None:
        super().__init__(model, vocabulary, options, prompts=len(prompts), choices=choices)
        echoes = [self._texts.text(prompt) if is_echoed else "" for prompt in prompts]
        # Clients that score a prompt leave out the last token, whatever it is.
        self._texts.has_end_tokens = bool(prompt_logprobs)
        self._kept = kept
        self._echoes = [echo for echo in echoes for _ in range(choices)]
        # By answer: the length of the text whose log-probabilities are encoded.
        self._lengths = [0] * len(self._answers)
        for number, logprobs in enumerate(prompt_logprobs):
            for answer in self._answers[number * choices : (number + 1) * choices]:
                answer.logprobs += [self._texts.logprob(token) for token in logprobs]
                answer.logprobs[0] |= {"logprob": None, "top_logprobs": None}

    def begin(self) -> Iterator[bytes]:
        """Return a chunk with the prompt for each answer, if prompts are echoed."""
        for index, echo in enumerate(self._echoes):
            if echo:
                yield self._chunk(index, echo, self._unsent_logprobs(index))

    def response(self) -> Fields:
        """Return the response."""
        response = super().response()
        if self._kept < self._choices_per_prompt:
            kept = [response["choices"][index] for index in self._most_likely(self._results())]
            response["choices"] = [{**choice, "index": i} for i, choice in enumerate(kept)]
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

    def _chunk_choice(self, delta: str | None, logprobs: Fields | None) -> Fields:
        return {"text": delta or "", "logprobs": logprobs}

    def _whole_choice(self, index: int, result: GenerationResult[Any]) -> Fields:
        return {"text": self._echoes[index] + result.text}

    def _logprobs(self, index: int, logprobs: list[Fields]) -> Fields:
        lengths = (len(token["token"]) for token in logprobs)
        offsets = [*accumulate(lengths, initial=self._lengths[index])]
        self._lengths[index] = offsets.pop()
        return {
            "tokens": [token["token"] for token in logprobs],
            "token_logprobs": [token["logprob"] for token in logprobs],
            "top_logprobs": [_by_token(token) for token in logprobs],
            "text_offset": offsets,
        }

    def _reason(self, result: GenerationResult[Any]) -> str:
        return "length" if result.finish_reason == "length" else "stop"


def _by_token(token: Fields) -> dict[str, float] | None:
    """Return the most likely tokens at a position; the token itself is always among them."""
    top = token["top_logprobs"]
    return None if top is None else {one["token"]: one["logprob"] for one in [*top, token]}


def _mean_logprob(result: GenerationResult[Any]) -> float:
    """Return the mean log-probability of an answer's tokens, before any mask."""
    logprobs = [token.chosen.before_mask for token in result.logprobs or ()]
    return sum(logprobs) / len(logprobs) if logprobs else 0.0
