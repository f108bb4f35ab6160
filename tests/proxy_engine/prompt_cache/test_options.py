"""Validation of cache options."""

from __future__ import annotations

import pytest
from mlx_lm.generate import DEFAULT_QUANTIZED_KV_START

from proxy_engine import InvalidOptionError
from proxy_engine.prompt_cache.options import CacheOptions


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_kv_size", 4),
        ("max_kv_size", True),
        ("max_kv_size", 8.0),
        ("kv_bits", 7),
        ("kv_bits", 0),
        ("kv_bits", "8"),
        ("kv_group_size", 48),
        ("kv_group_size", None),
        ("quantized_kv_start", -1),
        ("max_bytes", -1),
        ("max_bytes", None),
        ("max_checkpoints", -1),
    ],
)
def test_values_out_of_range_are_rejected(option: str, value: object) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        CacheOptions(**{option: value})  # type: ignore[arg-type]
    assert caught.value.option == option


def test_max_kv_size_with_kv_bits_is_rejected() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        CacheOptions(max_kv_size=100, kv_bits=8)
    assert caught.value.option == "kv_bits"


def test_quantized_kv_start_has_the_default_of_mlx_lm() -> None:
    assert CacheOptions().quantized_kv_start == DEFAULT_QUANTIZED_KV_START
