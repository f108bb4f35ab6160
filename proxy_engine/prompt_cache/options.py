"""Options of an engine's prompt cache."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InvalidOptionError

__all__ = ["CacheOptions"]

# Supported by mlx.core.quantize.
_BITS = (2, 3, 4, 5, 6, 8)
_GROUP_SIZES = (32, 64, 128)
# A rotating cache keeps the first four tokens and needs room for one more.
_MIN_KV_SIZE = 5


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """How keys and values are cached. The first four names are mlx-lm's.

    Attributes:
        max_kv_size: Most tokens that a layer remembers: the first four of a text and the latest.
            ``None``: all tokens. Only for models without sliding windows and recurrent states, and
            not together with ``kv_bits``.
        kv_bits: Bits of quantized keys and values: 2, 3, 4, 5, 6 or 8. ``None``: no quantization.
        kv_group_size: Values that share a scale: 32, 64 or 128.
        quantized_kv_start: Length of a text, in tokens, from which on it is quantized.
        max_bytes: Bound on the cached texts of earlier requests, in bytes. Running requests are not
            counted. 0 disables prompt caching.
        max_checkpoints: Copies per prompt, if the model's cache cannot be trimmed (a sliding
            window, a recurrent state).

    Raises:
        InvalidOptionError: A value is out of range.
    """

    max_kv_size: int | None = None
    kv_bits: int | None = None
    kv_group_size: int = 64
    quantized_kv_start: int = 5000
    max_bytes: int = 2 << 30
    max_checkpoints: int = 4

    def __post_init__(self) -> None:
        if self.max_kv_size is not None:
            _check_count("max_kv_size", self.max_kv_size, _MIN_KV_SIZE)
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


def _check_count(name: str, value: object, minimum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InvalidOptionError(
            f"{name} must be an integer of at least {minimum}, not {value!r}", option=name
        )


def _check_one_of(name: str, value: object, known: tuple[int, ...]) -> None:
    if isinstance(value, bool) or value not in known:
        listed = ", ".join(map(str, known))
        raise InvalidOptionError(f"{name} must be one of {listed}, not {value!r}", option=name)
