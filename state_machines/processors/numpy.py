"""Logits processors for llama-cpp-python, and for other loops on NumPy arrays.

>>> from state_machines import Vocabulary
>>> vocabulary = Vocabulary([b"0", b"1", b"</s>"], end_token_ids=[2])
>>> processor = logits_processor({"const": 1}, vocabulary)
>>> processor(np.array([0, 0]), np.zeros(3, np.float32)).tolist()
[-inf, 0.0, -inf]
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from state_machines.errors import InvalidArgumentError
from state_machines.processors.arguments import (
    EndTokens,
    machine_of,
    vocabulary_of,
)
from state_machines.processors.row_masks import Mask, MaskCopies, RowMasks

_Scores = TypeVar("_Scores", bound=npt.NDArray[np.floating[Any]])


def logits_processor(
    output: object,
    tokenizer: object,
    *,
    max_tokens: int | None = None,
    end_token_ids: EndTokens = None,
) -> LogitsProcessor:
    """Return a logits processor that allows only the texts of an output.

    Args:
        output: A state machine, a JSON Schema, a pydantic model or a ``pydantic.TypeAdapter``.
        tokenizer: A ``llama_cpp.Llama``, a tokenizer that :meth:`Vocabulary.from_tokenizer` reads,
            or a vocabulary.
        max_tokens: Number of tokens within which the text is complete, end tokens not counted. Give
            the loop's own limit; ``None``: texts are not limited.
        end_token_ids: Replaces the tokenizer's end tokens; they must end the loop.

    Raises:
        InvalidArgumentError: ``output`` is of no accepted kind; or the ``Llama`` has a draft model,
            whose tokens llama-cpp-python shows to processors before they are accepted.
        SchemaError: The schema is invalid, unsatisfiable, or would not be enforced.
        MaxTokensTooSmallError: No text fits into ``max_tokens``.
        VocabularyError: The tokenizer is not supported.
    """
    if getattr(tokenizer, "draft_model", None) is not None:
        raise InvalidArgumentError(
            "logits processors do not work with a draft model of llama-cpp-python",
            argument="tokenizer",
            hint="Create the Llama without draft_model",
        )
    vocabulary = vocabulary_of(tokenizer, end_token_ids)
    return LogitsProcessor(machine_of(output), vocabulary, max_tokens)


class LogitsProcessor(RowMasks):
    """A function from token ids and logits to logits, in NumPy. Not thread-safe."""

    def __call__(self, input_ids: npt.NDArray[np.integer[Any]], scores: _Scores) -> _Scores:
        """Return the logits; forbidden tokens have minus infinity.

        After an error, ``scores`` allow end tokens only: llama-cpp-python prints an exception of a
        processor and samples from the logits that it has passed.

        Args:
            input_ids: All tokens of each row, the prompt included: shape (rows, tokens), or
                (tokens,) for one row.
            scores: The logits: shape (rows, width), or (width,).

        Raises:
            TokenRejectedError: The loop has taken a token that was forbidden.
            GrammarBudgetError: A mask takes too much work, and there is no ``max_tokens``.
            VocabularyError: The logits are narrower than the vocabulary.
        """
        try:
            width = scores.shape[-1]
            copies: MaskCopies[Mask] = MaskCopies.shared(self.vocabulary, "numpy", np.asarray)
            masks = self.masks(np.atleast_2d(input_ids))
            allowed = np.stack([copies.of(mask, width) for mask in masks])
            result: _Scores = np.full_like(scores, -np.inf)
            np.copyto(result, scores, where=allowed.reshape(scores.shape))
        except Exception:
            if scores.flags.writeable:
                scores[...] = -np.inf
                ends = [i for i in self.vocabulary.end_token_ids if i < scores.shape[-1]]
                scores[..., ends] = 0
            raise
        return result
