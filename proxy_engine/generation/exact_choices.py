"""Draw finite choices from their exact distribution.

Token by token, a mask samples the beginning of an option by the probability of this beginning,
whatever must follow it: an option with a likely beginning and an unlikely rest is chosen too often
(Park et al., "Grammar-Aligned Decoding", NeurIPS 2024). Here all options are scored before the
first of their tokens is chosen, one of them is drawn, and the grammar is narrowed to it. Its
text is then forced, and the loop continues as after any other forced text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module

from ..prompt_cache.layers import max_scorable_length
from .choice_scores import ChoiceScorer, ChoiceScores
from .forward_pass import position_arguments
from .open_choices import OpenChoice, draw_option, draws_left_out
from .sequence import Sequence as GeneratedSequence
from .shared_prefix import prefix_layers
from .tokens import Token


class ExactChoices:
    """Draws the finite choices of the sequences of a batch. To be used on the model thread.

    Args:
        model: The model.
    """

    def __init__(self, model: Module) -> None:
        self._model = model

    def draw(self, sequence: GeneratedSequence, cache: Sequence[Any]) -> list[Token]:
        """Draw the choice that a sequence has reached, and narrow its grammar to the option.

        A choice that cannot be scored, because of its masks or the kind of cache, is left to be
        sampled token by token, and counted.

        Args:
            sequence: A sequence at a choice.
            cache: The cache of the batch.

        Returns:
            The tokens that were appended; none if the first one depends on what follows the option,
            and is sampled.
        """
        choice, constraint = sequence.open_choice(), sequence.constraint
        scores = None
        if choice is not None:
            count = len(choice.options)
            drawn_noise = choice.sampler.option_noise(count + len(choice.left_out))
            noise = np.array(drawn_noise, np.float64)
            if choice.left_out and not constraint.is_limited:
                self._draw_without_limit(sequence, choice, cache, noise)
            noise = noise[:count]
            scores = self._scores(choice, sequence, cache, noise)
        if choice is None or scores is None:
            sequence.inexact_choice_tokens += 1
            return []
        drawn = draw_option(choice, scores, noise, constraint.written, constraint.forced_text)
        return sequence.take_option(drawn)

    def _draw_without_limit(
        self,
        sequence: GeneratedSequence,
        choice: OpenChoice,
        cache: Sequence[Any],
        noise: npt.NDArray[np.float64],
    ) -> None:
        """Record the option that would be drawn if all of them fitted, if it does not fit."""
        every = sequence.choice_without_limit(choice)
        if every is None:
            return
        scores = self._scores(every, sequence, cache, noise)
        if scores is not None and (refused := draws_left_out(every, scores, noise)) is not None:
            sequence.constraint.refuse_option(refused)

    def _scores(
        self,
        choice: OpenChoice,
        sequence: GeneratedSequence,
        cache: Sequence[Any],
        noise: npt.NDArray[np.float64],
    ) -> ChoiceScores | None:
        if len(choice.options) == 1:
            return ChoiceScores(*np.zeros((3, 1)))
        longest = max(len(candidate.tokens) for candidate in choice.candidates)
        if sequence.processed + longest > max_scorable_length(cache):
            return None
        needs_all = choice.sampler.has_filters or sequence.weights is not None
        sampler = choice.sampler
        has_penalties = sampler.has_penalties

        def temper(logits: mx.array, behind: Sequence[int]) -> mx.array:
            before = [*sequence.tokens, *behind] if has_penalties else ()
            return sampler.scaled_logits(logits, before, prompt_tokens=sequence.prompt_tokens)

        scorer = ChoiceScorer(
            self._model,
            sequence.masks,
            temper,
            depends_on_tokens=has_penalties,
            arguments=position_arguments([sequence.rope_delta]),
        )
        layers = prefix_layers(cache, sequence.row, sequence.processed, sequence.uncommitted)
        if sequence.logits is None:
            raise AssertionError("the sequence has logits")
        with sequence.timings.during("dispatch"):
            scores = scorer.scores(
                choice.candidates, layers, sequence.logits.all(), None if needs_all else noise
            )
        return scores if np.isfinite(scores.log_scores).any() else None
