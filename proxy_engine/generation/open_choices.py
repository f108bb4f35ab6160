"""The finite choice that a sequence has reached: its options as tokens, and the one drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from samplers import Sampler
from state_machines import Matcher, Vocabulary
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.finite_choices import ChoiceOption, finite_choice
from state_machines.grammar.temperatures import same_temperature

from ..results.parts import ScoredChoice, ScoredOption
from .choice_scores import Candidate, ChoiceScores
from .fast_forward import FastForward

_MASK_STEPS = 5_000
"""Step budget of the masks behind the options, about 25 ms."""

_TEMPERATURE_STEPS = 20_000
"""Step budget of the temperatures of the options, about 0.1 s."""


@dataclass(frozen=True, slots=True)
class OpenChoice:
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
    def at(
        cls,
        guard: Guard,
        sampler: Sampler,
        tokenize: FastForward,
        generated: Sequence[int],
    ) -> OpenChoice | None:
        """Return the choice that a matcher has reached, with the options tokenized in context.

        Args:
            guard: Has the matcher, and refuses options that do not fit into the token budget.
            sampler: The sampler of the next token.
            tokenize: Tokenizes forced text.
            generated: The tokens so far.

        Returns:
            ``None`` if there is no choice, its options have several temperatures, or a mask behind
            them takes too long.
        """
        matcher = guard.matcher
        found = finite_choice(matcher.state) or ()
        options: list[ChoiceOption] = []
        left_out: list[ChoiceOption] = []
        for option in found:
            (options if guard.fits(option.state) else left_out).append(option)
        if not options or not _has_one_temperature(matcher, found):
            return None
        candidates = _candidates(options, matcher.vocabulary, tokenize, generated)
        return None if candidates is None else cls(options, candidates, sampler, left_out)

    def without_limit(
        self, vocabulary: Vocabulary, tokenize: FastForward, generated: Sequence[int]
    ) -> OpenChoice | None:
        """Return the choice among all options, first the options that fit.

        The arguments are those of :meth:`at`. ``None`` if a mask takes too long.
        """
        more = _candidates(self.left_out, vocabulary, tokenize, generated)
        if more is None:
            return None
        return replace(
            self, options=[*self.options, *self.left_out], candidates=[*self.candidates, *more]
        )


def _candidates(
    options: Sequence[ChoiceOption],
    vocabulary: Vocabulary,
    tokenize: FastForward,
    generated: Sequence[int],
) -> list[Candidate] | None:
    """Return the options as tokens; ``None`` if a mask behind them takes too long."""
    forms = vocabulary.token_bytes
    candidates = []
    try:
        with step_budget(_MASK_STEPS):
            for option in options:
                behind = Matcher(option.state, vocabulary)
                tokens = tokenize.tokens(behind, generated)
                text = b"".join(forms[token_id] or b"" for token_id in tokens)
                behind.narrow(option.state.word_derivative(text))
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
            return all(same_temperature(matcher.state, one.text) for one in options)
    except GrammarBudgetError:
        return False


@dataclass(frozen=True, slots=True)
class DrawnOption:
    """The option that was drawn.

    Attributes:
        number: Its number in the choice.
        option: The option.
        tokens: Its tokens, as far as they do not depend on what follows.
        log_proposal: Natural logarithm of the probability that it was drawn with: 0 if the most
            likely option was taken.
        log_score: Natural logarithm of its score; ``None`` for an only option, which has none.
        log_mass: The part of the score that belongs to the token behind ``tokens``.
        record: All options, for the result.
    """

    number: int
    option: ChoiceOption
    tokens: tuple[int, ...]
    log_proposal: float
    log_score: float | None
    log_mass: float
    record: ScoredChoice


def draw_option(
    choice: OpenChoice,
    scores: ChoiceScores,
    noise: npt.NDArray[np.float64],
    offset: int,
    forced: bytes = b"",
) -> DrawnOption:
    """Draw an option, or take the best one if the request is greedy.

    Args:
        choice: The choice.
        scores: The scores of its options; at least one is finite.
        noise: The sampler's noise, shape (options,).
        offset: Length of the output before the choice, in bytes.
        forced: The forced text at the end of the output before the choice.
    """
    sampler = choice.sampler
    logprobs = _logprobs(sampler, scores)
    number = int(np.argmax(logprobs + noise))
    log_proposal = 0.0 if sampler.parameters.temperature == 0 else float(logprobs[number])
    option = choice.options[number]
    shown = np.exp(scores.log_estimates - np.logaddexp.reduce(scores.log_estimates))
    return DrawnOption(
        number,
        option,
        choice.candidates[number].tokens,
        log_proposal,
        float(scores.log_scores[number]) if len(choice.options) > 1 else None,
        float(scores.log_masses[number]),
        _record(choice.options, shown.tolist(), option, offset, forced),
    )


def draws_left_out(
    choice: OpenChoice, scores: ChoiceScores, noise: npt.NDArray[np.float64]
) -> ChoiceOption | None:
    """Return the option that would be drawn if all of them fitted; ``None`` if it fits.

    Args:
        choice: The choice among all options.
        scores: The scores of all options; at least one is finite.
        noise: The sampler's noise, shape (options,).
    """
    number = int(np.argmax(_logprobs(choice.sampler, scores) + noise))
    first = len(choice.options) - len(choice.left_out)
    return None if number < first else choice.options[number]


def _logprobs(sampler: Sampler, scores: ChoiceScores) -> npt.NDArray[np.float64]:
    logprobs = np.asarray(scores.log_scores - np.logaddexp.reduce(scores.log_estimates))
    if sampler.has_filters:
        filtered = sampler.filtered_options(mx.array(logprobs.astype(np.float32)))
        logprobs = np.array(filtered, np.float64)
    return logprobs


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
        next(one for one in scored if one.text == label),
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
