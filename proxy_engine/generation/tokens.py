"""Generated tokens."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from state_machines.root import Part

from ..results.parts import LogprobVectors, TokenLogprobs

TextEnd: TypeAlias = Literal["stop", "length"]
"""An end token, or a limit."""


class Token(NamedTuple):
    """A generated token.

    Attributes:
        token_id: Its id in the vocabulary.
        finish_reason: Set on the last token of a sequence: ``"stop"`` for an end token,
            ``"length"`` where a limit was reached.
        is_forced: The grammar left one continuation, so the token was not sampled.
        part: The part of a composed answer that the token most likely belongs to.
        logprobs: Log-probabilities, where the request asks for them.
        is_drafted: The token was drafted and accepted.
        logprob_vectors: Log-probabilities of all tokens, where the request asks for them.
        log_probability: Of the token among the allowed ones, where the request records it and
            several were allowed.
    """

    token_id: int
    finish_reason: TextEnd | None = None
    is_forced: bool = False
    part: Part | None = None
    logprobs: TokenLogprobs | None = None
    is_drafted: bool = False
    logprob_vectors: LogprobVectors | None = None
    log_probability: float | None = None
