"""Progress of an extraction, as a bar or as counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from tqdm import tqdm

from ..runtime.extras import import_extra

_SECONDS_BETWEEN_UPDATES = 0.1


class ExtractionProgress(NamedTuple):
    """Counts of an extraction.

    Attributes:
        done: Records with a result or an error.
        failed: The number of records with an error.
        total: All records; ``None`` if unknown.
        cut_short: Records whose answer a limit cut short.
    """

    done: int
    failed: int
    total: int | None
    cut_short: int = 0

    def after(self, is_failure: bool, is_cut: bool) -> ExtractionProgress:
        """Return the counts after a further record."""
        return ExtractionProgress(
            self.done + 1, self.failed + is_failure, self.total, self.cut_short + is_cut
        )

    @property
    def has_problems(self) -> bool:
        """Whether a record failed, or an answer was cut short."""
        return bool(self.failed or self.cut_short)

    @property
    def problems(self) -> str:
        """The failed records and the answers that were cut short, in words."""
        return f"{self.failed:,} failed, {self.cut_short:,} cut short"


Advance: TypeAlias = Callable[[bool, bool], None]
"""Called with each record: whether it failed, and whether a limit cut its answer short."""

Progress: TypeAlias = bool | Callable[[ExtractionProgress], object] | None
"""Whether to show a bar, or a function of the counts. ``None``: a bar on a terminal or notebook."""


@contextmanager
def showing(progress: Progress, total: int | None) -> Iterator[Advance]:
    """Show progress; yields a function to call with each record."""
    if callable(progress):
        yield _counting(progress, total)
    elif progress is not False and _in_notebook():
        cell = _NotebookBar()
        yield _counting(cell.show, total)
        cell.end()
    else:
        is_shown = is_terminal() if progress is None else progress
        with showing_bar(total, unit="record", is_shown=is_shown) as advance:
            yield advance


@contextmanager
def showing_bar(total: int | None, *, unit: str, is_shown: bool) -> Iterator[Advance]:
    """Show a bar on standard error; yields a function as :func:`showing` does.

    Args:
        total: The number of records; ``None`` if unknown.
        unit: The noun for a record.
        is_shown: Whether to show it.
    """
    counts = ExtractionProgress(0, 0, total)

    def advance(is_failure: bool, is_cut: bool) -> None:
        nonlocal counts
        counts = counts.after(is_failure, is_cut)
        if is_failure or is_cut:
            bar.set_postfix_str(counts.problems, refresh=False)
        bar.update()

    # Some terminals do not know their height; tqdm would then show nothing.
    with tqdm(total=total, unit=unit, disable=not is_shown, nrows=20) as bar:
        yield advance


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def _counting(progress: Callable[[ExtractionProgress], object], total: int | None) -> Advance:
    counts = ExtractionProgress(0, 0, total)

    def advance(is_failure: bool, is_cut: bool) -> None:
        nonlocal counts
        counts = counts.after(is_failure, is_cut)
        progress(counts)

    return advance


class _NotebookBar:
    """A bar in the output of a cell. Unlike that of tqdm it needs no ipywidgets."""

    def __init__(self) -> None:
        module = import_extra("notebook", "IPython.display", purpose="the progress bar")
        self._handle: Any = module.DisplayHandle()
        self._begun = self._updated = perf_counter()
        self._counts = ExtractionProgress(0, 0, None)
        self._is_displayed = False

    def show(self, counts: ExtractionProgress) -> None:
        self._counts = counts
        if perf_counter() - self._updated >= _SECONDS_BETWEEN_UPDATES:
            self.end()

    def end(self) -> None:
        """Show the counts so far."""
        done, _, total, _ = self._counts
        self._updated = perf_counter()
        value = "" if total is None else f' value="{done}" max="{max(total, 1)}"'
        text = f"{done:,}{'' if total is None else f' of {total:,}'} records"
        text += f", {self._counts.problems}" if self._counts.has_problems else ""
        text += f", {self._updated - self._begun:.0f} s"
        bundle = {"text/html": f"<progress{value}></progress> {text}", "text/plain": text}
        show = self._handle.update if self._is_displayed else self._handle.display
        show(bundle, raw=True)
        self._is_displayed = True


def _in_notebook() -> bool:
    """Whether the process is a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config
