"""How much memory models take, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path

import mlx.core as mx

from .. import own_process

__all__ = ["available_bytes", "release", "total_bytes", "used_bytes", "weights_bytes"]


def used_bytes() -> int:
    """Bytes of all arrays that there are."""
    return int(mx.get_active_memory())


def release() -> int:
    """Give back what nobody uses any more; return the bytes that are still used."""
    # Models hold themselves in cycles.
    own_process.collect()
    mx.clear_cache()
    return used_bytes()


def available_bytes(limit: int | None = None) -> int:
    """Bytes that can be had besides those that are used; of ``limit`` bytes where it is given."""
    if limit is not None:
        return limit - used_bytes()
    total = _device_bytes()
    return _available_to_processes() if total is None else total - used_bytes()


def total_bytes(limit: int | None = None) -> int:
    """Bytes that models could have, if nothing else were there; ``limit`` where it is given."""
    if limit is not None:
        return limit
    return _device_bytes() or _physical_bytes()


def _device_bytes() -> int | None:
    if mx.default_device().type != mx.DeviceType.gpu:
        return None
    # Older versions have it for Metal alone.
    facts = (getattr(mx, "device_info", None) or mx.metal.device_info)()
    total = facts.get("max_recommended_working_set_size") or facts.get("memory_size")
    return total if isinstance(total, int) else None


def weights_bytes(directory: Path) -> int:
    """The size of a model's weights as files."""
    return sum(path.stat().st_size for path in directory.glob("model*.safetensors"))


def _available_to_processes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    # What the system keeps of files counts as taken here: rather too little than too much.
    return _physical_bytes() - used_bytes()


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
