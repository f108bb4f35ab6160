"""Creates the sequences that answer requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import make_prompt_cache

from state_machines import Vocabulary

from ..conversation.chat_template import chat_template
from ..generation import (
    Constraint,
    Deadline,
    DeviceMasks,
    Drafting,
    FastForward,
    PartLimits,
    SequenceOptions,
    SequenceSamplers,
    Timings,
    device_pass_cost,
    end_token_ids,
    text_token_mask,
    xtc_special_tokens,
)
from ..generation import Sequence as GeneratedSequence
from ..generation.speculation import CopyDrafter, Drafter
from ..generation.speculation.draft_length import PassCost
from ..models.loading import LoadedModel
from ..options.generation import GenerationOptions
from .request import Request


@dataclass(frozen=True, slots=True)
class SequenceFactory:
    """Creates the sequences of one model.

    Attributes:
        loaded: The model.
        vocabulary: Its vocabulary.
        fast_forward: Tokenizes forced text.
        masks: Masks on the device.
        text_tokens: Mask of unconstrained text, see ``text_token_mask``.
        pass_cost: The cost of passes, from which the length of drafts follows.
        xtc_special_tokens: Tokens that XTC never excludes.
        draft_cost: Time of a pass of the draft model, in the time of one of the model; ``None``:
            there is no draft model.
        num_draft_tokens: Tokens that the draft model drafts, for requests that do not set it.
    """

    loaded: LoadedModel
    vocabulary: Vocabulary
    fast_forward: FastForward
    masks: DeviceMasks
    text_tokens: npt.NDArray[np.bool_] | None
    pass_cost: PassCost
    xtc_special_tokens: tuple[int, ...]
    draft_cost: float | None = None
    num_draft_tokens: int | None = None

    @classmethod
    def of(
        cls, loaded: LoadedModel, vocabulary: Vocabulary, tokenizer_lock: threading.Lock
    ) -> SequenceFactory:
        """Return the factory of a model.

        ``tokenizer_lock`` is held while the tokenizer is used. The model thread does not need it,
        unless the tokenizer has no copy that nothing changes.
        """
        control = chat_template(loaded.tokenizer).control_tokens
        encode = partial(control.encode, lock=tokenizer_lock)
        fast_forward = FastForward(encode, vocabulary)
        cost = device_pass_cost(make_prompt_cache(loaded.model))
        text_tokens = text_token_mask(vocabulary)
        special = xtc_special_tokens(vocabulary)
        return cls(loaded, vocabulary, fast_forward, DeviceMasks(), text_tokens, cost, special)

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
            xtc_special_tokens=self.xtc_special_tokens,
        )
        ends, usable_tokens = end_token_ids(self.vocabulary, self.loaded.tokenizer), None
        if matcher is None:
            ends = list(dict.fromkeys((*ends, *options.stop_ids)))
            usable_tokens = self._usable_tokens(options)
        constraint = Constraint(
            SequenceOptions(
                end_token_ids=ends,
                max_tokens=request.max_tokens,
                min_tokens=options.min_tokens,
                soft_max_tokens=options.soft_max_tokens,
                logprobs=options.logprobs,
                logprob_vectors=request.hooks.logprob_vectors,
                usable_tokens=usable_tokens,
                weighs=options.particles > 1,
                stop_repetition=options.stop_repetition,
            ),
            self.masks,
            PartLimits(options.parts, deadline, request.max_tokens),
            guard=guard,
            part=request.answer.part,
            fast_forward=self.fast_forward if options.fast_forward else None,
        )
        return GeneratedSequence(
            request.prompt_ids,
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
        usable = self.text_tokens
        stop = list(options.stop_ids)
        if usable is None or usable[stop].all():
            return usable
        usable = usable.copy()
        usable[stop] = True
        return usable

    def _drafting(self, request: Request) -> Drafting | None:
        """Return the drafters of a request; ``None`` if it takes one token per pass."""
        options = request.options.speculation_options
        if options is None or request.sequences > 1 or request.hooks.changes_tokens:
            return None
        # Where no draft pays, drafters need not search.
        has_drafters = options.prompt_lookup and (self.pass_cost.base or not options.is_adaptive)
        drafters = self.drafters(request.prompt_ids) if has_drafters else []
        model_cost = None
        # A draft model reads text only.
        if self.draft_cost is not None and request.prompt.inputs is None:
            model_cost = replace(self.pass_cost, per_draft_token=self.draft_cost)
        options = options.with_defaults(self.num_draft_tokens)
        return Drafting(drafters, options, self.pass_cost, model_cost)
