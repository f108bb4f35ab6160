"""The interface of a tokenizer that continues a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Retokenize(Protocol):
    """Tokenizes text as it is tokenized behind other tokens."""

    def retokenize(
        self, context: Sequence[int], text: bytes, following: str = ""
    ) -> Sequence[int] | None:
        """Return the tokens of a text behind other tokens.

        Args:
            context: The tokens before the text.
            text: The text. Special tokens have the form of the vocabulary.
            following: Characters that may follow. Final tokens that could merge with one of them
                are left out.

        Returns:
            The leading tokens of the text; ``None`` if they would change the tokens before it.
        """
