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

from ..answers.composition import REASONING
from ..conversation.chat_template import chat_template
from ..generation import (
    Constraint,
    Deadline,
    DeviceMasks,
    Drafting,
    FastForward,
    GeneratedSequence,
    ModelDrafter,
    PartLimits,
    SequenceOptions,
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
        options = request.options
        guard = request.guard
        matcher = None if guard is None else guard.matcher
        seconds = options.max_seconds
        begin = time.perf_counter()
        if request.counts_waiting:
            # The time until a stream is read lies between the two, and does not count.
            begin = request.created - request.preparation_seconds
        deadline = None if seconds is None else Deadline(begin + seconds)
        samplers = SequenceSamplers(
            options,
            () if matcher is None else matcher.temperatures,
            hooks=request.hooks,
            xtc_special_tokens=self._xtc_special_tokens,
        )
        ends, usable_tokens = end_token_ids(self.vocabulary, self.loaded.tokenizer), None
        if matcher is None:
            ends = tuple(dict.fromkeys((*ends, *options.stop_ids)))
            usable_tokens = self._usable_tokens(options)
        constraint = Constraint(
            SequenceOptions(
                end_token_ids=ends,
                max_tokens=request.max_tokens,
                min_tokens=options.min_tokens,
                logprobs=options.logprobs,
                logprob_vectors=request.hooks.logprob_vectors,
                confidence=bool(options.confidence),
                usable_tokens=usable_tokens,
                stop_repetition=options.stop_repetition,
            ),
            self.masks,
            PartLimits(options.parts, deadline, request.max_tokens, budgets=(REASONING,)),
            guard=guard,
            part=request.answer.part,
            fast_forward=self.fast_forward if options.fast_forward else None,
        )
        return GeneratedSequence(
            request.prompt.token_ids,
            constraint,
            samplers,
            masks=self.masks,
            choices=self.fast_forward if options.exact_choices else None,
            drafting=self._drafting(request),
            timings=Timings(is_traced=options.trace),
        )

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
