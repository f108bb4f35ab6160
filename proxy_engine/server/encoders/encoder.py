"""The interface of encoders, and the parts of responses that all of them write."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from state_machines import Vocabulary
from state_machines.tool_calls.call import CALL

from ...answers.composition import REASONING
from ...results.events import StreamEvent, TokenGenerated
from ...results.generation import GenerationResult
from ...results.parts import Logprob, TokenLogprobs, Usage
from ..errors import ApiError
from ..schemas.common import (
    PromptDetails,
    QuotationInfo,
    Timings,
    TokenInfo,
    TokenLogprob,
    TopLogprob,
)

# JSON has no infinity; OpenAI writes this number.
_MIN_LOGPROB = -9999.0


class Encoder(Protocol):
    """Encodes the events of one request's answers as the response of an endpoint.

    A stream is the frames of ``begin``, of ``encode`` for each event, and of ``end``; an error
    replaces the rest by the frames of ``fail``. A response that is not streamed is ``response``,
    after all events were encoded.
    """

    def begin(self) -> Iterable[bytes]:
        """Return the frames before the first event."""

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterable[bytes]:
        """Return the frames for an event of the answer number ``index``."""

    def end(self) -> Iterable[bytes]:
        """Return the frames after the last event."""

    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return the frames for an error."""

    def response(self) -> Any:
        """Return the whole response, a pydantic model."""


class TokenTexts:
    """Texts, bytes and log-probabilities of tokens for clients."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._token_bytes = vocabulary.token_bytes
        self._end_token_ids = vocabulary.end_token_ids

    def text(self, prompt: str | Sequence[int]) -> str:
        """Return the text of a prompt. Token ids outside of the vocabulary are skipped."""
        if isinstance(prompt, str):
            return prompt
        known = (self._token_bytes[id] for id in prompt if id < len(self._token_bytes))
        return b"".join(
            form.removeprefix(Vocabulary.SPECIAL_MARK) for form in known if form
        ).decode("utf-8", "replace")

    def content_logprob(self, event: TokenGenerated) -> TokenLogprob | None:
        """Return the log-probabilities of a token of the content; ``None`` for other tokens."""
        is_content = event.part not in (REASONING, CALL)
        if event.logprobs is None or not is_content or event.token_id in self._end_token_ids:
            return None
        return self._token_logprob(event.logprobs)

    def _token_logprob(self, logprobs: TokenLogprobs) -> TokenLogprob:
        top = [TopLogprob(**self._fields(one)) for one in logprobs.top_before_mask]
        return TokenLogprob(**self._fields(logprobs.chosen), top_logprobs=top)

    def _fields(self, logprob: Logprob) -> dict[str, Any]:
        form = self._token_bytes[logprob.token_id] or b""
        # Special tokens are stored with a prefix that no UTF-8 text has; they have no bytes.
        is_text = bool(form) and not form.startswith(Vocabulary.SPECIAL_MARK)
        return {
            "token": form.removeprefix(Vocabulary.SPECIAL_MARK).decode("utf-8", "replace"),
            "logprob": max(logprob.before_mask, _MIN_LOGPROB),
            "bytes": list(form) if is_text else None,
        }


def new_id(prefix: str) -> str:
    """Return a random identifier."""
    return f"{prefix}{secrets.token_hex(12)}"


def seconds_now() -> int:
    """Return the time in seconds since 1970."""
    return int(time.time())


def token_info(event: TokenGenerated) -> TokenInfo:
    """Return a token for the extension ``include_tokens``."""
    return TokenInfo(
        token_id=event.token_id, text=event.text, part=event.part, is_forced=event.is_forced
    )


def timings(usage: Usage) -> Timings:
    """Return the timings for the extension ``include_tokens``, rounded to microseconds."""
    values = {name: getattr(usage, name) for name in Timings.model_fields}
    return Timings(**{name: round(value, 6) for name, value in values.items()})


def quotation_infos(result: GenerationResult[Any]) -> list[QuotationInfo]:
    """Return where the quotes of an answer stand."""
    return [
        QuotationInfo(**{name: getattr(quote, name) for name in QuotationInfo.model_fields})
        for quote in result.quotes
    ]


def prompt_details(usages: Iterable[Usage]) -> PromptDetails:
    """Return the kinds of prompt tokens in the sum of all usages."""
    counted = [*usages]
    return PromptDetails(
        **{name: sum(getattr(one, name) for one in counted) for name in PromptDetails.model_fields}
    )
