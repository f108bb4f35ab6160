"""The draft of one sequence: tokens that it may take next, and the state after each of them.

The next forward pass processes the draft behind the pending tokens and yields logits for all of its
positions. The states of the draft give the masks and samplers of these positions; they are thrown
away after verification. The sequence itself advances over accepted tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from state_machines import Matcher

from ..forward_pass import NextLogits
from ..sampling import Proposal
from ..sequence import GeneratedSequence
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
        state: The sequence behind these tokens.
        log_q: The distribution that the token was drawn from, as log-probabilities: float32, shape
            (vocabulary,). ``None``: the token is a function of the past and the random key.
    """

    token_id: int
    source: str
    part: str
    forced: tuple[int, ...]
    state: GeneratedSequence
    log_q: mx.array | None = None

    @property
    def proposal(self) -> Proposal:
        """The token and its distribution."""
        return Proposal(self.token_id, self.log_q)


class Draft:
    """A draft that is extended token by token.

    Args:
        sequence: The sequence, which is not changed. Its random keys are shared with the states of
            the draft.

    Attributes:
        steps: The proposed tokens.
        tokens: All tokens of the draft: proposed and forced ones.
        logits: Logits behind each proposed token, once the pass over the draft is dispatched.
        sequence: The sequence.
        random_states: The random states of the sequence before the first position that is sampled,
            and behind each of them.
        accepted: Number of proposed tokens that are accepted.
        judged: Number of proposed tokens that are verified.
        unused: A token that was drawn for the position behind the draft, and is not part of it. The
            position is verified against it nevertheless: if only some of the drawn tokens were
            verified, those would be more likely in the output than in the target distribution.
    """

    def __init__(self, sequence: GeneratedSequence) -> None:
        self.steps: list[DraftStep] = []
        self.tokens: list[int] = []
        self.logits: list[NextLogits] = []
        self.sequence = sequence
        self.random_states: list[RandomState] = []
        self.accepted = 0
        self.judged = 0
        self.unused: Proposal | None = None
        self._is_closed = (
            sequence.finished or sequence.constraint.is_scripted or sequence.has_choice
        )

    @property
    def state(self) -> GeneratedSequence:
        """The sequence behind the draft so far."""
        return self.steps[-1].state if self.steps else self.sequence

    @property
    def is_closed(self) -> bool:
        """Whether no token can be appended: the end is reached, or a choice is to be scored."""
        return self._is_closed

    @property
    def is_empty(self) -> bool:
        """Whether verification would be that of a sequence without a draft."""
        return not self.steps and self.unused is None

    @property
    def proposals(self) -> list[Proposal | None]:
        """The proposed token of each position that is sampled: of the steps, and behind them."""
        behind = [] if self._is_closed else [self.unused]
        return [*(step.proposal for step in self.steps), *behind]

    @property
    def positions(self) -> list[int]:
        """The index in :attr:`tokens` of the last token before each position but the first."""
        ends = []
        end = -1
        for step in self.steps:
            end += 1 + len(step.forced)
            ends.append(end)
        return ends

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
        before = self.state
        advanced = before.after_proposed(token_id)
        if advanced is None or advanced[0].finished:
            return False
        state, forced = advanced
        # Before the step is appended: a limit on work may leave this function here.
        is_closed = state.has_choice
        self.steps.append(
            DraftStep(token_id, source, before.constraint.part_name, forced, state, log_q)
        )
        self.tokens += [token_id, *forced]
        self._is_closed = is_closed
        self.unused = None
        return True

    def cut(self, tokens: int) -> None:
        """Keep the steps that fit into a number of tokens."""
        ends = self.positions
        while ends and ends[-1] >= tokens:
            step = self.steps.pop()
            self.unused = None if step.log_q is None else step.proposal
            del self.tokens[len(self.tokens) - 1 - len(step.forced) :]
            ends.pop()
            self._is_closed = False
