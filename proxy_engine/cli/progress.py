"""Progress bars on a terminal, drawn by Rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

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
