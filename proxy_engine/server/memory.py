"""Memory of models: used, available, and in total."""

from __future__ import annotations

import os
from pathlib import Path

import mlx.core as mx

from .. import own_process


def used_bytes() -> int:
    """Bytes of all MLX arrays."""
    return int(mx.get_active_memory())


def release_unused() -> int:
    """Free memory that is no longer referenced; return the bytes still in use."""
    # A model's layers reference each other in cycles.
    own_process.collect()
    mx.clear_cache()
    return used_bytes()


def available_bytes(limit: int | None = None) -> int:
    """Bytes that can be allocated besides those in use, under ``limit`` if it is given."""
    if limit is not None:
        return limit - used_bytes()
    total = _device_bytes()
    return _available_to_processes() if total is None else total - used_bytes()


def total_bytes(limit: int | None = None) -> int:
    """Bytes for models in an otherwise idle system; ``limit`` if it is given."""
    if limit is not None:
        return limit
    return _device_bytes() or _physical_bytes()


def weights_bytes(directory: Path) -> int:
    """The size of a model's weight files."""
    return sum(path.stat().st_size for path in directory.glob("model*.safetensors"))


def _device_bytes() -> int | None:
    if mx.default_device().type != mx.DeviceType.gpu:
        return None
    # Older versions of MLX offer it for Metal only.
    facts = (getattr(mx, "device_info", None) or mx.metal.device_info)()
    total = facts.get("max_recommended_working_set_size") or facts.get("memory_size")
    return total if isinstance(total, int) else None


def _available_to_processes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    # Underestimates: the file cache counts as used.
    return _physical_bytes() - used_bytes()


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
