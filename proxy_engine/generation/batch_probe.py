"""Checks on two short texts that a model computes the same logits in a batch as alone.

Some of mlx-lm's models fail with batch caches, and some compute wrong logits: they apply one
offset to all rows, or apply the mask along the wrong axis. Only rows of different lengths show it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from ..prompt_cache.layers import copy_cache
from ..replication import replicated
from .cache_layers import merge, right_padded
from .shared_prefix import prefix_caches, prefix_layers
from .wide_passes import WidePasses

_log = logging.getLogger(__name__)

_SHORT_PROMPT = 1
# The larger the difference in length, the larger the error of a wrong offset. Tokens are expensive
# on a CPU.
_LONG_PROMPT_ON_CPU = 6
_LONG_PROMPT_ON_GPU = 32
_STEPS = 2

# Differences are relative to the distance between the logits of the two texts.
_NEGLIGIBLE = 1e-3
_MAX_NOISE = 0.25
_NOISE_FACTOR = 8.0
"""Largest ratio of the difference to the one in a batch of equal lengths, which is rounding."""

_Logits: TypeAlias = npt.NDArray[np.float32]


class BatchProbe:
    """Which batches a model computes correctly. Each property is determined on first access.

    To be used on the thread that runs the model.

    Attributes:
        wide_passes: Whether the model computes passes over several tokens correctly.
    """

    def __init__(self, model: Module) -> None:
        self.wide_passes = WidePasses(model)
        self._model = model
        self._can_decode: bool | None = None
        self._can_pad: bool | None = None
        self._can_score: bool | None = None

    @property
    def can_decode(self) -> bool:
        """Whether rows of different lengths can share a pass over one token each."""
        if self._can_decode is None:
            self._can_decode = self._agrees(_after_merging, "decoding")
        return self._can_decode

    @property
    def can_pad(self) -> bool:
        """Whether rows can take different numbers of tokens in one pass."""
        if self._can_pad is None:
            self._can_pad = self.can_decode and self._agrees(_after_padding, "padding")
        return self._can_pad

    @property
    def can_score(self) -> bool:
        """Whether rows can share the keys and values of a prefix."""
        if self._can_score is None:
            # Rows of equal lengths are computed correctly by any model that takes a batch.
            self._can_score = self._agrees(_after_prefix, "shared prefixes", _after_merging)
        return self._can_score

    def _agrees(self, run: _Run, operation: str, equal_rows: _Run | None = None) -> bool:
        """Compare an operation's logits with those of single texts.

        Args:
            run: The operation.
            operation: Its name.
            equal_rows: The operation that shows how large rounding is; by default the same.
        """
        try:
            texts = _texts(self._model)
            scale = _distance(*(text.logits for text in texts))
            difference = _difference(texts, run(self._model, texts, list(range(len(texts)))))
            if difference <= _NEGLIGIBLE * scale:
                return True
            noise = 0.0
            for number, text in enumerate(texts):
                rows = (equal_rows or run)(self._model, texts, [number, number])
                noise = max(noise, _difference((text, text), rows))
        except Exception as error:
            _log.info("%s of several rows fails with this model: %s", operation, error)
            return False
        agrees = noise <= _MAX_NOISE * scale and difference <= _NOISE_FACTOR * noise
        if not agrees:
            _log.info(
                "%s of several rows gives other logits with this model: they differ by %.3g, "
                "by %.3g for equal lengths, and by %.3g between texts",
                *(operation, difference, noise, scale),
            )
        return agrees


class _Text:
    """A text that was processed alone.

    Attributes:
        cache: Holds ``prompt``.
        logits: Logits after each token of ``answer``, shape (steps, vocabulary).
    """

    def __init__(self, model: Module, prompt: Sequence[int], answer: Sequence[int]) -> None:
        self.prompt = prompt
        self.answer = answer
        self.cache = make_prompt_cache(model)
        model(mx.array([list(prompt)]), cache=self.cache)
        mx.eval([layer.state for layer in self.cache])
        self.logits = _decode(model, [self], copy_cache(self.cache))[0]


_Run: TypeAlias = Callable[[Module, list[_Text], list[int]], _Logits]
"""Returns the logits of a batch of the texts with these numbers."""


@replicated(creates=True)
def _texts(model: Module) -> list[_Text]:
    is_on_gpu = mx.default_device().type == mx.DeviceType.gpu
    width = int(model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model)).shape[-1])

    def text(length: int) -> _Text:
        positions = range(length + _STEPS)
        ids = [(7919 * n * n + 104729 * length + 31) % width for n in positions]
        return _Text(model, ids[:length], ids[length:])

    return [text(_SHORT_PROMPT), text(_LONG_PROMPT_ON_GPU if is_on_gpu else _LONG_PROMPT_ON_CPU)]


def _difference(texts: Sequence[_Text], rows: _Logits) -> float:
    return max(_distance(text.logits, row) for text, row in zip(texts, rows, strict=True))


def _distance(left: _Logits, right: _Logits) -> float:
    """Return the smallest Euclidean distance of any step.

    A wrong batch is wrong at every step. A mixture of experts may choose another expert at a single
    step because of rounding.
    """
    return float(np.linalg.norm(left - right, axis=-1).min())


@replicated()
def _after_merging(model: Module, texts: list[_Text], numbers: list[int]) -> _Logits:
    """Decode after prompts that were processed alone."""
    rows = [texts[number] for number in numbers]
    return _decode(model, rows, merge([copy_cache(text.cache) for text in rows]))


@replicated()
def _after_padding(model: Module, texts: list[_Text], numbers: list[int]) -> _Logits:
    """Decode after prompts that were processed together, padded on the right."""
    texts = [texts[number] for number in numbers]
    lengths = [len(text.prompt) for text in texts]
    longest = max(lengths)
    tokens = [[*text.prompt, *[0] * (longest - len(text.prompt))] for text in texts]
    cache = merge([make_prompt_cache(model) for _ in texts])
    with right_padded(cache, lengths):
        model(mx.array(tokens), cache=cache)
    mx.eval([layer.state for layer in cache])
    return _decode(model, texts, cache)


@replicated()
def _after_prefix(model: Module, texts: list[_Text], numbers: list[int]) -> _Logits:
    """Read answers in one pass behind the cache of their prompts, with another row each."""
    found = []
    for number in numbers:
        text = texts[number]
        caches = prefix_caches(prefix_layers(text.cache, 0, len(text.prompt)))
        rows = mx.array([text.answer, text.answer[::-1]])
        found.append(np.array(model(rows, cache=caches)[0].astype(mx.float32)))
    return np.stack(found)


def _decode(model: Module, texts: Sequence[_Text], cache: list[Any]) -> _Logits:
    """Return the logits after each token of the answers, shape (rows, steps, vocabulary)."""
    found = []
    for step in range(_STEPS):
        tokens = mx.array([[text.answer[step]] for text in texts])
        logits = model(tokens, cache=cache)[:, -1]
        found.append(np.array(logits.astype(mx.float32)))
    return np.stack(found, axis=1)
