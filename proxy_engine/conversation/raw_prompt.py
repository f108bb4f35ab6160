"""A prompt that is no conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import PromptError

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

__all__ = ["RawPrompt"]


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """Text or token ids that the model goes on with, through no chat template.

    Text is what a tokenizer makes of it, with the token that begins texts where it has one.
    """

    content: str | Sequence[int]

    def token_ids(self, tokenizer: TokenizerWrapper, vocabulary_size: int) -> list[int]:
        """Return the ids that the model reads. Raises ``PromptError``."""
        if isinstance(self.content, str):
            ids = [int(token_id) for token_id in tokenizer.encode(self.content)]
        else:
            ids = list(self.content)
            for token_id in ids:
                if not isinstance(token_id, int) or not 0 <= token_id < vocabulary_size:
                    raise PromptError(
                        f"{token_id!r} is no token; the model has {vocabulary_size} of them"
                    )
        if not ids:
            raise PromptError("the prompt is empty")
        return ids
