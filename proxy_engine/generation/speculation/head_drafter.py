"""Drafts of a draft head."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from ...prompt_cache.prompt_caches import PromptCaches
from ..batch_rows import BatchRows
from ..cache_layers import can_pad, padded_tokens, right_padded
from ..forward_pass import ForwardPass
from ..sequence import GeneratedSequence
from ..shared_prefix import Layers, prefix_layers
from .draft_heads import DraftHead, HeadOutput, HiddenStates
from .draft_model import ModelDrafter, fitted
from .drafting import DraftedText
from .drafts import MAX_TOKENS_PER_STEP, Draft

_log = logging.getLogger(__name__)

_MAX_UNREAD = MAX_TOKENS_PER_STEP
"""Most tokens behind the target's last state. More forced text than this is not drafted behind."""

_STEPS_KEPT = 4
"""Most passes' worth of states that are kept while no drafts are made. They are read in one go when
drafts are tried again; beyond them, the head begins anew. A pause of 1,024 tokens fits."""


class _HeadText(DraftedText):
    """The prefix of a sequence that the head has read.

    ``processed`` counts positions in the cache, and ``padding`` those of a draft.

    Attributes:
        begin: Index of the first state that the head has read.
        unread: The states that it has not read.
        output: Its output behind the last state that it has read.
        fed: While it drafts, tokens to read with its own states before the next one is drawn.
        drafted: Its output behind the last token of a draft.
        target: The target's keys and values, for a head that reads them, while it drafts.
    """

    def __init__(self, tokens: list[int], begin: int, processed: int) -> None:
        super().__init__(tokens, processed)
        self.begin = begin
        self.unread = HiddenStates(begin + processed)
        self.output: HeadOutput | None = None
        self.fed: Sequence[int] = ()
        self.drafted: HeadOutput | None = None
        self.target: Layers = []

    @property
    def position(self) -> int:
        """The position of the next state, behind the draft."""
        return self.begin + self.processed + self.padding

    @property
    def ready(self) -> int:
        """States that can be read: the tokens behind them are known."""
        return min(self.unread.end, len(self.tokens) - 1) - self.unread.start


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
        super().__init__(cast(Module, head), caches, width=width, step_size=step_size)
        self.state_layers = head.state_layers
        self._head = head

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
            text = _text(sequence)
            if text is not None:
                text.unread.settle(text.tokens, start)
            if text is None or start > text.unread.end:
                self.remove(sequence, keeps_cache=False)
                text = drafting.text = self._begin(sequence.tokens, start)
            text.unread.add(start, states, sequence.tail)
            ready = text.ready
            if self._head.reads_target:
                text.unread.skip(ready - 1)
            elif ready >= self.step_size:
                if drafting.model_length(sequence.constraint):
                    self._read(text, ready)
                elif ready >= _STEPS_KEPT * self.step_size:
                    self.remove(sequence, keeps_cache=False)
        except Exception as error:
            _log.warning("the draft head drafts no more for a request: %r", error)
            self.remove(sequence, keeps_cache=False)
            drafting.drop_model()

    def remove(self, sequence: GeneratedSequence, *, keeps_cache: bool = True) -> None:
        """Free the cache of a sequence that has left the batch; see :class:`ModelDrafter`."""
        text, drafting = _text(sequence), sequence.drafting
        if text is None or drafting is None:
            return
        keeps_cache = keeps_cache and not text.begin and self._caches.options.max_bytes > 0
        keeps_cache = keeps_cache and not self._head.reads_target
        if keeps_cache:
            text.unread.settle(text.tokens, sequence.processed)
            try:
                if text.ready and drafting.model_length(sequence.constraint):
                    self._read(text, text.ready)
            except Exception as error:
                # A pass that failed may have changed some layers. The answer does not need it.
                _log.warning("the draft head's cache of a request is not kept: %r", error)
                keeps_cache = False
        super().remove(sequence, keeps_cache=keeps_cache)

    def _begin(self, tokens: list[int], start: int) -> _HeadText:
        """Begin with a text whose first known state is at ``start``."""
        if self._head.reads_target:
            text, cache = _HeadText(tokens, start, 0), []
        else:
            fetched = self._caches.fetch([*self._cache_key(tokens)[:start], 0])
            count = fetched.cached_tokens
            if count >= start - 1:
                text, cache = _HeadText(tokens, 0, count), fetched.cache
            else:
                text, cache = _HeadText(tokens, start, 0), self._caches.fresh()
        text.rows.add(text, cache)
        return text

    def _cache_key(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the key of a text, with a token for each state.

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

    def _extend(
        self, drafts: Mapping[GeneratedSequence, Draft], target: BatchRows[GeneratedSequence]
    ) -> None:
        texts = {
            sequence: text
            for sequence in drafts
            if (text := _text(sequence)) is not None and self._prepare(text, sequence.processed)
        }
        if self._head.reads_target:
            for sequence, text in texts.items():
                text.target = target.prefix(sequence)
                self._draft_chains(text.rows, texts, {sequence: drafts[sequence]})
                text.target = []
            return
        if self._head.mask_id is not None:
            for sequence, text in texts.items():
                self._draft_block(sequence, drafts[sequence], text, self._head.mask_id)
            return
        together = [text for text in texts.values() if can_pad(text.rows.cache)]
        self._gather(together if len(texts) > 1 else ())
        for rows in dict.fromkeys(text.rows for text in texts.values()):
            of_rows = [sequence for sequence, text in texts.items() if text.rows is rows]
            self._draft_chains(rows, texts, {sequence: drafts[sequence] for sequence in of_rows})

    def _prepare(self, text: _HeadText, processed: int) -> bool:
        """Drop states behind refused tokens, and return whether a draft can begin."""
        text.rows.settle()
        text.unread.settle(text.tokens, processed)
        if self._head.reads_target and processed < text.unread.end:
            # The target's cache was restored, and lacks tokens whose states are known.
            return False
        text.fed = text.tokens[text.unread.start + text.ready + 1 :]
        return len(text.fed) <= _MAX_UNREAD and bool(text.ready or text.output)

    def _draft_chains(
        self,
        rows: BatchRows[DraftedText],
        texts: Mapping[GeneratedSequence, _HeadText],
        drafts: Mapping[GeneratedSequence, Draft],
    ) -> None:
        """Run the passes of the drafts of a batch, whose texts are all in it."""
        drafted = [texts[sequence] for sequence in drafts]
        self._read_states(rows, {text: text.ready for text in drafted if text.ready})
        for text in drafted:
            text.drafted = text.output
        while True:
            self._read_own(rows, drafted)
            features = [cast(HeadOutput, text.drafted).features for text in drafted]
            logits = fitted(self._head.logits(mx.concatenate(features))[:, -1], self._width)
            drafts = self._append(drafts, [logits[n : n + 1] for n in range(len(drafted))])
            if not drafts:
                return
            drafted = [texts[sequence] for sequence in drafts]
            for text, draft in zip(drafted, drafts.values(), strict=True):
                text.fed = draft.steps[-1].tokens

    def _read_states(self, rows: BatchRows[DraftedText], counts: Mapping[_HeadText, int]) -> None:
        """Read states of the target, and set the output behind the last state of each text."""
        fed = {}
        for text, count in counts.items():
            start = text.unread.start
            tokens = text.tokens[start + 1 : start + 1 + count]
            fed[text] = tokens, text.unread.pop_first(count)[None]
        for text, output in self._forward(rows, fed).items():
            text.output = output
            text.processed += counts[text]

    def _read_own(self, rows: BatchRows[DraftedText], texts: Sequence[_HeadText]) -> None:
        """Read tokens with the head's own states, in one pass for each token."""
        for column in range(max(len(text.fed) for text in texts)):
            fed = {
                text: ([text.fed[column]], cast(HeadOutput, text.drafted).states)
                for text in texts
                if column < len(text.fed)
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

    def _draft_block(
        self, sequence: GeneratedSequence, draft: Draft, text: _HeadText, mask_id: int
    ) -> None:
        """Draft the tokens of one block."""
        head = self._head
        known = text.tokens[text.unread.start + text.ready :]
        count = min(MAX_TOKENS_PER_STEP * draft.at_most, head.block_size - len(known))
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
            if not self._append({sequence: draft}, [fitted(after, self._width)]):
                return
            tokens = draft.steps[-1].tokens
            place, token_id = place + len(tokens), tokens[-1]


def _text(sequence: GeneratedSequence) -> _HeadText | None:
    """Return a head's text of a sequence."""
    text = None if sequence.drafting is None else sequence.drafting.text
    return text if isinstance(text, _HeadText) else None
