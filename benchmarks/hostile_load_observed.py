"""The command line of Proxy Engine, with the runs of its garbage collector in the log.

Arguments are those of ``python -m proxy_engine``. Runs of less than a millisecond are left out.
The environment variable ``HOSTILE_LOAD_NO_PROMPT_CACHE`` switches the prompt cache off.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from functools import partial

__all__ = ["NO_PROMPT_CACHE", "main"]

NO_PROMPT_CACHE = "HOSTILE_LOAD_NO_PROMPT_CACHE"

_SHORTEST = 0.001
_STDERR = 2


class _Collections:
    """Writes a line for every run, in one call, since other threads write to the log as well."""

    def __init__(self) -> None:
        self._started = self._used = 0.0

    def __call__(self, phase: str, facts: dict[str, int]) -> None:
        now, used = time.monotonic(), time.thread_time()
        if phase == "start":
            self._started, self._used = now, used
        elif now - self._started >= _SHORTEST:
            line = {
                "event": "collected",
                "generation": facts["generation"],
                "seconds": round(now - self._started, 6),
                "cpu_seconds": round(used - self._used, 6),
                "ended": round(now, 6),
                "collected": facts["collected"],
            }
            os.write(_STDERR, (json.dumps(line) + "\n").encode())


def main() -> int:
    """Run the command. Returns its exit status."""
    # The directory of this file is no part of the program.
    sys.path.pop(0)
    gc.callbacks.append(_Collections())
    # Deferred: which checkout this is depends on the path.
    from proxy_engine import CacheOptions, InferenceEngine  # noqa: PLC0415
    from proxy_engine.cli.main import main as run  # noqa: PLC0415
    from proxy_engine.server import app  # noqa: PLC0415

    if NO_PROMPT_CACHE in os.environ:
        make = partial(InferenceEngine, cache=CacheOptions(max_bytes=0))
        app.InferenceEngine = make  # type: ignore[misc, assignment]
    return run()


if __name__ == "__main__":
    sys.exit(main())
