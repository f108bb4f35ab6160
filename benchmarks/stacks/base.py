"""The interface of a stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import Usage

__all__ = [
    "GREEDY",
    "SEEDED",
    "UNSEEDED",
    "RefusedRequestError",
    "Request",
    "Sampling",
    "Setting",
    "Stack",
    "StackFactory",
    "Written",
    "checked_prompt",
    "parsed_schema",
]


class RefusedRequestError(Exception):
    """The stack says that it does not take this request. Its sentence says why."""


@dataclass(frozen=True)
class Setting:
    """What all stacks share: one model in memory, and a tokenizer without a chat template."""

    model: Module
    tokenizer: TokenizerWrapper


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen, by every stack alike."""

    name: str
    temperature: float
    top_p: float
    seed: int | None


GREEDY = Sampling("greedy", 0.0, 1.0, 0)
SEEDED = Sampling("seeded", 0.7, 0.95, 7)
UNSEEDED = Sampling("unseeded", 0.7, 0.95, None)


@dataclass(frozen=True)
class Request:
    """A prompt, as text and as the tokens that every stack must make of it, and a JSON Schema.

    ``schema`` is JSON text; ``None``: any text.
    """

    prompt: str
    prompt_ids: list[int]
    schema: str | None
    max_tokens: int
    sampling: Sampling = GREEDY


@dataclass(frozen=True)
class Written:
    """What came of a request.

    ``tokens`` counts end tokens, too. ``seconds`` is the whole call, what there was to compile
    included; ``first_seconds`` of it went by until there was a first token. ``usage`` counts
    forward passes and draft tokens, if the stack does.
    """

    text: str
    tokens: int
    seconds: float
    first_seconds: float
    usage: Usage | None = None

    @property
    def token_seconds(self) -> float:
        """Seconds a token, from the first to the last."""
        return (self.seconds - self.first_seconds) / max(1, self.tokens - 1)


class Stack(Protocol):
    """A stack. It keeps compiled schemas until :meth:`forget`."""

    version: str

    def write(self, request: Request) -> Written:
        """Generate to the end. Raises :class:`RefusedRequestError` for a schema it does not take.

        A schema that was met before, and not forgotten, is not compiled again.
        """

    def first_token(self, request: Request) -> float:
        """Seconds from the call to when a caller has the first token. Generates no more."""

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        """Whether the schema allows a text of these tokens. The model does not run.

        A stack that would take long to say so says yes.
        """

    def forget(self) -> None:
        """Drop all compiled schemas and caches."""

    def close(self) -> None:
        """Free all resources. No other call may follow."""


StackFactory = Callable[[Setting], Stack]


def checked_prompt(request: Request, prompt_tokens: int) -> None:
    """Raise ``RuntimeError`` where a stack made other tokens of the prompt."""
    if prompt_tokens != len(request.prompt_ids):
        raise RuntimeError(
            f"the prompt was read as {prompt_tokens} tokens, and not {len(request.prompt_ids)}"
        )


def parsed_schema(request: Request) -> Any:
    """Return the schema as the value that a library expects."""
    return None if request.schema is None else json.loads(request.schema)
