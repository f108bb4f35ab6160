"""The common base of the encoders of chat completions and completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from state_machines import Vocabulary

from ...answers.composition import REASONING
from ...results.events import Finished, StreamEvent, TokenGenerated
from ...results.generation import GenerationResult
from ..errors import ApiError
from ..schemas.common import (
    ChoiceExtension,
    ChoicesUsage,
    CompletionDetails,
    CutShortInfo,
    ExtendedChoice,
    Extension,
    TokenLogprob,
)
from ..streaming import DONE, frame
from .encoder import (
    TokenTexts,
    new_id,
    prompt_details,
    quotation_infos,
    seconds_now,
    timings,
    token_info,
)

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Optional contents of a response.

    Attributes:
        logprobs: Log-probabilities of tokens.
        usage: A last chunk with the usage.
        tokens: Every token, and timings (the extension ``include_tokens``).
        confidence: Confidences by JSON Pointer (the extension ``include_confidence``).
        reasoning: The reasoning of chat completions.
        is_complete: Whether answers are complete whatever ends them, as those in a format are.
    """

    logprobs: bool = False
    usage: bool = False
    tokens: bool = False
    confidence: bool = False
    reasoning: bool = True
    is_complete: bool = False


@dataclass(slots=True)
class _Choice:
    """An answer so far. ``sent_logprobs`` are those of its log-probabilities in earlier chunks."""

    logprobs: list[TokenLogprob] = field(default_factory=list)
    sent_logprobs: int = 0
    reasoning_tokens: int = 0
    result: GenerationResult[Any] | None = None


class ChoicesEncoder(ABC, Generic[D]):
    """Encodes answers as OpenAI's choices. ``D`` is the type of the new content in a chunk.

    Args:
        model: The model's name.
        vocabulary: The model's vocabulary.
        prompts: The number of prompts.
        choices: The number of answers to each prompt; they follow each other.
        options: The optional contents of the response.
    """

    id_prefix: ClassVar[str]
    response_type: ClassVar[type[BaseModel]]
    response_object: ClassVar[str]
    chunk_type: ClassVar[type[BaseModel]]
    chunk_object: ClassVar[str]

    def __init__(
        self,
        model: str,
        vocabulary: Vocabulary,
        *,
        prompts: int = 1,
        choices: int = 1,
        options: EncoderOptions,
    ) -> None:
        self._head: dict[str, Any] = {
            "id": new_id(self.id_prefix),
            "created": seconds_now(),
            "model": model,
            "system_fingerprint": None,
        }
        self._texts = TokenTexts(vocabulary)
        self._choices = [_Choice() for _ in range(prompts * choices)]
        self._choices_per_prompt = choices
        self._options = options

    @abstractmethod
    def begin(self) -> Iterable[bytes]:
        """Return the chunks before the first event."""

    @abstractmethod
    def _delta(self, event: StreamEvent[Any]) -> D | None:
        """Return the new content of an event, if it has any."""

    @abstractmethod
    def _chunk_choice(
        self, index: int, delta: D | None, logprobs: Any, result: GenerationResult[Any] | None
    ) -> ExtendedChoice:
        """Return the choice of a chunk; the last chunk of an answer has its result."""

    @abstractmethod
    def _whole_choice(
        self, index: int, result: GenerationResult[Any], logprobs: Any
    ) -> ExtendedChoice:
        """Return a choice of a response that is not streamed."""

    @abstractmethod
    def _logprobs(self, earlier: list[TokenLogprob], logprobs: list[TokenLogprob]) -> BaseModel:
        """Return log-probabilities in the endpoint's format, and given those sent earlier."""

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterator[bytes]:
        """Return the chunks for an event."""
        choice = self._choices[index]
        match event:
            case TokenGenerated():
                choice.reasoning_tokens += event.part == REASONING
                logprob = self._texts.content_logprob(event)
                if logprob is not None:
                    choice.logprobs.append(logprob)
                if self._options.tokens:
                    extension = Extension(tokens=[token_info(event)])
                    fields = self._chunk_choice(index, None, None, None)
                    yield self._chunk(choices=[fields], proxy_engine=extension)
            case Finished(result=result):
                choice.result = result
                last = self._chunk_choice(index, None, self._unsent_logprobs(choice), result)
                yield self._chunk(choices=[self._extended(last, result)], **self._timings(result))
            case _:
                delta = self._delta(event)
                if delta is not None:
                    # Content is held back while a stop string may follow; so are its logprobs.
                    logprobs = self._unsent_logprobs(choice) if event.type == "text_delta" else None
                    yield self._chunk(choices=[self._chunk_choice(index, delta, logprobs, None)])

    def end(self) -> Iterator[bytes]:
        """Return the chunk of usage, if it is wanted, and the last frame."""
        if self._options.usage:
            yield self._chunk(choices=[], usage=self._usage())
        yield DONE

    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return the error as a chunk, as OpenAI's clients expect it."""
        return (frame(error.body), DONE)

    def response(self) -> BaseModel:
        """Return the response."""
        results = self._results()
        choices = []
        for index, result in enumerate(results):
            logprobs = self._logprobs([], self._choices[index].logprobs)
            choice = self._whole_choice(index, result, logprobs if self._options.logprobs else None)
            choices.append(self._extended(choice, result))
        return self.response_type(
            object=self.response_object,
            choices=choices,
            usage=self._usage(),
            **self._head,
            **self._timings(results[0]),
        )

    def _chunk(self, **fields: Any) -> bytes:
        if self._options.usage:
            fields.setdefault("usage", None)
        return frame(self.chunk_type(object=self.chunk_object, **self._head, **fields))

    def _unsent_logprobs(self, choice: _Choice) -> BaseModel | None:
        sent, choice.sent_logprobs = choice.sent_logprobs, len(choice.logprobs)
        if sent == choice.sent_logprobs:
            return None
        return self._logprobs(choice.logprobs[:sent], choice.logprobs[sent:])

    def _extended(self, choice: ExtendedChoice, result: GenerationResult[Any]) -> ExtendedChoice:
        added: dict[str, Any] = {}
        if self._options.confidence:
            added["confidence"] = result.confidences()
        if result.quotes:
            added["quotes"] = quotation_infos(result)
        cut = result.cut_short
        if cut is not None and self._options.is_complete:
            added["cut_short"] = CutShortInfo(reason=cut.reason, pointer=cut.pointer)
        if added:
            choice.proxy_engine = ChoiceExtension(**added)
        return choice

    def _timings(self, result: GenerationResult[Any]) -> dict[str, Any]:
        if not self._options.tokens:
            return {}
        return {"proxy_engine": Extension(timings=timings(result.usage))}

    def _results(self) -> list[GenerationResult[Any]]:
        results = [choice.result for choice in self._choices if choice.result is not None]
        assert len(results) == len(self._choices), "a stream without an error has a result"
        return results

    def _usage(self) -> ChoicesUsage:
        """The tokens of all answers; each prompt counts once."""
        usages = [result.usage for result in self._results()]
        prompts = usages[:: self._choices_per_prompt]
        prompt_tokens = sum(usage.prompt_tokens for usage in prompts)
        completion_tokens = sum(usage.completion_tokens for usage in usages)
        return ChoicesUsage(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            input_tokens=prompt_tokens,
            output_tokens=completion_tokens,
            prompt_tokens_details=prompt_details(prompts),
            completion_tokens_details=CompletionDetails(
                reasoning_tokens=sum(choice.reasoning_tokens for choice in self._choices)
            ),
        )
