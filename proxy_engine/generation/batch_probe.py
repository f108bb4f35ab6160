"""Checks that a model computes the same in a batch as alone, on two short texts.

Some of mlx-lm's models fail with batch caches, and some give wrong logits: they apply one offset
to all rows, or lay the mask over the wrong axis. Only rows of different lengths show it.
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

from ..prompt_cache.layers import copied
from .cache_layers import merged, spread

__all__ = ["BatchProbe"]

_log = logging.getLogger(__name__)

_SHORT = 1
# A wrong offset shows the more, the more lengths differ; a pass over few tokens takes a CPU long.
_LONG_ON_CPU = 6
_LONG_ON_GPU = 32
_STEPS = 2

# Differences are in units of the distance between the logits of the two texts.
_NEGLIGIBLE = 1e-3
_MOST_NOISE = 0.25
_NOISE_FACTOR = 8.0
"""How many times as large the differences may be as in a batch of equal lengths, where they are
rounding."""

_Logits: TypeAlias = npt.NDArray[np.float32]


class BatchProbe:
    """The batches that a model computes correctly. Each property is tried when it is first read.

    To be used on the thread that runs the model.
    """

    def __init__(self, model: Module) -> None:
        self._model = model
        self._texts: tuple[_Text, _Text] | None = None
        self._can_decode: bool | None = None
        self._can_pad: bool | None = None

    @property
    def can_decode(self) -> bool:
        """Whether rows of different lengths can share a pass over one token each."""
        if self._can_decode is None:
            self._can_decode = self._agrees(_after_merging, "decoding")
            for text in self._texts or ():
                text.layers = []
        return self._can_decode

    @property
    def can_pad(self) -> bool:
        """Whether rows can take different numbers of tokens in one pass."""
        if self._can_pad is None:
            self._can_pad = self.can_decode and self._agrees(_after_padding, "padding")
        return self._can_pad

    def _agrees(self, run: Callable[[Module, Sequence[_Text]], _Logits], what: str) -> bool:
        try:
            if self._texts is None:
                self._texts = _texts(self._model)
            scale = _distance(*(text.logits for text in self._texts))
            difference = _difference(self._texts, run(self._model, self._texts))
            if difference <= _NEGLIGIBLE * scale:
                return True
            noise = 0.0
            for text in self._texts:
                pair = (text, text)
                noise = max(noise, _difference(pair, run(self._model, pair)))
        except Exception as error:
            _log.info("%s of several rows fails with this model: %s", what, error)
            return False
        agrees = noise <= _MOST_NOISE * scale and difference <= _NOISE_FACTOR * noise
        if not agrees:
            _log.info(
                "%s of several rows gives other logits with this model: they differ by %.3g, "
                "by %.3g where lengths are equal, and by %.3g between texts",
                *(what, difference, noise, scale),
            )
        return agrees


class _Text:
    """A text that was read alone, with the logits of some tokens after it.

    ``layers`` have read ``prompt``; ``logits`` have shape (steps, width).
    """

    def __init__(self, model: Module, prompt: Sequence[int], answer: Sequence[int]) -> None:
        self.prompt = prompt
        self.answer = answer
        self.layers = make_prompt_cache(model)
        model(mx.array([list(prompt)]), cache=self.layers)
        mx.eval([layer.state for layer in self.layers])
        self.logits = _decoded(model, [self], copied(self.layers))[0]


def _texts(model: Module) -> tuple[_Text, _Text]:
    is_on_gpu = mx.default_device().type == mx.DeviceType.gpu
    width = int(model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model)).shape[-1])

    def text(length: int) -> _Text:
        places = range(length + _STEPS)
        ids = [(7919 * place * place + 104729 * length + 31) % width for place in places]
        return _Text(model, ids[:length], ids[length:])

    return text(_SHORT), text(_LONG_ON_GPU if is_on_gpu else _LONG_ON_CPU)


def _difference(texts: Sequence[_Text], rows: _Logits) -> float:
    return max(_distance(text.logits, row) for text, row in zip(texts, rows, strict=True))


def _distance(left: _Logits, right: _Logits) -> float:
    """The least Euclidean distance of any step.

    A wrong model is wrong at every step. A mixture of experts may choose another expert at a single
    step because of rounding.
    """
    return float(np.linalg.norm(left - right, axis=-1).min())


def _after_merging(model: Module, texts: Sequence[_Text]) -> _Logits:
    """As rows join a batch: each is read alone."""
    return _decoded(model, texts, merged([copied(text.layers) for text in texts]))


def _after_padding(model: Module, texts: Sequence[_Text]) -> _Logits:
    """As rows are read together: padded on the right."""
    lengths = [len(text.prompt) for text in texts]
    longest = max(lengths)
    tokens = [[*text.prompt, *[0] * (longest - len(text.prompt))] for text in texts]
    layers = merged([make_prompt_cache(model) for _ in texts])
    with spread(layers, lengths):
        model(mx.array(tokens), cache=layers)
    mx.eval([layer.state for layer in layers])
    return _decoded(model, texts, layers)


def _decoded(model: Module, texts: Sequence[_Text], layers: list[Any]) -> _Logits:
    """The logits of the steps of the answers, shape (rows, steps, width)."""
    found = []
    for step in range(_STEPS):
        tokens = mx.array([[text.answer[step]] for text in texts])
        logits = model(tokens, cache=layers)[:, -1]
        found.append(np.array(logits.astype(mx.float32)))
    return np.stack(found, axis=1)
