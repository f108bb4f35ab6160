"""Progress of an extraction, as a bar of tqdm or as counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from tqdm.auto import tqdm


class ExtractionProgress(NamedTuple):
    """Counts of an extraction.

    Attributes:
        done: Records with a result or an error.
        failed: Those of them with an error.
        total: All records; ``None`` if unknown.
    """

    done: int
    failed: int
    total: int | None


Progress: TypeAlias = bool | Callable[[ExtractionProgress], object] | None
"""Whether to show a bar, or a function of the counts. ``None``: a bar on a terminal or notebook."""


@contextmanager
def showing(progress: Progress, total: int | None) -> Iterator[Callable[[bool], None]]:
    """Show progress; yields a function to call with each record, and whether it failed."""
    if callable(progress):
        yield _counting(progress, total)
        return
    is_shown = _has_display() if progress is None else progress
    with tqdm(total=total, unit="record", disable=not is_shown) as bar:
        failed = 0

        def advance(is_failure: bool) -> None:
            nonlocal failed
            failed += is_failure
            if is_failure:
                bar.set_postfix(failed=failed, refresh=False)
            bar.update()

        yield advance


def _counting(
    progress: Callable[[ExtractionProgress], object], total: int | None
) -> Callable[[bool], None]:
    counts = ExtractionProgress(0, 0, total)

    def advance(is_failure: bool) -> None:
        nonlocal counts
        counts = ExtractionProgress(counts.done + 1, counts.failed + is_failure, total)
        progress(counts)

    return advance


def _has_display() -> bool:
    """Whether standard error is a terminal, or the process a kernel of Jupyter."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config
