"""What an encoder is, and what all of them write."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from state_machines import Vocabulary

from ...events import StreamEvent, TokenGenerated
from ...results import Logprob, Usage
from ..errors import ApiError
from ..schemas.common import Timings, TokenInfo

__all__ = [
    "Encoder",
    "TokenTexts",
    "least_logprob",
    "new_id",
    "seconds_now",
    "timings",
    "token_info",
]


class Encoder(Protocol):
    """Turns the events of one request's answers into what an endpoint sends.

    A stream is ``begin``, what ``encode`` makes of each event, and ``end``; where something goes
    wrong ``fail`` comes in place of the rest. ``response`` is all of it at once, after the events.
    """

    def begin(self) -> Iterable[bytes]:
        """Return what is sent before anything is known."""

    def encode(self, index: int, event: StreamEvent[Any]) -> Iterable[bytes]:
        """Return what is sent for an event of the answer number ``index``."""

    def end(self) -> Iterable[bytes]:
        """Return what is sent when all answers are finished."""

    def fail(self, error: ApiError) -> Iterable[bytes]:
        """Return what is sent when something went wrong."""

    def response(self) -> Any:
        """Return the whole response, a pydantic model."""


class TokenTexts:
    """Tokens as clients are shown them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._forms = vocabulary.token_bytes
        self._ends = vocabulary.end_token_ids

    def is_end(self, token_id: int) -> bool:
        """Whether it ends the output, and is no part of it."""
        return token_id in self._ends

    def of(self, token_id: int) -> tuple[str, list[int] | None]:
        """Return a token's text and its bytes; for a special one its name, and ``None``."""
        form = self._forms[token_id]
        if form is None:
            return "", None
        # What a special token's bytes begin with.
        if form.startswith(b"\xff"):
            return form[1:].decode("utf-8", "replace"), None
        return form.decode("utf-8", "replace"), list(form)

    def joined(self, prompt: str | Sequence[int]) -> str:
        """Return the text of a prompt. Tokens that there are not have none."""
        if isinstance(prompt, str):
            return prompt
        forms = [self._forms[token_id] for token_id in prompt if token_id < len(self._forms)]
        return b"".join(form.removeprefix(b"\xff") for form in forms if form).decode(
            "utf-8", "replace"
        )


def least_logprob(logprob: Logprob) -> float:
    """Return a probability as the model had it; JSON has no infinity, OpenAI writes -9999."""
    return max(logprob.before_mask, -9999.0)


def new_id(prefix: str) -> str:
    """Return an identifier that no other thing has."""
    return f"{prefix}{secrets.token_hex(12)}"


def seconds_now() -> int:
    """Return the time, in seconds since 1970."""
    return int(time.time())


def token_info(event: TokenGenerated) -> TokenInfo:
    """Return a token for the extension ``include_tokens``."""
    return TokenInfo(
        token_id=event.token_id,
        text=event.text,
        part=event.part,
        is_forced=event.is_forced,
    )


def timings(usage: Usage) -> Timings:
    """Return where the time went for the extension ``include_tokens``."""
    return Timings(
        **{
            name: round(getattr(usage, name), 6)
            if name.endswith("seconds")
            else getattr(usage, name)
            for name in Timings.model_fields
        }
    )
