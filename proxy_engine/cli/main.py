"""The command line and its exit statuses.

Exit status: 0 success; 1 failure of all or part of the work; 2 a wrong command line or a missing
input, before any work; 130 interrupted; 141 standard output closed by its reader; 143 terminated.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import sys
from collections.abc import Sequence
from typing import Any

from state_machines.errors import ProxyError

from . import bridge, extract, fetch_model, serve, transcribe
from .errors import CommandLineError, discard_standard_output, writing_to_standard_output

_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line; ``None`` for ``sys.argv``.

    Returns:
        The exit status.
    """
    options = _parse(arguments)
    # JSON is UTF-8, independent of the locale.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        status: int = options.run(options)
        with writing_to_standard_output():
            sys.stdout.flush()
    except CommandLineError as error:
        _print_error(str(error))
        return 2
    except ProxyError as error:
        _print_error(str(error))
        _flush_or_discard()
        return 1
    except KeyboardInterrupt as error:
        _print_error(str(error) or "interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        discard_standard_output()
        return _BROKEN_PIPE
    return status


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="proxy-engine", description="Structured generation with language models on Apple MLX."
    )
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (extract, transcribe, serve, bridge, fetch_model):
        module.add_parser(commands)
    options, unknown = parser.parse_known_args(arguments)
    options.arguments = sys.argv[1:] if arguments is None else list(arguments)
    if hasattr(options, "flags"):
        # The command parses its flags itself.
        options.flags = unknown
    elif unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


class _Version(argparse.Action):
    """Prints the version. The package's metadata is read only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{parser.prog} {importlib.metadata.version('proxy-engine')}")
        parser.exit()


def _flush_or_discard() -> None:
    """Flush standard output; discard its buffer if that fails."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_standard_output()


def _print_error(message: str) -> None:
    print(f"proxy-engine: {message}", file=sys.stderr)
