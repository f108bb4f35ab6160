"""The draft of one sequence: tokens that it may take next, and the constraint behind each of them.

The next forward pass processes the draft behind the pending tokens and yields logits for all of its
positions. The constraints of the draft give the masks of these positions; they are thrown away
after verification. The sequence itself advances over accepted tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from state_machines import Matcher
from state_machines.errors import GrammarBudgetError, TokenRejectedError

from ..constraint import Constraint
from ..forward_pass import NextLogits
from ..sampling import Proposal
from ..sequence_samplers import RandomState


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


MAX_TOKENS_PER_STEP = 8
"""Tokens of a draft, forced ones included, for each token that may be proposed."""


@dataclass(frozen=True, slots=True)
class DraftStep:
    """A proposed token.

    Attributes:
        token_id: The token.
        source: The drafter that proposed it.
        part: The part of the answer that it belongs to.
        forced: Forced tokens that follow it.
        end: Tokens of the draft up to here, the forced ones included.
        constraint: The constraint behind these tokens.
        log_q: The distribution that the token was drawn from, as log-probabilities: float32, shape
            (vocabulary,). ``None``: the token is a function of the past and the random key.
    """

    token_id: int
    source: str
    part: str
    forced: Sequence[int]
    end: int
    constraint: Constraint
    log_q: mx.array | None = None

    @property
    def tokens(self) -> list[int]:
        """The proposed token, and the forced tokens behind it."""
        return [self.token_id, *self.forced]

    @property
    def proposal(self) -> Proposal:
        """The token and its distribution."""
        return Proposal(self.token_id, self.log_q)


class Draft:
    """A draft that is extended token by token.

    Args:
        text: The tokens of the sequence.
        constraint: Its constraint, which is not changed.
        width: Size of the vocabulary.
        ends_before_choice: Whether the draft ends before a finite choice, which is to be scored.

    Attributes:
        steps: The proposed tokens.
        text: The tokens of the sequence, and those of the draft.
        generated: Tokens that the sequence has generated before the draft.
        at_most: Maximum number of steps.
        logits: Logits behind each proposed token, once the pass over the draft is dispatched.
        random_states: The random states of the sequence before the first position that is sampled,
            and behind each of them.
        accepted: Number of proposed tokens that are accepted.
        judged: Number of proposed tokens that are verified.
        unused: A token that was drawn for the position behind the draft, and is not part of it. The
            position is verified against it nevertheless: if only some of the drawn tokens were
            verified, those would be more likely in the output than in the target distribution.
    """

    def __init__(
        self, text: Sequence[int], constraint: Constraint, width: int, *, ends_before_choice: bool
    ) -> None:
        self.steps: list[DraftStep] = []
        self.text = list(text)
        self.generated = constraint.generated
        self.at_most = 0
        self.logits: list[NextLogits] = []
        self.random_states: list[RandomState] = []
        self.accepted = 0
        self.judged = 0
        self.unused: Proposal | None = None
        self._start = len(self.text)
        self._constraint = constraint
        self._width = width
        self._ends_before_choice = ends_before_choice
        self._is_closed = constraint.is_scripted or self._has_choice(constraint)

    @property
    def tokens(self) -> list[int]:
        """All tokens of the draft, proposed and forced."""
        return self.text[self._start :]

    @property
    def constraint(self) -> Constraint:
        """The constraint behind the draft so far."""
        return self.steps[-1].constraint if self.steps else self._constraint

    @property
    def is_closed(self) -> bool:
        """Whether no token can be appended: the end is reached, or a choice is to be scored."""
        return self._is_closed or len(self.steps) >= self.at_most

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to verify."""
        return not self.steps and self.unused is None

    @property
    def proposals(self) -> list[Proposal | None]:
        """The proposed token of each position that is sampled: of the steps, and behind them."""
        behind = [] if self._is_closed else [self.unused]
        return [*(step.proposal for step in self.steps), *behind]

    def text_behind(self, step: DraftStep) -> list[int]:
        """Return the tokens of the sequence and of the draft, up to a step."""
        return self.text[: self._start + step.end]

    def append(self, token_id: int, source: str, log_q: mx.array | None = None) -> bool:
        """Append a proposed token and the tokens that it forces.

        Args:
            token_id: The token.
            source: The drafter.
            log_q: See :class:`DraftStep`.

        Returns:
            Whether the token is appended. Tokens that the grammar or the guard refuses are not, and
            neither is the last token of the answer, which the model need not process.
        """
        if self._is_closed or self.unused is not None:
            return False
        if log_q is not None:
            self.unused = Proposal(token_id, log_q)
        following = self._following(token_id)
        if following is None:
            return False
        constraint, forced = following
        # Before the step is appended: a limit on work may leave this function here.
        is_closed = self._has_choice(constraint)
        part = self.constraint.part_name
        self.text += [token_id, *forced]
        end = len(self.text) - self._start
        self.steps.append(DraftStep(token_id, source, part, forced, end, constraint, log_q))
        self._is_closed = is_closed
        self.unused = None
        return True

    def cut(self, tokens: int) -> None:
        """Keep the steps that fit into a number of tokens."""
        while self.steps and self.steps[-1].end > tokens:
            step = self.steps.pop()
            self.unused = None if step.log_q is None else step.proposal
            del self.text[len(self.text) - len(step.tokens) :]
            self._is_closed = False

    def _has_choice(self, constraint: Constraint) -> bool:
        return self._ends_before_choice and constraint.has_choice

    def _following(self, token_id: int) -> tuple[Constraint, list[int]] | None:
        """Return the constraint behind a proposed token, and the forced tokens that follow it.

        Returns:
            ``None`` if the token is refused, or the sequence ends.
        """
        constraint = self.constraint
        if token_id in constraint.end_token_ids or not 0 <= token_id < self._width:
            return None
        constraint = constraint.draft()
        # The limits of a token are set before its mask is computed.
        constraint.begin_token()
        if not constraint.accepts(token_id):
            return None
        text, forced = [*self.text, token_id], []
        try:
            end = constraint.advance(token_id, has_alternatives=True)
            if end is None:
                for forced_id in constraint.forced_tokens(text):
                    end = constraint.advance(forced_id, has_alternatives=False)
                    text.append(forced_id)
                    forced.append(forced_id)
                    if end is not None:
                        break
        except (GrammarBudgetError, TokenRejectedError):
            return None
        return None if end is not None else (constraint, forced)
