"""How much memory this process has."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

__all__ = ["peak_memory", "resident_memory"]

_STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    # Linux's ru_maxrss is inherited from the process that started this one.
    if _STATUS.exists():
        return _status("VmHWM:")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """The resident size of this process now, in bytes."""
    if _STATUS.exists():
        return _status("VmRSS:")
    command = ["ps", "-o", "rss=", "-p", str(os.getpid())]
    return int(subprocess.run(command, capture_output=True, check=True).stdout) * 1024


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {field}")
