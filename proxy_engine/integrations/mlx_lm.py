"""Logits processors for mlx-lm: ``generate``, ``stream_generate``, ``batch_generate``.

::

    text = mlx_lm.generate(
        model, tokenizer, prompt, logits_processors=[logits_processor(Person, tokenizer)]
    )
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from state_machines import InvalidArgumentError, StateMachine, Vocabulary
from state_machines.processors.arguments import EndTokens, vocabulary_of
from state_machines.processors.row_masks import MaskCopies, RowMasks
from state_machines.root import RootStateMachine

from ..answers.compiler import structured_part
from ..answers.response_format import ResponseFormatCompiler
from ..errors import InvalidResponseFormatError

__all__ = ["LogitsProcessor", "logits_processor"]

_FORMATS = ResponseFormatCompiler()


class LogitsProcessor(RowMasks):
    """A function from tokens and logits to logits, as mlx-lm and mlx-vlm call it. Not thread-safe.

    One processor may serve several sequences, since it knows a sequence by its tokens.
    """

    def clone(self) -> LogitsProcessor:
        """Return an independent processor; mlx-vlm makes a clone for each sequence of a batch."""
        return self.copy()

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Return the logits; forbidden tokens have minus infinity.

        Args:
            tokens: All tokens of each sequence, the prompt included: shape (rows, tokens), or
                (tokens,) for one row.
            logits: Shape (rows, width), or (width,).

        Raises:
            InvalidArgumentError: There are more rows of logits than of tokens.
            TokenRejectedError: The loop has taken a token that was forbidden.
            GrammarBudgetError: A mask takes too much work, and there is no ``max_tokens``.
            VocabularyError: The logits are narrower than the vocabulary.
        """
        # The tokens are known before the forward pass ends. It runs while the mask is computed.
        mx.async_eval(tokens)
        mx.async_eval(logits)
        rows = np.atleast_2d(np.array(tokens))
        width = logits.shape[-1]
        if logits.size != len(rows) * width:
            raise InvalidArgumentError(
                f"there are {logits.size // width} rows of logits and {len(rows)} of tokens",
                argument="logits",
                hint="Call the processor once for each sequence",
            )
        shared = MaskCopies.shared(self.vocabulary, "mlx", mx.array)
        copies = [shared.of(mask, width) for mask in self.masks(rows)]
        allowed = copies[0] if len(copies) == 1 else mx.stack(copies)
        return mx.where(allowed, logits, mx.array(-mx.inf, logits.dtype))


def logits_processor(
    output: Any,
    tokenizer: Any,
    *,
    max_tokens: int | None = None,
    end_token_ids: EndTokens = None,
) -> LogitsProcessor:
    """Return a logits processor that allows only the texts of an output.

    Args:
        output: A response format of ``InferenceEngine.generate``: a pydantic model, a type, a JSON
            Schema, a state machine or a composition.
        tokenizer: The tokenizer that ``mlx_lm.load`` returns, or a vocabulary.
        max_tokens: Number of tokens within which the text is complete, end tokens not counted. Give
            the loop's ``max_tokens``; ``None``: texts are not limited.
        end_token_ids: Replaces the tokenizer's end tokens; they must end the loop.

    Raises:
        InvalidResponseFormatError: ``output`` is of no accepted kind, or free text.
        SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
        MaxTokensTooSmallError: No text fits into ``max_tokens``.
        VocabularyError: The tokenizer is not supported.
    """
    vocabulary = vocabulary_of(tokenizer, end_token_ids)
    return LogitsProcessor(_machine(output, vocabulary), vocabulary, max_tokens)


def _machine(output: Any, vocabulary: Vocabulary) -> StateMachine:
    response = _FORMATS.compile(output)
    if response.is_free:
        raise InvalidResponseFormatError(
            "free text needs no logits processor",
            hint="Give a pydantic model, a type, a JSON Schema or a state machine",
        )
    if response.machine is not None and response.delimiters.begin == response.delimiters.end == "":
        return response.machine
    return RootStateMachine(response.part or structured_part(response), vocabulary)
