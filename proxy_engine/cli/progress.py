"""Progress bars on a terminal, drawn by Rich."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..runtime.progress import to_stderr
from .output import writing_to_standard_output

_SECONDS_BETWEEN_LINES = 30


def is_shown(is_quiet: bool) -> bool:
    """Whether standard error is a terminal on which to show progress."""
    # Checked here: Rich also accepts an environment variable in place of a terminal.
    return not is_quiet and sys.stderr.isatty()


def text_progress(*, is_quiet: bool) -> Progress:
    """Return a progress line for one text, erased when it stops; silent without a terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=not is_shown(is_quiet),
    )


@contextmanager
def seconds_progress(name: str, *, is_quiet: bool) -> Iterator[Callable[[float, float], None]]:
    """Show how much of a recording is done, as a bar that is erased; silent without a terminal.

    Yields a function of the seconds that are done and the seconds of the recording.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[seconds]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=not is_shown(is_quiet),
    )
    task = bar.add_task(name, total=None, seconds="")

    def advance(done: float, total: float) -> None:
        bar.update(task, completed=done, total=total, seconds=f"{done:.0f} of {total:.0f} s")

    with bar:
        yield advance


class LinesProgress:
    """A context manager that shows a bar of finished lines; silent without a terminal.

    Args:
        total: The number of input lines; ``None`` if unknown.
        done: The lines that an interrupted run finished.
        failed: The failures among these.
        is_beside_results: Whether standard output is a terminal that shows the results. Bar and
            results are then written by one object, so that neither overwrites the other.
        is_quiet: Whether to show nothing.
    """

    def __init__(
        self, total: int | None, *, done: int, failed: int, is_beside_results: bool, is_quiet: bool
    ) -> None:
        self._failed = failed
        self._is_beside_results = is_beside_results
        self._progress = Progress(
            SpinnerColumn(),
            # Narrow: all columns fit into a terminal of 80 characters.
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            _RateColumn(),
            *(
                (TimeElapsedColumn(),)
                if total is None
                else (TimeRemainingColumn(), TextColumn("left"))
            ),
            TextColumn("{task.fields[failed]} failed"),
            console=Console(stderr=not is_beside_results),
            # Rich must not draw the results, which are written to standard output.
            redirect_stdout=False,
            disable=not is_shown(is_quiet),
        )
        self._task: TaskID = self._progress.add_task("", total=total, completed=done, failed=failed)

    def __enter__(self) -> LinesProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, *, is_failure: bool) -> None:
        """Count a finished line."""
        self._failed += is_failure
        self._progress.update(self._task, advance=1, failed=self._failed)

    def print_result(self, line: str) -> None:
        """Write a line to standard output, above the bar.

        Raises:
            OutputFileError: The line cannot be written.
        """
        with writing_to_standard_output():
            if self._is_beside_results and not self._progress.disable:
                self._progress.console.print(Text(line), soft_wrap=True)
            else:
                print(line, flush=True)


class PartitionsProgress:
    """A context manager that shows a bar of finished partitions.

    Without a terminal, as in jobs of a cluster, it writes a line from time to time.

    Args:
        total: The number of partitions.
        done: Those that earlier runs finished.
        is_quiet: Whether to show nothing.
    """

    def __init__(self, total: int, *, done: int, is_quiet: bool) -> None:
        self._done, self._total = done, total
        self._has_lines = not is_quiet and not sys.stderr.isatty()
        self._written = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("partitions, {task.fields[rows]:,} rows, {task.fields[failed]:,} failed"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            redirect_stdout=False,
            disable=not is_shown(is_quiet),
        )
        self._task = self._progress.add_task("", total=total, completed=done, rows=0, failed=0)

    def __enter__(self) -> PartitionsProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, rows: int, failed: int) -> None:
        """Count a finished partition.

        Args:
            rows: The rows of this run so far.
            failed: The failures among them.
        """
        self._done += 1
        self._progress.update(self._task, advance=1, rows=rows, failed=failed)
        now = time.monotonic()
        if self._has_lines and now - self._written >= _SECONDS_BETWEEN_LINES:
            self._written = now
            counts = f"{rows:,} rows, {failed:,} failed"
            to_stderr(f"{self._done} of {self._total} partitions, {counts}")


class _RateColumn(ProgressColumn):
    """Lines per second; seconds per line below one line per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("–")
        return Text(f"{speed:.1f} lines/s" if speed >= 1 else f"{1 / speed:.1f} s/line")
