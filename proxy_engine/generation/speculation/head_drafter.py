"""Drafts of a draft head."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TypeAlias, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from ...prompt_cache.prompt_caches import PromptCaches
from ..batch_rows import BatchRows
from ..cache_layers import can_pad, padded_tokens, right_padded
from ..forward_pass import ForwardPass
from ..prefill import default_prefill_step_size
from ..sequence import GeneratedSequence
from ..shared_prefix import Layers, prefix_layers
from ..wired_memory import model_bytes
from .draft_heads import DraftHead, HeadOutput, HiddenStates
from .drafts import MAX_TOKENS_PER_STEP, Draft
from .model_drafter import DraftedText, DraftJob, ModelDrafter, fitted

_log = logging.getLogger(__name__)

_MAX_UNREAD = MAX_TOKENS_PER_STEP
"""Most tokens behind the target's last state. More forced text than this is not drafted behind."""

_STEPS_KEPT = 4
"""Most passes' worth of states that are kept while no drafts are made. They are read in one go when
drafts are tried again; beyond them, the head begins anew. A pause of 1,024 tokens fits."""


class _HeadText(DraftedText):
    """The text of a sequence, as far as the head has read it.

    ``processed`` counts positions in the cache, and ``padding`` those of a draft.

    Attributes:
        begin: Index of the first state that the head has read.
        unread: The states that it has not read.
        output: Its output behind the last state that it has read.
        drafted: Its output behind the last token of a draft.
        target: The target's keys and values, for a head that reads them, while it drafts.
    """

    def __init__(self, sequence: GeneratedSequence, begin: int, processed: int) -> None:
        super().__init__(sequence, processed)
        self.begin = begin
        self.unread = HiddenStates(begin + processed)
        self.output: HeadOutput | None = None
        self.drafted: HeadOutput | None = None
        self.target: Layers = []

    @property
    def position(self) -> int:
        """The position of the next state, those of a draft included."""
        return self.begin + self.processed + self.padding

    @property
    def ready(self) -> int:
        """States that can be read: the tokens behind them are known."""
        return min(self.unread.end, len(self.tokens) - 1) - self.unread.start


_Job: TypeAlias = DraftJob[_HeadText]


