"""The interface of a drafter: it proposes tokens that the model then verifies in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from state_machines import Matcher


class Drafter(Protocol):
    """Proposes the next tokens of one sequence from its tokens and the state of its grammar.

    A proposal is a function of the past: it uses no random numbers. The loop ends it where the
    grammar refuses a token, so a drafter need not know the grammar.

    Attributes:
        name: Names the drafter.
        source: Names its last proposal in acceptance rates: the drafter, or a kind of proposals.
    """

    name: str
    source: str

    def update(self, tokens: Sequence[int]) -> None:
        """Take the tokens of prompt and answer so far.

        Called before each draft, with tokens that begin with those of the last call.
        """

    def propose(
        self, tokens: Sequence[int], matcher: Matcher | None, at_most: int
    ) -> Sequence[int]:
        """Return tokens that may follow.

        Args:
            tokens: Those of the last :meth:`update`, then the draft so far.
            matcher: The grammar's state behind ``tokens``; ``None`` for unconstrained text.
            at_most: Maximum number of tokens to propose.
        """

    def expects_draft(self, matcher: Matcher | None) -> bool:
        """Whether a draft is likely once the next token is known.

        Args:
            matcher: The grammar's state before that token.
        """
