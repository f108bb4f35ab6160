"""Checks that a model computes the same logits in the passes of a batch or a draft as alone.

Some of mlx-lm's models fail with batch caches, and some compute wrong logits: they apply one
offset to all rows, or apply the mask along the wrong axis. Only rows of different lengths show it.
Others depend on the width of a pass: ``phi3small`` lets the tokens of a pass attend to later ones,
and ``plamo3`` attends to one token more than its rotating cache keeps. Drafts would change their
answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    BatchRotatingKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from ..prompt_cache.layers import copy_cache, flat
from .cache_layers import Rollback, merge, right_padded
from .shared_prefix import prefix_caches, prefix_layers

_log = logging.getLogger(__name__)

_SHORT_PROMPT = 1
# The larger the difference in length, the larger the error of a wrong offset. Tokens are expensive
# on a CPU.
_LONG_PROMPT_ON_CPU = 6
_LONG_PROMPT_ON_GPU = 32
_STEPS = 3

# Errors are relative to the standard deviation of the logits.
_NEGLIGIBLE_ERROR = 1e-4
_MAX_ROUNDING = 0.25
_ROUNDING_FACTOR = 8.0
"""Largest ratio of an error to the rounding of equal work."""
_ROUNDING_OF_HALVES = 0.0125
"""See :func:`pass_rounding`."""

_Logits: TypeAlias = npt.NDArray[np.float32]


class ModelChecks:
    """Determines which passes a model computes correctly; each kind of pass is checked once.

    To be used on the thread that runs the model.

    Args:
        model: The model.
    """

    def __init__(self, model: Module) -> None:
        self._model = model
        self._results: dict[str, bool] = {}

    def can_decode(self) -> bool:
        """Return whether rows of different lengths can share a pass over one token each."""
        return self._check("decoding")

    def can_pad(self) -> bool:
        """Return whether rows can take different numbers of tokens in one pass."""
        return self.can_decode() and self._check("padding")

    def can_score(self) -> bool:
        """Return whether rows can share the keys and values of a prefix."""
        return self._check("shared prefixes")

    def check_wide_pass(self, cache: list[Any], token_ids: Sequence[int]) -> bool:
        """Return whether a pass over some tokens has the logits of passes over single tokens.

        It is determined once for texts within the window of rotating caches, and once for longer
        ones, by four passes with the cache of a request: a check beyond the window would otherwise
        need a prefill of that length.

        Args:
            cache: The cache before the pass. A check restores it.
            token_ids: The tokens, at least one, the same for all rows of a batch cache.
        """
        kind = _kind_of_wide_pass(cache)
        if kind != _kind_of_wide_pass(cache, len(token_ids)):
            # The pass crosses the end of the window, where a check finds nothing yet.
            return self._results.get(_BEYOND_WINDOW, False)
        if kind not in self._results:
            tokens = (list(token_ids) * _STEPS)[:_STEPS]
            error = _wide_pass_error(self._model, cache, tokens)
            self._results[kind] = is_rounding(kind, error, pass_rounding(self._model))
        return self._results[kind]

    def is_wide_pass_known_wrong(self, cache: Sequence[Any]) -> bool:
        """Return whether a check has found wrong logits in passes over several tokens."""
        if self._results.get(_WITHIN_WINDOW, True) and self._results.get(_BEYOND_WINDOW, True):
            return False
        return not self._results.get(_kind_of_wide_pass(cache), True)

    def _check(self, operation: str) -> bool:
        if operation not in self._results:
            self._results[operation] = self._compare(operation)
        return self._results[operation]

    def _compare(self, operation: str) -> bool:
        """Compare the logits of several rows with the logits of single texts."""
        try:
            texts = _texts(self._model)
            rows = _rows_together(self._model, operation, texts, list(range(len(texts))))
            error = _largest_error(rows, texts)
            rounding = 0.0
            if not error <= _NEGLIGIBLE_ERROR:
                for number, text in enumerate(texts):
                    # Rows of equal lengths are computed correctly by any model that takes a batch.
                    same = "decoding" if operation == "shared prefixes" else operation
                    rows = _rows_together(self._model, same, texts, [number, number])
                    rounding = max(rounding, _largest_error(rows, [text, text]))
        except Exception as exception:
            _log.info("%s of several rows fails with this model: %s", operation, exception)
            return False
        return is_rounding(f"{operation} of several rows", error, rounding)


def is_rounding(work: str, error: float, rounding: float) -> bool:
    """Return whether an error of logits is rounding.

    Args:
        work: Names the passes that have the error.
        error: Their error, see :func:`logits_error`.
        rounding: The error of passes of the same kind that are known to be right.
    """
    if error <= _NEGLIGIBLE_ERROR:
        return True
    if rounding <= _MAX_ROUNDING and error <= _ROUNDING_FACTOR * rounding:
        return True
    _log.info(
        "%s gives other logits with this model: they differ by %.3g of their standard deviation, "
        "where rounding is %.3g",
        *(work, error, rounding),
    )
    return False


def logits_error(found: _Logits, expected: _Logits) -> float:
    """Return the difference of logits relative to their standard deviation: the median of tokens.

    A wrong pass may be right for the first or the last token. A mixture of experts may choose
    another expert for one token because of rounding.

    Args:
        found: Shape (tokens, vocabulary).
        expected: The same shape. Masked tokens, at ``-inf``, should be masked in ``found``.
    """
    with np.errstate(invalid="ignore"):
        differences = np.where(found == expected, 0, found - expected)
        deviations = expected.std(axis=-1, where=np.isfinite(expected))
    errors = np.sqrt((differences**2).mean(axis=-1)) / np.maximum(deviations, 1e-9)
    return float(np.median(errors))


def pass_rounding(model: Module) -> float:
    """Return the rounding of equal passes that are divided differently.

    Products of matrices round with numbers of 16 bits, and on a GPU, which rounds their factors.
    """
    leaves = cast("list[tuple[str, Any]]", tree_flatten(model.parameters()))
    has_halves = any(array.dtype in (mx.float16, mx.bfloat16) for _, array in leaves)
    is_on_gpu = mx.default_device().type == mx.DeviceType.gpu
    return _ROUNDING_OF_HALVES if has_halves or is_on_gpu else 0.0


class _AloneText:
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


def _texts(model: Module) -> list[_AloneText]:
    is_on_gpu = mx.default_device().type == mx.DeviceType.gpu
    width = int(model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model)).shape[-1])

    def text(length: int) -> _AloneText:
        positions = range(length + _STEPS)
        ids = [(7919 * n * n + 104729 * length + 31) % width for n in positions]
        return _AloneText(model, ids[:length], ids[length:])

    return [text(_SHORT_PROMPT), text(_LONG_PROMPT_ON_GPU if is_on_gpu else _LONG_PROMPT_ON_CPU)]


def _rows_together(
    model: Module, operation: str, texts: list[_AloneText], numbers: list[int]
) -> _Logits:
    """Return the logits of a batch of the texts with these numbers."""
    return _OPERATIONS[operation](model, [texts[number] for number in numbers])


def _after_merging(model: Module, rows: list[_AloneText]) -> _Logits:
    """Decode after prompts that were processed alone."""
    return _decode(model, rows, merge([copy_cache(text.cache) for text in rows]))


def _after_padding(model: Module, rows: list[_AloneText]) -> _Logits:
    """Decode after prompts that were processed together, padded on the right."""
    lengths = [len(text.prompt) for text in rows]
    tokens = [[*text.prompt, *[0] * (max(lengths) - len(text.prompt))] for text in rows]
    cache = merge([make_prompt_cache(model) for _ in rows])
    with right_padded(cache, lengths):
        model(mx.array(tokens), cache=cache)
    mx.eval([layer.state for layer in cache])
    return _decode(model, rows, cache)


def _after_prefix(model: Module, texts: list[_AloneText]) -> _Logits:
    """Read answers in one pass behind the cache of their prompts, with another row each."""
    found = []
    for text in texts:
        caches = prefix_caches(prefix_layers(text.cache, 0, len(text.prompt)))
        rows = mx.array([text.answer, text.answer[::-1]])
        found.append(np.array(model(rows, cache=caches)[0].astype(mx.float32)))
    return np.stack(found)


_OPERATIONS: dict[str, Callable[[Module, list[_AloneText]], _Logits]] = {
    "decoding": _after_merging,
    "padding": _after_padding,
    "shared prefixes": _after_prefix,
}
"""Operations on several rows."""


def _largest_error(rows: _Logits, texts: Sequence[_AloneText]) -> float:
    errors = [logits_error(row, text.logits) for row, text in zip(rows, texts, strict=True)]
    return float(np.max(errors))


def _decode(model: Module, texts: Sequence[_AloneText], cache: list[Any]) -> _Logits:
    """Return the logits after each token of the answers, shape (rows, steps, vocabulary)."""
    return _read(model, mx.array([text.answer for text in texts]), cache, _STEPS)


def _read(model: Module, tokens: mx.array, cache: list[Any], passes: int) -> _Logits:
    """Return the logits behind all tokens, which are read in passes of equal widths."""
    found = [model(part, cache=cache) for part in mx.split(tokens, passes, axis=1)]
    return np.array(mx.concatenate(found, axis=1).astype(mx.float32))


def _wide_pass_error(model: Module, cache: list[Any], token_ids: Sequence[int]) -> float:
    """Return the error of one pass over some tokens. The cache is restored."""
    rows, found = [list(token_ids)] * _row_count(cache), []
    for passes in (1, len(token_ids)):
        lengths = [len(row) for row in rows]
        rollback = Rollback.before(cache, lengths)
        found.append(_read(model, mx.array(rows), cache, passes)[0])
        rollback.drop(lengths)
    return logits_error(*found)


def _row_count(cache: Sequence[Any]) -> int:
    for layer in flat(cache):
        if isinstance(layer, ArraysCache):
            return int(layer.batch_size)
        if getattr(layer, "left_padding", None) is not None:
            return int(layer.left_padding.size)
    return 1


_WITHIN_WINDOW = "a pass over several tokens"
_BEYOND_WINDOW = "a pass over several tokens beyond the window"


def _kind_of_wide_pass(cache: Sequence[Any], count: int = 0) -> str:
    """Return whether a rotating cache drops entries with ``count`` more tokens."""
    for layer in flat(cache):
        is_batch = isinstance(layer, BatchRotatingKVCache)
        if is_batch or isinstance(layer, RotatingKVCache):
            offset = layer._offset if is_batch else layer.offset
            if offset + count >= layer.max_size:
                return _BEYOND_WINDOW
    return _WITHIN_WINDOW
