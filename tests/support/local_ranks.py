"""Programs that end on every rank."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ranks import ranks

__all__ = ["run_ranks"]


def run_ranks(size: int, arguments: Sequence[str]) -> list[str]:
    """Run a Python program once per rank, and return what each printed.

    Args:
        size: Number of ranks.
        arguments: Arguments of the Python interpreter.

    Raises:
        AssertionError: A rank failed.
    """
    with (
        tempfile.TemporaryDirectory() as directory,
        ranks(arguments, size, Path(directory)) as started,
    ):
        statuses = [rank.status() for rank in started]
        outputs = [rank.output for rank in started]
    assert not any(statuses), f"the ranks returned {statuses}:\n" + "\n".join(outputs)
    return outputs
