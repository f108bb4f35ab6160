"""How an engine caches what it has read."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InvalidOptionError

__all__ = ["CacheOptions"]

# What mlx.core.quantize takes.
_BITS = (2, 3, 4, 5, 6, 8)
_GROUP_SIZES = (32, 64, 128)
# A rotating cache holds on to the first four tokens, and needs room beside them.
_LEAST_KV_SIZE = 5


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """What is cached of a model's keys and values, and how; the first four as mlx-lm names them.

    * ``max_kv_size``: the most tokens that a layer remembers; of a longer text the first four and
      the latest. ``None``: all. Only for models whose layers remember everything otherwise (no
      sliding window, no recurrent state), and not together with ``kv_bits``.
    * ``kv_bits``: the width of quantized keys and values: 2, 3, 4, 5, 6 or 8. ``None``: they are
      kept as the model computes them.
    * ``kv_group_size``: how many numbers share a scale: 32, 64 or 128.
    * ``quantized_kv_start``: a text is quantized from this many tokens on.
    * ``max_bytes``: the most that is kept of earlier requests, beside what the running ones use.
      0: every prompt is read from its beginning.
    * ``max_checkpoints``: at how many lengths of a prompt a copy is kept, where a model's cache
      cannot be shortened (a sliding window, a recurrent state).

    Raises ``InvalidOptionError``.
    """

    max_kv_size: int | None = None
    kv_bits: int | None = None
    kv_group_size: int = 64
    quantized_kv_start: int = 5000
    max_bytes: int = 2 << 30
    max_checkpoints: int = 4

    def __post_init__(self) -> None:
        if self.max_kv_size is not None:
            _check_count("max_kv_size", self.max_kv_size, _LEAST_KV_SIZE)
        if self.kv_bits is not None:
            _check_one_of("kv_bits", self.kv_bits, _BITS)
        _check_one_of("kv_group_size", self.kv_group_size, _GROUP_SIZES)
        for name in ("quantized_kv_start", "max_bytes", "max_checkpoints"):
            _check_count(name, getattr(self, name), 0)
        if self.max_kv_size is not None and self.kv_bits is not None:
            raise InvalidOptionError(
                "a cache of bounded size cannot be quantized",
                option="kv_bits",
                hint="Give max_kv_size or kv_bits, not both.",
            )


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidOptionError(
            f"{name} must be an integer of at least {least}, not {value!r}", option=name
        )


def _check_one_of(name: str, value: object, known: tuple[int, ...]) -> None:
    if isinstance(value, bool) or value not in known:
        listed = ", ".join(map(str, known))
        raise InvalidOptionError(f"{name} must be one of {listed}, not {value!r}", option=name)
