"""The commands, and what every one of them does about errors.

Exit status: 0 done; 1 the work failed, or some of it; 2 the command line is wrong or names
something that is not there, and no work was begun; 130 interrupted; 141 the reader of standard
output went away; 143 terminated.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from state_machines.errors import ProxyError

from . import bridge, extract, fetch_model, serve
from .errors import CommandLineError
from .standard_output import discard_standard_output, writing_to_standard_output

__all__ = ["main"]

_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments`` (``sys.argv`` for ``None``); returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="proxy-engine", description="Language-model output that matches its schema."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (extract, serve, bridge, fetch_model):
        module.add_parser(commands)
    options = parser.parse_args(arguments)
    # JSON is UTF-8 whatever the locale says.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        status: int = options.run(options)
        with writing_to_standard_output():
            sys.stdout.flush()
    except CommandLineError as error:
        _complain(str(error))
        return 2
    except ProxyError as error:
        _complain(str(error))
        _flush_or_discard()
        return 1
    except KeyboardInterrupt:
        _complain("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        discard_standard_output()
        return _BROKEN_PIPE
    return status


def _flush_or_discard() -> None:
    """Flush standard output; discard the rest if that fails."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_standard_output()


def _complain(message: str) -> None:
    print(f"proxy-engine: {message}", file=sys.stderr)
