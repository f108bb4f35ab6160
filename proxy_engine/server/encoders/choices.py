"""The common base of the encoders of chat completions and completions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from state_machines import Vocabulary

from ...results.events import StreamEvent
from ...results.generation import GenerationResult
from ..errors import ApiError
from ..streaming import DONE, frame
from .encoder import Encoder, EncoderOptions, Fields, new_id, prompt_details, seconds_now


class ChoicesEncoder(Encoder):
    """Encodes answers as OpenAI's choices.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        prompts: The number of prompts.
        choices: The number of answers to each prompt; they follow each other.
        options: The optional contents of the response.
    """

    id_prefix: ClassVar[str]
    response_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        options: EncoderOptions,
        *,
        prompts: int = 1,
        choices: int = 1,
    ) -> None:
        super().__init__(vocabulary, options, prompts * choices)
        self._head: Fields = {
            "id": new_id(self.id_prefix),
            "created": seconds_now(),
            "model": model,
            "system_fingerprint": None,
        }
        self._choices_per_prompt = choices

    @abstractmethod
    def _delta(self, event: StreamEvent[Any]) -> Any:
        """Return the new content of an event; ``None`` if it has none."""

    @abstractmethod
    def _chunk_choice(self, delta: Any, logprobs: Fields | None) -> Fields:
        """Return the choice of a chunk without index and finish reason."""

    @abstractmethod
    def _whole_choice(self, index: int, result: GenerationResult[Any]) -> Fields:
        """Return the choice of a response, without index and log-probabilities."""

    @abstractmethod
    def _reason(self, result: GenerationResult[Any]) -> str:
        """Return the finish reason."""

    @abstractmethod
    def _logprobs(self, index: int, logprobs: list[Fields]) -> Fields | None:
        """Return log-probabilities in the endpoint's format; ``None`` if there are none."""

    def end(self) -> Iterator[bytes]:
        """Return the chunk of usage, if it is wanted, and the last frame."""
        if self._options.usage:
            yield self._frame(choices=[], usage=self._usage())
        yield DONE

    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return the error as a chunk, as OpenAI's clients expect it."""
        return (frame(error.body), DONE)

    def response(self) -> Fields:
        """Return the response."""
        results = self._results()
        return {
            **self._head,
            "object": self.response_object,
            "choices": [self._choice(index, result) for index, result in enumerate(results)],
            "usage": self._usage(),
            **_extended(self._timings(results[0])),
        }

    def _content(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        delta = self._delta(event) if self._options.is_streamed else None
        if delta is not None:
            # Content is held back while a stop string may follow; so are its logprobs.
            logprobs = self._unsent_logprobs(index) if event.type == "text_delta" else None
            yield self._chunk(index, delta, logprobs)

    def _finish(self, index: int, result: GenerationResult[Any]) -> Iterator[bytes]:
        if self._options.is_streamed:
            choice = self._chunk_choice(None, self._unsent_logprobs(index))
            choice |= {"index": index, "finish_reason": self._reason(result)}
            choice |= _extended(self._extension(result))
            yield self._frame(choices=[choice], **_extended(self._timings(result)))

    def _token(self, index: int, token: Fields) -> bytes:
        return self._chunk(index, None, None, tokens=[token])

    def _choice(self, index: int, result: GenerationResult[Any]) -> Fields:
        logprobs = self._logprobs(index, self._answers[index].logprobs)
        return {
            "index": index,
            **self._whole_choice(index, result),
            "logprobs": logprobs if self._options.logprobs else None,
            "finish_reason": self._reason(result),
            **_extended(self._extension(result)),
        }

    def _chunk(self, index: int, delta: Any, logprobs: Fields | None, **extension: Any) -> bytes:
        choice = {"index": index, **self._chunk_choice(delta, logprobs), "finish_reason": None}
        return self._frame(choices=[choice], **_extended(extension))

    def _frame(self, **fields: Any) -> bytes:
        if self._options.usage:
            fields.setdefault("usage", None)
        return frame({**self._head, "object": self.chunk_object, **fields})

    def _unsent_logprobs(self, index: int) -> Fields | None:
        logprobs = self._answers[index].unsent_logprobs()
        return self._logprobs(index, logprobs) if logprobs else None

    def _usage(self) -> Fields:
        """The tokens of all answers; each prompt counts once."""
        usages = [result.usage for result in self._results()]
        prompts = usages[:: self._choices_per_prompt]
        prompt_tokens = sum(usage.prompt_tokens for usage in prompts)
        completion_tokens = sum(usage.completion_tokens for usage in usages)
        reasoning_tokens = sum(answer.reasoning_tokens for answer in self._answers)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            # The names of the Responses interface.
            "input_tokens": prompt_tokens,
            "output_tokens": completion_tokens,
            "prompt_tokens_details": prompt_details(prompts),
            "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
        }


def _extended(extension: Fields) -> Fields:
    """Return the member of an object that has extensions, if there are any."""
    return {"proxy_engine": extension} if extension else {}
