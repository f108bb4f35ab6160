"""How far the work is, on a terminal."""

from __future__ import annotations

import sys

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

from .standard_output import writing_to_standard_output

__all__ = ["LinesProgress", "is_shown", "text_progress"]


def is_shown(is_quiet: bool) -> bool:
    """Whether there is a terminal to show progress on."""
    # Asked here, for Rich takes an environment variable for a terminal, too.
    return not is_quiet and sys.stderr.isatty()


def text_progress(*, is_quiet: bool) -> Progress:
    """One line about one text, gone when it is stopped. Silent where there is no terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=not is_shown(is_quiet),
    )


class LinesProgress:
    """A bar of lines done, of ``total`` where that is known, while it is entered.

    ``done`` and ``failed`` are lines of an earlier run. Where the results are shown on the terminal
    (``is_beside_results``), both go through this, so that neither writes over the other. Silent
    where standard error is no terminal.
    """

    def __init__(
        self, total: int | None, *, done: int, failed: int, is_beside_results: bool, is_quiet: bool
    ) -> None:
        self._failed = failed
        self._is_beside_results = is_beside_results
        self._progress = Progress(
            SpinnerColumn(),
            # Narrow enough for all of them in 80 columns.
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
            # What goes to standard output is a result, and never to be drawn around the bar.
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
        """One line more is done."""
        self._failed += is_failure
        self._progress.update(self._task, advance=1, failed=self._failed)

    def print_result(self, line: str) -> None:
        """Write a line to standard output, above the bar where that is in the way.

        Raises ``OutputFileError``.
        """
        with writing_to_standard_output():
            if self._is_beside_results and not self._progress.disable:
                self._progress.console.print(Text(line), soft_wrap=True)
            else:
                print(line, flush=True)


class _RateColumn(ProgressColumn):
    """Lines a second, or seconds a line where that is the number to read."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("–")
        return Text(f"{speed:.1f} lines/s" if speed >= 1 else f"{1 / speed:.1f} s/line")
