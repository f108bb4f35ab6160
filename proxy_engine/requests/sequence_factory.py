"""The sequences of a model: how the text of a request is generated."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import make_prompt_cache

from state_machines import Vocabulary
from state_machines.repetition import RepetitionDetector

from ..answers.composition import REASONING
from ..conversation.chat_template import chat_template
from ..generation import (
    Constraint,
    Deadline,
    DeviceMasks,
    Drafting,
    FastForward,
    GeneratedSequence,
    GuardedGrammar,
    MinTokens,
    ModelDrafter,
    PartLimits,
    RepetitionStop,
    ReportedLogprobs,
    Restriction,
    Script,
    SequenceSamplers,
    StepCosts,
    Timings,
    end_token_ids,
    text_token_mask,
    xtc_special_tokens,
)
from ..generation.speculation import CopyDrafter, Drafter
from ..models.loading import LoadedModel
from ..options.generation import GenerationOptions
from .request import Request


class SequenceFactory:
    """Creates the sequences of one model.

    Args:
        loaded: The model.
        vocabulary: Its vocabulary.
        tokenizer_lock: Held while the tokenizer is used. The model thread does not need it, unless
            the tokenizer has no copy that nothing changes.
        draft_model: The draft model or head; ``None``: there is none.
        draft_cost: Time in which it makes a token, in the time of a pass of the model.
        num_draft_tokens: Tokens that the draft model drafts, for requests that do not set it.

    Attributes:
        fast_forward: Tokenizes forced text.
        masks: Masks on the device.
        costs: The measured cost of passes.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        vocabulary: Vocabulary,
        tokenizer_lock: threading.Lock,
        *,
        draft_model: ModelDrafter | None = None,
        draft_cost: float = 0.0,
        num_draft_tokens: int | None = None,
    ) -> None:
        self.loaded = loaded
        self.vocabulary = vocabulary
        control = chat_template(loaded.tokenizer).control_tokens
        self.fast_forward = FastForward(partial(control.encode, lock=tokenizer_lock), vocabulary)
        self.masks = DeviceMasks()
        self._text_tokens = text_token_mask(vocabulary)
        self.costs = StepCosts(make_prompt_cache(loaded.model))
        self._xtc_special_tokens = xtc_special_tokens(vocabulary)
        self._draft_model = draft_model
        self._draft_cost = draft_cost
        self._num_draft_tokens = num_draft_tokens

    def sequence(self, request: Request) -> GeneratedSequence:
        """Return the sequence that answers a request."""
        options, hooks, guard = request.options, request.hooks, request.guard
        reports = ReportedLogprobs.of(
            logprobs=options.logprobs,
            vectors=hooks.logprob_vectors,
            confidence=bool(options.confidence),
        )
        ends = end_token_ids(self.vocabulary, self.loaded.tokenizer)
        if guard is None:
            ends = tuple(dict.fromkeys((*ends, *options.stop_ids)))
        samples_all = reports is not None and reports.samples_all
        constraint = Constraint(
            self._restrictions(request, samples_all=samples_all),
            ends,
            request.max_tokens,
            usable=self._usable_tokens(options) if guard is None else None,
            part=request.answer.part,
        )
        samplers = SequenceSamplers(
            options,
            () if guard is None else guard.matcher.temperatures,
            hooks=hooks,
            xtc_special_tokens=self._xtc_special_tokens,
        )
        return GeneratedSequence(
            request.prompt.token_ids,
            constraint,
            samplers,
            masks=self.masks,
            choices=self.fast_forward if options.exact_choices else None,
            reports=reports,
            drafting=self._drafting(request),
            timings=Timings(is_traced=options.trace),
        )

    def _restrictions(self, request: Request, *, samples_all: bool) -> list[Restriction]:
        """Return the restrictions that a request needs, in order."""
        options, guard, made = request.options, request.guard, list[Restriction]()
        if options.max_seconds is not None:
            begin = time.perf_counter()
            if request.counts_waiting:
                # The time until a stream is read lies between the two, and does not count.
                begin = request.created - request.preparation_seconds
            made.append(Deadline(begin + options.max_seconds))
        if guard is not None:
            limits = {
                name: part.max_tokens
                for name, part in options.parts.items()
                if part.max_tokens is not None
            }
            if limits:
                made.append(PartLimits(limits, request.max_tokens, budgets=(REASONING,)))
            made.append(GuardedGrammar(guard))
        if options.min_tokens:
            made.append(MinTokens(options.min_tokens, self.masks, self.vocabulary.size))
        if guard is not None:
            # A text of bounded length has no value without a bound.
            if options.stop_repetition and guard.matcher.state.max_length is None:
                made.append(RepetitionStop(RepetitionDetector(self.vocabulary)))
            forced = self.fast_forward if options.fast_forward and not samples_all else None
            made.append(Script(forced, samples_end=samples_all))
        return made

    def drafters(self, prompt_ids: Sequence[int]) -> list[Drafter]:
        """Return the drafters of a sequence that need no model, the preferred one first."""
        return [CopyDrafter(prompt_ids, self.vocabulary, self.fast_forward)]

    def _usable_tokens(self, options: GenerationOptions) -> npt.NDArray[np.bool_] | None:
        """Return the mask of unconstrained text, which also allows the request's stop tokens."""
        usable = self._text_tokens
        stop = list(options.stop_ids)
        if usable is None or usable[stop].all():
            return usable
        usable = usable.copy()
        usable[stop] = True
        return usable

    def _drafting(self, request: Request) -> Drafting | None:
        """Return the drafters of a request; ``None`` if it takes one token per pass."""
        options = request.options.speculation_options
        if options is None or request.hooks.changes_tokens:
            return None
        # Where no draft pays, drafters need not search.
        has_drafters = options.prompt_lookup and (self.costs.base or not options.is_adaptive)
        drafters = self.drafters(request.prompt.token_ids) if has_drafters else []
        # A draft model reads text only. A head reads the target's states of media.
        drafter = self._draft_model
        if drafter is not None and not drafter.reads_states and request.prompt.inputs is not None:
            drafter = None
        model = None if drafter is None else drafter.source
        options = options.with_defaults(self._num_draft_tokens)
        return Drafting(drafters, options, self.costs, model, self._draft_cost)
