"""Validation of cache options."""

from __future__ import annotations

import os
from pathlib import Path

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


def test_directory_of_other_writers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode in (0o777, 0o1777, 0o770, 0o702):
        tmp_path.chmod(mode)
        with pytest.raises(InvalidOptionError, match=rf"mode is {mode:o}; use `chmod 700`"):
            CacheOptions(directory=tmp_path)
    # A directory that does not exist is created with mode 0700.
    for directory in (tmp_path, tmp_path / "new"):
        tmp_path.chmod(0o755)
        CacheOptions(directory=directory)
    os.chown(tmp_path, 12_345, -1) if os.geteuid() == 0 else monkeypatch.setattr(
        os, "geteuid", lambda: 12_345
    )
    with pytest.raises(InvalidOptionError, match="belong to this user"):
        CacheOptions(directory=tmp_path)


def test_quantized_kv_start_has_the_default_of_mlx_lm() -> None:
    assert CacheOptions().quantized_kv_start == DEFAULT_QUANTIZED_KV_START
