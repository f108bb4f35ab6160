"""``bridge``: the engine for programs in other languages, which start this as a subprocess."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ..progress import to_stderr
from .errors import CommandLineError
from .standard_output import writing_to_standard_output

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["add_parser"]

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_LONGEST_LINE = 16 << 20

_DESCRIPTION = """\
Reads commands from standard input, one JSON object a line, and writes replies to standard output,
one JSON object a line, until {"cmd": "quit"} or the end of the input; see docs/bridge.md.
Everything else goes to standard error."""


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bridge", help="JSON Lines for programs in other languages", description=_DESCRIPTION
    )
    parser.add_argument(
        "--max-line-bytes",
        type=int,
        default=_LONGEST_LINE,
        metavar="N",
        help="refuse longer lines of input (default: %(default)s)",
    )
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of all messages, and end"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.max_line_bytes < 1:
        raise CommandLineError("--max-line-bytes must be at least 1")
    if options.schema:
        # Deferred: `--help` of another command need not wait for it.
        from ..bridge.protocol_schema import protocol_schema_text  # noqa: PLC0415

        with writing_to_standard_output():
            print(protocol_schema_text(), end="")
        return 0
    source, target = _claimed()
    # Deferred: until now, whatever a library printed would have been taken for a reply.
    from ..bridge.process import serve  # noqa: PLC0415

    if os.isatty(source):
        to_stderr('Reading commands from the terminal; {"cmd": "quit"} or Ctrl-D ends it.')
    return serve(source, target, longest_line=options.max_line_bytes)


def _claimed() -> tuple[int, int]:
    """File descriptors of what standard input and output were.

    From now on others read nothing from the one, and write to standard error with the other: also
    libraries that are not Python's, and processes that are started.
    """
    # What was closed at the beginning is `None`; its number may be another file's by now.
    if sys.stdin is None or sys.stdout is None:
        raise CommandLineError("the bridge needs standard input and output, and one is closed")
    sys.stdout.flush()
    source, target = os.dup(_STDIN), os.dup(_STDOUT)
    for descriptor in (source, target):
        # Some runtimes hand down pipes that do not wait.
        os.set_blocking(descriptor, True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, _STDIN)
    try:
        os.dup2(_STDERR, _STDOUT)
    except OSError:
        os.dup2(nothing, _STDOUT)
    return source, target
