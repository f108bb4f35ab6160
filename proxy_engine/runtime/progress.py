"""Progress of downloads and conversions, logged and passed to the caller's callback."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TypeAlias

OnProgress: TypeAlias = Callable[[str], None]
"""Called with one line of text at the start and the end of each step."""

_logger = logging.getLogger(__name__)


def announce(line: str, on_progress: OnProgress | None) -> None:
    """Log a line at level INFO and pass it to the callback, if there is one."""
    _logger.info(line)
    if on_progress is not None:
        on_progress(line)


def to_stderr(line: str) -> None:
    """Print a line to standard error."""
    print(line, file=sys.stderr, flush=True)
