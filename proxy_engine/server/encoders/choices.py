"""Chat completions and completions: responses, and the chunks of a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, ClassVar

from state_machines import Vocabulary

from ...conversation.interaction import openai_call
from ...results.events import (
    PromptProgress,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    ToolInputDelta,
)
from ...results.generation import GenerationResult
from ...results.parts import TokenLogprobs
from ..errors import ApiError
from ..streaming import DONE, frame
from . import (
    AnswerEncoder,
    EncoderOptions,
    Fields,
    draft_counts,
    new_id,
    prompt_details,
    seconds_now,
)


class ChoicesEncoder(AnswerEncoder):
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
            "completion_tokens_details": {
                "reasoning_tokens": reasoning_tokens,
                **draft_counts(usages),
            },
        }


class ChatEncoder(ChoicesEncoder):
    """Encodes the answers to one conversation."""

    id_prefix = "chatcmpl-"
    response_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def begin(self, prompt: PromptProgress | None = None) -> Iterator[bytes]:
        """Return a chunk with the role for each answer."""
        for index in range(len(self._answers)):
            yield self._chunk(index, {"role": "assistant", "content": ""}, None)

    def _delta(self, event: StreamEvent[Any]) -> Fields | None:
        match event:
            case TextDelta(text=text):
                return {"content": text}
            case ReasoningDelta(text=text) if self._options.reasoning:
                # Some clients read the first name, some the second.
                return {"reasoning_content": text, "reasoning": text}
            case ToolCallStarted(is_custom=True):
                inner: Fields = {"custom": {"name": event.name, "input": ""}}
                return _calls({"index": event.index, "id": event.id, "type": "custom", **inner})
            case ToolInputDelta():
                return _calls({"index": event.index, "custom": {"input": event.input}})
            case ToolCallStarted():
                inner = {"function": {"name": event.name, "arguments": ""}}
                return _calls({"index": event.index, "id": event.id, "type": "function", **inner})
            case ToolCallDelta():
                return _calls({"index": event.index, "function": {"arguments": event.arguments}})
        return None

    def _chunk_choice(self, delta: Any, logprobs: Fields | None) -> Fields:
        choice = {"delta": delta or {}}
        return choice if logprobs is None else {**choice, "logprobs": logprobs}

    def _whole_choice(self, index: int, result: GenerationResult[Any]) -> Fields:
        content = result.text if result.text or not result.tool_calls else None
        message: Fields = {"role": "assistant", "content": content, "refusal": None}
        if result.reasoning and self._options.reasoning:
            message["reasoning_content"] = message["reasoning"] = result.reasoning
        if result.tool_calls:
            message["tool_calls"] = [openai_call(call) for call in result.tool_calls]
        return {"message": message}

    def _logprobs(self, index: int, logprobs: list[Fields]) -> Fields:
        return {"content": logprobs, "refusal": None}

    def _reason(self, result: GenerationResult[Any]) -> str:
        # The client of a cancelled request gets an error, not this.
        return "stop" if result.finish_reason == "cancelled" else result.finish_reason


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
        kept: The number of answers in the response: the answers with the highest mean
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

    def begin(self, prompt: PromptProgress | None = None) -> Iterator[bytes]:
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


def _extended(extension: Fields) -> Fields:
    """Return the member of an object that has extensions, if there are any."""
    return {"proxy_engine": extension} if extension else {}


def _calls(call: Fields) -> Fields:
    return {"tool_calls": [call]}


def _by_token(token: Fields) -> dict[str, float] | None:
    """Return the most likely tokens at a position; the token itself is always among them."""
    top = token["top_logprobs"]
    return None if top is None else {likely["token"]: likely["logprob"] for likely in [*top, token]}


def _mean_logprob(result: GenerationResult[Any]) -> float:
    """Return the mean log-probability of an answer's tokens, before any mask."""
    logprobs = [token.chosen.before_mask for token in result.logprobs or ()]
    return sum(logprobs) / len(logprobs) if logprobs else 0.0
