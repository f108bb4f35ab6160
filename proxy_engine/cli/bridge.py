"""``bridge``: the engine as a subprocess of programs in other languages."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ..runtime.progress import to_stderr
from .errors import CommandLineError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_MAX_LINE_BYTES = 16 << 20

_DESCRIPTION = """\
Reads commands from standard input and writes replies to standard output, one JSON object a line,
until {"cmd": "quit"} or the end of the input; see docs/bridge.md. All other output is written to
standard error."""


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bridge", help="JSON Lines for programs in other languages", description=_DESCRIPTION
    )
    parser.add_argument(
        "--max-line-bytes",
        type=int,
        default=_MAX_LINE_BYTES,
        metavar="N",
        help="maximum length of an input line (default: %(default)s)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.max_line_bytes < 1:
        raise CommandLineError("--max-line-bytes must be at least 1")
    source, target = _take_standard_streams()
    # Deferred: a library that prints on import must not write among the replies.
    from ..bridge.process import serve  # noqa: PLC0415

    if os.isatty(source):
        to_stderr('Reading commands from the terminal; end with {"cmd": "quit"} or Ctrl-D.')
    return serve(source, target, max_line_bytes=options.max_line_bytes)


def _take_standard_streams() -> tuple[int, int]:
    """Duplicate the descriptors of standard input and output, and redirect the originals.

    Afterwards native libraries and subprocesses read nothing from standard input, and write to
    standard error in place of standard output.
    """
    # A stream that was closed at the start is `None`; its descriptor may be another file's by now.
    if sys.stdin is None or sys.stdout is None:
        raise CommandLineError("standard input or output is closed")
    sys.stdout.flush()
    source, target = os.dup(_STDIN), os.dup(_STDOUT)
    for descriptor in (source, target):
        # Some runtimes pass non-blocking pipes to subprocesses.
        os.set_blocking(descriptor, True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, _STDIN)
    try:
        os.dup2(_STDERR, _STDOUT)
    except OSError:
        os.dup2(nothing, _STDOUT)
    return source, target
