"""Types of the arguments of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..options.overrides import OptionOverrides

if TYPE_CHECKING:
    from ..generation.custom_sampler import LogitsProcessor, LogprobsSampler


class RequestArguments(OptionOverrides, total=False):
    """The keyword arguments of a request besides its response format: tools, hooks and options.

    Attributes:
        tools: OpenAI-style dicts, pydantic models, dataclasses, functions, or ``Tool``s.
        tool_choice: ``"auto"`` (default), ``"required"``, ``"none"``, or the name of a tool.
        sampler: A function from log-probabilities over the allowed tokens, float32, shape (1,
            vocabulary), to a token id, as mlx-lm's samplers are. It selects the tokens in place of
            the sampling parameters.
        logits_processors: Functions of the token ids so far, shape (tokens,), and the logits, shape
            (1, vocabulary), that return logits, as mlx-lm's are. They run before the mask and the
            sampling parameters.
        logprob_vectors: Report the log-probabilities of all tokens at each position.
    """

    tools: Iterable[Any] | None
    tool_choice: Any
    sampler: LogprobsSampler | None
    logits_processors: Iterable[LogitsProcessor] | None
    logprob_vectors: bool
