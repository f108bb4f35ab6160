"""Draw finite choices from their exact distribution.

Token by token, a mask samples the beginning of an option by the probability of this beginning,
whatever must follow it: an option with a likely beginning and an unlikely rest is chosen too often
(Park et al., "Grammar-Aligned Decoding", NeurIPS 2024). Here all options are scored before the
first of their tokens is chosen, one of them is drawn, and the grammar is restricted to it. Its
text is then forced, and the loop continues as after any other forced text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module

from samplers import Sampler
from state_machines import Matcher, Vocabulary
from state_machines.budgets import step_budget
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.finite_choices import ChoiceOption, finite_choice
from state_machines.grammar.rule_options import same_temperature

from ..prompt_cache.layers import max_scorable_length
from ..results.parts import ScoredChoice, ScoredOption
from .batch_rows import BatchRows
from .choice_scores import Candidate, ChoiceScorer, ChoiceScores
from .forward_pass import position_arguments
from .sampling import Token
from .sequence import GeneratedSequence

_MASK_STEPS = 5_000
"""Step budget of the masks behind the options, about 25 ms."""

_TEMPERATURE_STEPS = 20_000
"""Step budget of the temperatures of the options, about 0.1 s."""


def draw_choice(
    sequence: GeneratedSequence, rows: BatchRows[GeneratedSequence], model: Module
) -> list[Token]:
    """Draw the choice that a sequence has reached, and restrict its grammar to the option.

    A choice that cannot be scored, because of its masks or the kind of cache, is left to be
    sampled token by token, and counted. To be called on the model thread.

    Args:
        sequence: A sequence at a choice.
        rows: The sequences with their cache, which is not changed.
        model: The model.

    Returns:
        The tokens that were appended; none if the first one depends on what follows the option, and
        is sampled.
    """
    # Work that exceeds its budget the first time may not do so again.
    if sequence.unscorable_at == len(sequence.tokens):
        return []
    choice = ReachedChoice.at(sequence)
    if choice is not None:
        count = len(choice.options)
        noise = np.array(choice.sampler.option_noise(count + len(choice.left_out)), np.float64)
        if choice.left_out and not sequence.constraint.is_limited:
            every = choice.without_limit(sequence)
            scores = None if every is None else every.scores(sequence, rows, model, noise)
            if every is not None and scores is not None:
                number = int(np.argmax(every.logprobs(scores) + noise))
                if number >= count:
                    sequence.constraint.refuse_option(every.options[number])
        scores = choice.scores(sequence, rows, model, noise[:count])
        if scores is not None:
            return choice.draw(sequence, scores, noise[:count])
    sequence.unscorable_at = len(sequence.tokens)
    sequence.inexact_choice_tokens += 1
    return []


@dataclass(frozen=True, slots=True)
class ReachedChoice:
    """A finite choice that a sequence has reached.

    Attributes:
        options: The options that fit into the token budget.
        candidates: Their tokens, and the masks behind them.
        sampler: Chooses among them.
        left_out: The options that do not fit.
    """

    options: Sequence[ChoiceOption]
    candidates: Sequence[Candidate]
    sampler: Sampler
    left_out: Sequence[ChoiceOption] = ()

    @classmethod
    def at(cls, sequence: GeneratedSequence) -> ReachedChoice | None:
        """Return the choice that a sequence has reached.

        Returns:
            ``None`` if there is no choice, its options have several temperatures, or a mask behind
            them takes too long.
        """
        constraint = sequence.constraint
        constraint.begin_token()
        grammar, sampler = constraint.grammar, sequence.samplers.sampler(constraint)
        if grammar is None or not isinstance(sampler, Sampler):
            return None
        matcher = grammar.matcher
        found = finite_choice(matcher.state) or ()
        options: list[ChoiceOption] = []
        left_out: list[ChoiceOption] = []
        for option in found:
            (options if grammar.guard.fits(option.state) else left_out).append(option)
        if not options or not _has_one_temperature(matcher, found):
            return None
        candidates = _candidates(options, sequence)
        return None if candidates is None else cls(options, candidates, sampler, left_out)

    def without_limit(self, sequence: GeneratedSequence) -> ReachedChoice | None:
        """Return the choice among all options, first the options that fit.

        ``None`` if a mask takes too long.
        """
        more = _candidates(self.left_out, sequence)
        if more is None:
            return None
        options, candidates = [*self.options, *self.left_out], [*self.candidates, *more]
        return ReachedChoice(options, candidates, self.sampler)

    def scores(
        self,
        sequence: GeneratedSequence,
        rows: BatchRows[GeneratedSequence],
        model: Module,
        noise: npt.NDArray[np.float64],
    ) -> ChoiceScores | None:
        """Score the options; ``None`` if the cache does not allow it, or none can be drawn."""
        if len(self.options) == 1:
            return ChoiceScores(*np.zeros((2, 1)))
        longest = max(len(candidate.tokens) for candidate in self.candidates)
        if sequence.processed + longest > max_scorable_length(rows.cache):
            return None
        sampler = self.sampler
        has_penalties = sampler.parameters.has_penalties

        def temper(logits: mx.array, behind: Sequence[int]) -> mx.array:
            before = [*sequence.tokens, *behind] if has_penalties else ()
            return sampler.scaled_logits(logits, before, prompt_tokens=sequence.prompt_tokens)

        scorer = ChoiceScorer(
            model,
            sequence.masks,
            temper,
            depends_on_tokens=has_penalties,
            arguments=position_arguments([sequence.rope_delta]),
        )
        with sequence.timings.during("dispatch"):
            scores = scorer.scores(
                self.candidates,
                rows.prefix(sequence),
                sequence.next_logits.all(),
                None if sampler.parameters.has_filters else noise,
            )
        return scores if np.isfinite(scores.log_scores).any() else None

    def logprobs(self, scores: ChoiceScores) -> npt.NDArray[np.float64]:
        """Return the log-probabilities by which options are drawn, shape (options,).

        Args:
            scores: The scores of the options; at least one is finite.
        """
        logprobs = np.asarray(scores.log_scores - np.logaddexp.reduce(scores.log_estimates))
        if self.sampler.parameters.has_filters:
            filtered = self.sampler.filtered_options(mx.array(logprobs.astype(np.float32)))
            logprobs = np.array(filtered, np.float64)
        return logprobs

    def draw(
        self,
        sequence: GeneratedSequence,
        scores: ChoiceScores,
        noise: npt.NDArray[np.float64],
    ) -> list[Token]:
        """Draw an option, restrict the grammar to it, and append the tokens that this forces.

        If every token is to be sampled, nothing is appended.

        Args:
            sequence: The sequence.
            scores: The scores of the options; at least one is finite.
            noise: The sampler's noise, shape (options,); 0 for greedy requests.
        """
        logprobs = self.logprobs(scores)
        number = int(np.argmax(logprobs + noise))
        option, tokens = self.options[number], self.candidates[number].tokens
        shown = np.exp(scores.log_estimates - np.logaddexp.reduce(scores.log_estimates))
        constraint = sequence.constraint
        sequence.scored_choices.append(
            _record(
                self.options, shown.tolist(), option, constraint.written, constraint.forced_text
            )
        )
        constraint.restrict(option.state, tokens)
        return sequence.advance_forced()


def _candidates(
    options: Sequence[ChoiceOption], sequence: GeneratedSequence
) -> list[Candidate] | None:
    """Return the options as tokens; ``None`` if a mask behind them takes too long."""
    matcher, tokenize = sequence.constraint.matcher, sequence.choices
    if matcher is None or tokenize is None:
        return None
    vocabulary = matcher.vocabulary
    candidates = []
    try:
        with step_budget(_MASK_STEPS):
            for option in options:
                behind = Matcher(option.state, vocabulary)
                tokens = tokenize.tokens(behind, sequence.tokens)
                text = b"".join(vocabulary.token_bytes[token_id] or b"" for token_id in tokens)
                behind.restrict(option.state.word_derivative(text))
                candidates.append(Candidate(tokens, behind.allowed_tokens()))
    except GrammarBudgetError:
        return None
    return candidates


def _has_one_temperature(matcher: Matcher, options: Sequence[ChoiceOption]) -> bool:
    """Whether all options can be drawn at the temperature of their first token."""
    if not matcher.temperatures:
        return True
    try:
        with step_budget(_TEMPERATURE_STEPS):
            return all(same_temperature(matcher.state, option.text) for option in options)
    except GrammarBudgetError:
        return False


def _record(
    options: Sequence[ChoiceOption],
    probabilities: Sequence[float],
    chosen: ChoiceOption,
    offset: int,
    forced: bytes,
) -> ScoredChoice:
    """Return the record of a choice; options that differ in whitespace before them are one."""
    by_label: dict[str, float] = {}
    for option, probability in zip(options, probabilities, strict=True):
        label = _label(option, forced)[1]
        by_label[label] = by_label.get(label, 0.0) + probability
    ordered = sorted(by_label.items(), key=lambda item: -item[1])
    scored = tuple(ScoredOption(text, min(1.0, probability)) for text, probability in ordered)
    before, label = _label(chosen, forced)
    return ScoredChoice(
        offset - len(forced) + before,
        scored,
        next(choice for choice in scored if choice.text == label),
        # What precedes the label in the option's own text belongs to the choice.
        forced_bytes=before,
    )


def _label(option: ChoiceOption, forced: bytes) -> tuple[int, str]:
    """Return the length of the text before an option's label, ``forced`` included, and the label.

    The opening quote of a string belongs to the label, even if it was forced before.
    """
    before = forced + option.text[: option.start].replace(Vocabulary.SPECIAL_MARK, b"")
    label = option.label.replace(Vocabulary.SPECIAL_MARK, b"")
    is_rest = label.endswith(b'"') and (label == b'"' or not label.startswith(b'"'))
    if is_rest and before.endswith(b'"'):
        before, label = before[:-1], b'"' + label
    # A state can begin within a character.
    return len(before), label.decode("utf-8", "replace")
