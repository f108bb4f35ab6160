"""One step of one sequence: tokens are sampled behind a forward pass, read and verified.

Without a draft, that is one token. With a draft, a token is sampled at every position of it, each
from the target distribution given the draft so far. A proposed token is accepted if the same token
is sampled, and the first other token ends the verification. This is the rule of Leviathan et al.
(2023, "Fast Inference from Transformers via Speculative Decoding") where a proposal is a function
of the past: q is 1 for the proposed token, so it is accepted with probability p, and the residual
distribution is p without it. For a proposal that was drawn from a distribution q,
:meth:`samplers.Sampler.verify` samples a token that equals the proposed one exactly if it is
accepted. So the tokens have the distribution that they have without drafts, and for a proposal
without q they are the same tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import cast

from samplers import Sampler
from state_machines.budgets import step_limit
from state_machines.errors import GrammarBudgetError

from .restrictions import MASK_STEPS, SlowMaskError
from .sampling import NextToken, Token, sample_tokens
from .sequence import GeneratedSequence, Status
from .speculation.drafts import Draft


def perform(
    sequences: Iterable[GeneratedSequence], phase: Callable[[GeneratedSequence], object]
) -> list[GeneratedSequence]:
    """Perform a phase of a step for several sequences. An error fails its sequence alone.

    A sequence whose mask exceeds the step budget of the model thread is ``WAITING`` afterwards. It
    has to leave the batch until :meth:`Constraint.compute_slow` has returned.

    Returns:
        The sequences whose phase has succeeded.
    """
    going = []
    for sequence in sequences:
        try:
            phase(sequence)
            going.append(sequence)
        except SlowMaskError:
            sequence.status = Status.WAITING
        except Exception as error:
            sequence.fail(error)
    return going


def prepare(sequence: GeneratedSequence) -> None:
    """Compute the mask of the next token, unless the token is drawn already.

    Raises:
        SlowMaskError: It takes too long.
    """
    ahead, sequence.drawn_ahead = sequence.drawn_ahead, None
    if ahead is not None:
        sequence.sampled = [ahead]
        return
    sequence.sampled = []
    if sequence.is_free:
        # Nothing is computed that would be worth measuring.
        sequence.prepare()
        return
    started = time.perf_counter()
    sequence.prepare()
    sequence.timings.add("mask", started, time.perf_counter())


def sample(sequence: GeneratedSequence) -> None:
    """Sample the next token."""
    started = time.perf_counter()
    sequence.sampled = [sequence.sample(sequence.next_logits)]
    sequence.timings.add("sample", started, time.perf_counter())


def sample_rows(sequences: Sequence[GeneratedSequence]) -> list[GeneratedSequence]:
    """Sample the next tokens of sequences with equal samplers all at once.

    Where some of them need the logits of all tokens, these are computed for all rows.

    Returns:
        The other sequences.
    """
    groups: dict[object, list[GeneratedSequence]] = {}
    for sequence in sequences:
        groups.setdefault(sequence.row_parameters, []).append(sequence)
    alone = groups.pop(None, [])
    for group in groups.values():
        if len(group) == 1 or all(sequence.reads_few_logits for sequence in group):
            alone += group
            continue
        started = time.perf_counter()
        for sequence, token in zip(group, sample_together(group), strict=True):
            sequence.sampled = [token]
        ended = time.perf_counter()
        for sequence in group:
            sequence.timings.add("sample", started, ended)
    return alone


def sample_together(sequences: Sequence[GeneratedSequence]) -> list[NextToken]:
    """Sample the next tokens of sequences with equal ``row_parameters`` all at once."""
    return sample_tokens(
        [cast(Sampler, sequence.sampler) for sequence in sequences],
        [sequence.mask for sequence in sequences],
        [sequence.next_logits for sequence in sequences],
    )


def sample_draft(sequence: GeneratedSequence) -> None:
    """Sample all positions of a draft whose pass is dispatched, if the sequence has one.

    The first position is that behind the pending tokens. Positions are sampled in order, so random
    keys are used as without a draft; those of positions that are not reached are given back.

    Raises:
        Exception: Sampling fails at any position.
    """
    draft, started = sequence.draft, time.perf_counter()
    if draft is None:
        return
    proposals = draft.proposals
    draft.random_states = [sequence.random_state]
    sequence.sampled = [sequence.sample(sequence.next_logits, proposals[0])]
    draft.random_states.append(sequence.random_state)
    # All later masks together have the budget of one. Positions with a slow mask, and those behind
    # them, are left out: they are sampled once the sequence has reached them.
    with suppress(GrammarBudgetError, SlowMaskError), step_limit(MASK_STEPS):
        for step, logits, proposed in zip(draft.steps, draft.logits, proposals[1:], strict=False):
            sequence.prepare(step.constraint)
            sequence.sampled.append(sequence.sample(logits, proposed, draft.text_behind(step)))
            draft.random_states.append(sequence.random_state)
    sequence.timings.add("sample", started, time.perf_counter())


def commit(sequence: GeneratedSequence) -> None:
    """Take the accepted tokens of a draft, the sampled one behind them, and forced tokens.

    They are added to ``sequence.output``.

    Args:
        sequence: A sequence whose ``sampled`` tokens are read. The number of accepted and verified
            tokens of its draft is set.

    Raises:
        GrammarBudgetError: The state after a token exceeds the step budget.
        InvalidOptionError: A sampler of the caller has returned an invalid token.
        SlowMaskError: The sampled token is not accepted, and the mask of the others takes too long.
    """
    sequence.check(sequence.sampled[0])
    draft = sequence.draft
    if sequence.is_free and draft is None:
        sequence.output.append(sequence.advance(sequence.sampled[0]))
        return
    _redraw_refused(sequence)
    started = time.perf_counter()
    tokens = [sequence.advance(sequence.sampled[0])]
    tokens += sequence.advance_forced()
    if draft is not None:
        _advance_over(sequence, draft, tokens)
    sequence.output += tokens
    sequence.timings.add("advance", started, time.perf_counter())


def _redraw_refused(sequence: GeneratedSequence) -> None:
    """Sample the first position again if the sequence does not accept its token.

    The text could not be completed within the limit after it. The second mask may have a token that
    the sequence refuses as well, where the search for its completion gives up earlier than that for
    the mask. Then the completion plan has the token.
    """
    constraint, draft, refused = sequence.constraint, sequence.draft, sequence.sampled[0]
    if constraint.accepts(refused.token_id):
        return
    constraint.refuse(refused.token_id)
    if draft is not None:
        sequence.random_state = draft.random_states[1]
    token = _sampled_at_once(sequence, refused)
    sequence.check(token)
    if not constraint.accepts(token.token_id):
        constraint.follow_plan()
        token = _sampled_at_once(sequence, refused)
    sequence.sampled = [token]
    if draft is not None:
        draft.random_states[1:] = [sequence.random_state]


def _sampled_at_once(sequence: GeneratedSequence, refused: NextToken) -> NextToken:
    """Sample a token in place of a refused one, and read it."""
    sequence.prepare()
    token = sequence.sample(refused.logits)
    NextToken.read([token])
    return token


def _advance_over(sequence: GeneratedSequence, draft: Draft, tokens: list[Token]) -> None:
    """Advance over the accepted tokens of a draft. ``tokens`` begins with the first one."""
    sampled, states = sequence.sampled, draft.random_states
    proposed = 0
    while _is_accepted(sequence, draft):
        draft.accepted += 1
        tokens[proposed] = tokens[proposed]._replace(is_drafted=True)
        proposed = len(tokens)
        if sequence.finished or draft.accepted == len(sampled):
            break
        number = draft.accepted
        sequence.constraint.begin_token()
        if not sequence.constraint.accepts(sampled[number].token_id):
            # It is sampled once the sequence has reached it, and refused there.
            del sampled[number:], states[number + 1 :]
            break
        tokens.append(sequence.advance(sampled[number]))
        tokens += sequence.advance_forced()
    sequence.random_state = states[min(draft.accepted + 1, len(states) - 1)]
    # Slow masks end a verification early.
    draft.judged = min(len(sampled), len(draft.steps))


def _is_accepted(sequence: GeneratedSequence, draft: Draft) -> bool:
    """Whether the token of the current position is the proposed one, and all before it."""
    number = draft.accepted
    if number == len(draft.steps):
        return False
    if sequence.sampled[number].token_id != draft.steps[number].token_id:
        return False
    # The forced tokens behind it have to be those of the draft, too, but for an end token.
    pending = sequence.pending
    length = draft.steps[number].end
    is_whole = len(pending) == length or sequence.finished
    return is_whole and pending[:length] == draft.tokens[:length]
