"""Structured lookup: propose the rest of a value that stands in the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from state_machines import Matcher, Vocabulary

from .retokenize import Retokenize


class ValueLookup:
    """Proposes the rest of a value that is copied from the prompt.

    Args:
        prompt_ids: The prompt.
        vocabulary: The tokens.
        retokenize: Tokenizes the proposed text.
    """

    name = "value_lookup"

    def __init__(
        self, prompt_ids: Sequence[int], vocabulary: Vocabulary, retokenize: Retokenize
    ) -> None:
        self._prompt_ids = prompt_ids
        self._vocabulary = vocabulary
        self._retokenize = retokenize

    def update(self, tokens: Sequence[int]) -> None:
        """Take the tokens so far."""

    def propose(
        self, tokens: Sequence[int], matcher: Matcher | None, at_most: int
    ) -> Sequence[int]:
        """Return the tokens of the rest of the value, and of its end."""
        return ()

    def expects_draft(self, matcher: Matcher | None) -> bool:
        """Whether the next token is likely to be followed by one of a copied value."""
        return False
