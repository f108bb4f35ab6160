"""Logits processors for transformers, and for other loops on torch tensors.

Masks are copied to the device of the logits once, and found there when they recur.
"""

from __future__ import annotations

import torch

from state_machines.processors.arguments import EndTokens, machine_of, vocabulary_of
from state_machines.processors.row_masks import Mask, MaskCopies, RowMasks
from state_machines.vocabulary import Vocabulary


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
        tokenizer: A fast transformers tokenizer, or another one that
            :meth:`Vocabulary.from_tokenizer` reads, or a vocabulary.
        max_tokens: Number of tokens within which the text is complete, end tokens not counted. Give
            the value of ``max_new_tokens``; ``None``: texts are not limited.
        end_token_ids: Replaces the tokenizer's end tokens. Give
            ``model.generation_config.eos_token_id`` if it differs from the tokenizer's.

    Raises:
        InvalidArgumentError: ``output`` is of no accepted kind.
        SchemaError: The schema is invalid, unsatisfiable, or would not be enforced.
        MaxTokensTooSmallError: No text fits into ``max_tokens``.
        VocabularyError: The tokenizer is not supported.
    """
    vocabulary = vocabulary_of(tokenizer, end_token_ids)
    return LogitsProcessor(machine_of(output), vocabulary, max_tokens)


class LogitsProcessor(RowMasks):
    """The protocol of ``transformers.LogitsProcessor``. Not thread-safe."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits; forbidden tokens have minus infinity.

        Args:
            input_ids: All tokens of each row, prompt and padding included: int64, shape
                (rows, tokens).
            scores: The logits: float, shape (rows, width).

        Raises:
            TokenRejectedError: The loop has taken forbidden tokens in all rows.
            GrammarBudgetError: A mask takes too much work, and there is no ``max_tokens``.
            VocabularyError: The logits are narrower than the vocabulary.
        """
        masks = self.masks(input_ids.cpu().numpy())
        copies = _copies(self.vocabulary, scores.device)
        width = scores.shape[-1]
        if all(mask is masks[0] for mask in masks):
            forbidden = copies.of(masks[0], width)
        else:
            forbidden = torch.stack([copies.of(mask, width) for mask in masks])
        return scores.masked_fill(forbidden, -torch.inf)


def _copies(vocabulary: Vocabulary, device: torch.device) -> MaskCopies[torch.Tensor]:
    def forbidden(mask: Mask) -> torch.Tensor:
        tensor = torch.from_numpy(~mask)
        if device.type == "cuda":
            # Only a copy from pinned memory does not block.
            return tensor.pin_memory().to(device, non_blocking=True)
        return tensor.to(device)

    return MaskCopies.shared(vocabulary, ("torch", device), forbidden)
