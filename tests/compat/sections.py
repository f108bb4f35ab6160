"""The generated sections of ``docs/compatibility.md``."""

from __future__ import annotations

from collections.abc import Sequence

from results import Result, results_table

__all__ = ["sections"]


def sections(results: Sequence[Result]) -> dict[str, str]:
    """Return the content of each generated section by its name."""
    return {"clients": results_table(results)}