class HeadDrafter(ModelDrafter):
    """Extends drafts with the tokens of a draft head. To be used on the model thread.

    Args:
        head: The head.
        caches: Its prompt caches.
        width: Size of the target's vocabulary.
        step_size: Unread states from which on they are read before a draft needs them; ``None``: a
            default for the device.
    """

    source = "draft_head"
    reads_states = True

    def __init__(
        self, head: DraftHead, caches: PromptCaches, *, width: int, step_size: int | None = None
    ) -> None:
        super().__init__()
        self.model = cast(Module, head)
        self.token_bytes = model_bytes(self.model)
        self.state_layers = head.state_layers
        self._head = head
        self._caches = caches
        self._width = width
        self._step_size = step_size or default_prefill_step_size()
        self._texts: dict[GeneratedSequence, _HeadText] = {}

    def check(self, forward: ForwardPass) -> None:
        """Check that the head can read the states of the target. Runs both on two tokens.

        Raises:
            Exception: It cannot.
        """
        layer = forward.split_output_layer()
        if layer is None:
            raise ValueError("the hidden states of the model are not known")
        tokens = mx.array([[0, 1]], mx.int32)
        cache = make_prompt_cache(forward.model)
        states = forward(tokens, cache).states(0, 2)[None]
        read = prefix_layers(cache, 0, 2) if self._head.reads_target else self._head.make_cache()
        output = self._head.read(tokens, states, read, 0)
        mx.eval(self._head.logits(output.features))
        # The output layer is that of the target.
        self.token_bytes += layer.nbytes

    def observe(self, sequence: GeneratedSequence, states: mx.array, end: int) -> None:
        """Take the hidden states of a pass of the target; see :class:`ModelDrafter`.

        They are only noted while the head does not draft, and read once it does.
        """
        drafting = sequence.drafting
        if drafting is None or not drafting.has_model:
            return
        start = end - len(states)
        try:
            text = self._texts.get(sequence)
            if text is not None:
                text.unread.settle(text.tokens, start)
            if text is None or start > text.unread.end:
                self.remove(sequence, keeps_cache=False)
                text = self._begin(sequence, start)
            text.unread.add(start, states, sequence.tail)
            ready = text.ready
            if self._head.reads_target:
                text.unread.skip(ready - 1)
            elif ready >= self._step_size:
                if drafting.may_use_model(sequence):
                    self._read(text, ready)
                elif ready >= _STEPS_KEPT * self._step_size:
                    self.remove(sequence, keeps_cache=False)
        except Exception as error:
            _log.warning("the draft head drafts no more for a request: %r", error)
            self.remove(sequence, keeps_cache=False)
            drafting.drop_model()

    def remove(self, sequence: GeneratedSequence, *, keeps_cache: bool = True) -> None:
        """Free the cache of a sequence that has left the batch; see :class:`ModelDrafter`."""
        text = self._texts.pop(sequence, None)
        if text is None:
            return
        keeps_cache = keeps_cache and not text.begin and self._caches.options.max_bytes > 0
        keeps_cache = keeps_cache and not self._head.reads_target
        drafting = sequence.drafting
        if keeps_cache:
            text.unread.settle(text.tokens, sequence.processed)
            try:
                if text.ready and drafting is not None and drafting.may_use_model(sequence):
                    self._read(text, text.ready)
            except Exception as error:
                # A pass that failed may have changed some layers. The answer does not need it.
                _log.warning("the draft head's cache of a request is not kept: %r", error)
                keeps_cache = False
        cache = text.rows.remove(text, wants_cache=keeps_cache)
        if cache is not None and text.processed:
            self._caches.insert(self._cache_key(text.tokens), cache, processed=text.processed)

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts."""
        self._caches.clear()

    def clear(self) -> None:
        """Free the caches of all sequences."""
        self._texts.clear()
        self._batch = BatchRows()

    def _begin(self, sequence: GeneratedSequence, start: int) -> _HeadText:
        """Begin with a text whose first known state is at ``start``."""
        if self._head.reads_target:
            text = self._texts[sequence] = _HeadText(sequence, start, 0)
            text.rows.add(text, [])
            return text
        fetched = self._caches.fetch([*self._cache_key(sequence.tokens)[:start], 0])
        count = fetched.cached_tokens
        if count >= start - 1:
            text, cache = _HeadText(sequence, 0, count), fetched.cache
        else:
            text, cache = _HeadText(sequence, start, 0), self._caches.fresh()
        text.rows.add(text, cache)
        self._texts[sequence] = text
        return text

    def _cache_key(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the key of a text in the prompt caches, with a token for each state.

        A chain reads a state together with the next token. Where two texts diverge, it can share
        one state less than the target.
        """
        return tokens[1:] if self._head.mask_id is None else tokens

    def _read(self, text: _HeadText, count: int) -> None:
        """Dispatch a pass over states that no draft begins behind."""
        if len(text.rows.sequences) > 1:
            text.move_to(BatchRows())
        text.rows.settle()
        if self._head.mask_id is None:
            self._read_states(text.rows, {text: count})
        else:
            self._read_block(text, count, [text.tokens[text.unread.start + count]])
        mx.async_eval([layer.state for layer in text.rows.cache])

    def _extend(self, drafts: Mapping[Draft, int], target: BatchRows[GeneratedSequence]) -> None:
        jobs = [
            job
            for draft, at_most in drafts.items()
            if (job := self._job(draft, at_most)) is not None
        ]
        if self._head.reads_target:
            for job in jobs:
                job.text.target = target.prefix(job.draft.sequence)
                self._draft_chains(job.text.rows, [job])
                job.text.target = []
            return
        if self._head.mask_id is not None:
            for job in jobs:
                self._draft_block(job, self._head.mask_id)
            return
        self._gather([job.text for job in jobs if len(jobs) > 1 and can_pad(job.text.rows.cache)])
        for rows in dict.fromkeys(job.text.rows for job in jobs):
            self._draft_chains(rows, [job for job in jobs if job.text.rows is rows])

    def _job(self, draft: Draft, at_most: int) -> _Job | None:
        """Return the extension of a draft; ``None`` if it cannot be extended."""
        sequence = draft.sequence
        text = self._texts.get(sequence)
        if text is None or draft.is_closed or at_most < 1:
            return None
        text.rows.settle()
        text.unread.settle(text.tokens, sequence.processed)
        if self._head.reads_target and sequence.processed < text.unread.end:
            # The target's cache was restored, and lacks tokens whose states are known.
            return None
        fed = text.tokens[text.unread.start + text.ready + 1 :]
        if len(fed) > _MAX_UNREAD or not (text.ready or text.output):
            return None
        return _Job(draft, text, at_most, fed)

    def _draft_chains(self, rows: BatchRows[DraftedText], jobs: list[_Job]) -> None:
        """Run the passes of the drafts of a batch, to which all texts of the jobs belong."""
        self._read_states(rows, {job.text: job.text.ready for job in jobs if job.text.ready})
        for job in jobs:
            job.text.drafted = job.text.output
        while True:
            self._read_own(rows, jobs)
            features = [cast(HeadOutput, job.text.drafted).features for job in jobs]
            logits = fitted(self._head.logits(mx.concatenate(features))[:, -1], self._width)
            drawn = [
                (job, self._draw(job.draft, logits[number : number + 1]))
                for number, job in enumerate(jobs)
            ]
            mx.eval([proposal for _, proposal in drawn if proposal is not None])
            jobs = [job for job, proposal in drawn if proposal and self._append(job, proposal)]
            if not jobs:
                return

    def _read_states(self, rows: BatchRows[DraftedText], counts: Mapping[_HeadText, int]) -> None:
        """Read states of the target, and set the outputs behind the last ones."""
        fed = {}
        for text, count in counts.items():
            start = text.unread.start
            tokens = text.tokens[start + 1 : start + 1 + count]
            fed[text] = tokens, text.unread.pop_first(count)[None]
        for text, output in self._forward(rows, fed).items():
            text.output = output
            text.processed += counts[text]

    def _read_own(self, rows: BatchRows[DraftedText], jobs: Sequence[_Job]) -> None:
        """Read tokens with the head's own states, one after the other."""
        for column in range(max(len(job.fed) for job in jobs)):
            fed = {
                job.text: ([job.fed[column]], cast(HeadOutput, job.text.drafted).states)
                for job in jobs
                if column < len(job.fed)
            }
            for text, output in self._forward(rows, fed).items():
                text.drafted = output
                text.padding += 1

    def _forward(
        self,
        rows: BatchRows[DraftedText],
        fed: Mapping[_HeadText, tuple[Sequence[int], mx.array]],
    ) -> dict[_HeadText, HeadOutput]:
        """Dispatch a pass over tokens and states of some texts of a batch.

        Returns:
            The output behind the last token of each text.
        """
        if not fed:
            return {}
        texts = cast("list[_HeadText]", rows.sequences)
        tokens = [fed[text][0] if text in fed else () for text in texts]
        lengths = [len(of_row) for of_row in tokens]
        states: mx.array
        if len(texts) == 1:
            ((_, states),) = fed.values()
        else:
            some = next(iter(fed.values()))[1]
            empty = mx.zeros((1, 0, some.shape[-1]), some.dtype)
            states = mx.concatenate(
                [
                    mx.pad(
                        fed[text][1] if text in fed else empty,
                        [(0, 0), (0, max(lengths) - length), (0, 0)],
                    )
                    for text, length in zip(texts, lengths, strict=True)
                ]
            )
        if self._head.reads_target:
            (text,) = texts
            last = text.unread.start - 1
            output = self._head.read(padded_tokens(tokens), states, text.target, last)
            return {text: output}
        positions = [text.position for text in texts]
        at = positions[0] if len(texts) == 1 else mx.array(positions, mx.int32)
        is_even = min(lengths) == max(lengths)
        with nullcontext() if is_even else right_padded(rows.cache, lengths):
            output = self._head.read(padded_tokens(tokens), states, rows.cache, at)
        return {text: output.at(text.row, len(own) - 1) for text, (own, _) in fed.items()}

    # Blocks.

    def _read_block(self, text: _HeadText, count: int, tokens: Sequence[int]) -> HeadOutput:
        """Read states, with the tokens of a block behind them, which do not stay in the cache."""
        states, position = text.unread.pop_first(count)[None], text.position
        output = self._head.read(padded_tokens([tokens]), states, text.rows.cache, position)
        text.processed += count
        return output

    def _draft_block(self, job: _Job, mask_id: int) -> None:
        """Draft the tokens of one block."""
        text, draft, head = job.text, job.draft, self._head
        known = text.tokens[text.unread.start + text.ready :]
        count = min(MAX_TOKENS_PER_STEP * job.left, head.block_size - len(known))
        if count < 1 or not text.ready:
            return
        masks = [mask_id] * (count - 1 + head.first_prediction)
        output = self._read_block(text, text.ready, [*known, *masks])
        features = output.features[0, -count:]
        logits = head.logits(features[None])[0]
        place, token_id = 0, known[-1]
        while place < count:
            own = slice(place, place + 1)
            after = head.logits_after(token_id, features[own], logits[own])
            proposal = self._draw(draft, fitted(after, self._width))
            if proposal is None or not self._append(job, proposal):
                return
            place, token_id = place + len(job.fed), job.fed[-1]
