"""The command line, its exit statuses, and the commands without many options.

Exit status: 0 success; 1 failure of all or part of the work; 2 a wrong command line or a missing
input, before any work; 130 interrupted; 141 standard output closed by its reader; 143 terminated.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from state_machines.errors import ProxyError

from ..errors import InvalidOptionError, MissingExtraError, OutputFileRefusedError
from ..options.generation import RENAMED_OPTIONS
from ..runtime.extras import import_extra, requires_extra
from ..runtime.process_runtime import to_stderr
from . import extract, transcribe
from .flags import (
    WRONG_COMMAND_LINE,
    CommandLineError,
    Parser,
    as_flag,
    discard_standard_output,
    in_flags,
    writing_to_standard_output,
)

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_INTERRUPTED = 130
_BROKEN_PIPE = 141

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_MAX_LINE_BYTES = 16 << 20

_BRIDGE = """\
Reads commands from standard input and writes replies to standard output, one JSON object a line,
until {"cmd": "quit"} or the end of the input; see docs/bridge.md. All other output is written to
standard error."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The command line; ``None`` for ``sys.argv``.

    Returns:
        The exit status.
    """
    options = _parse(arguments)
    names = vars(options)
    # JSON is UTF-8, independent of the locale.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        status: int = options.run(options)
        with writing_to_standard_output():
            sys.stdout.flush()
    except (CommandLineError, InvalidOptionError, OutputFileRefusedError) as error:
        _print_error(in_flags(str(error), names))
        return WRONG_COMMAND_LINE
    except ProxyError as error:
        _print_error(in_flags(str(error), names))
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
    parser = Parser(
        prog="proxy-engine", description="Structured generation with language models on Apple MLX."
    )
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    extract.add_parser(commands)
    transcribe.add_parser(commands)
    _add_small_commands(commands)
    if "_ARGCOMPLETE" in os.environ:
        import_extra("completion", "argcomplete", purpose="Completion").autocomplete(parser)
    options, unknown = parser.parse_known_args(arguments)
    options.arguments = sys.argv[1:] if arguments is None else list(arguments)
    if hasattr(options, "flags"):
        # The command parses its flags itself.
        options.flags = unknown
    elif unknown:
        former = {as_flag(name): as_flag(new) for name, new in RENAMED_OPTIONS.items()}
        renamed = [f"{flag} is named {former[flag]} now" for flag in unknown if flag in former]
        parser.error("; ".join(renamed) or f"unrecognized arguments: {' '.join(unknown)}")
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


def _add_small_commands(commands: _SubParsersAction[Parser]) -> None:
    # Its flags are parsed by `pydantic_settings`, once it is imported.
    parser = commands.add_parser("serve", help="serve a model to OpenAI's clients", add_help=False)
    parser.set_defaults(run=_serve, flags=[])
    parser = commands.add_parser(
        "bridge", help="JSON Lines for programs in other languages", description=_BRIDGE
    )
    parser.add_argument(
        "--max-line-bytes",
        type=int,
        default=_MAX_LINE_BYTES,
        metavar="N",
        help="maximum length of an input line (default: %(default)s)",
    )
    parser.set_defaults(run=_bridge)
    parser = commands.add_parser(
        "fetch-model",
        help="download and convert an embedded model",
        description="Downloads and converts an embedded model, unless that was done before, and "
        "prints its directory.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="whisper-tiny.en for the speech model (default: the model that answers prompts)",
    )
    parser.set_defaults(run=_fetch_model)


def _serve(options: argparse.Namespace) -> int:
    # Deferred: other commands need no server, and `--help` no MLX.
    try:
        with requires_extra("server", purpose="serve"):
            from ..server.settings import parse_settings  # noqa: PLC0415

            settings = parse_settings(options.flags)
            from ..server.serve import serve  # noqa: PLC0415
    except ValueError as error:
        raise CommandLineError(str(error)) from error
    except MissingExtraError as error:
        raise CommandLineError(error.what, hint=error.hint) from error
    return serve(settings)


def _bridge(options: argparse.Namespace) -> int:
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


def _fetch_model(options: argparse.Namespace) -> int:
    # Deferred: this imports MLX, which `--help` need not wait for.
    from ..models.embedded import (  # noqa: PLC0415
        EMBEDDED_MODEL,
        SPEECH_MODEL,
        embedded_model,
        speech_model,
    )

    models = {EMBEDDED_MODEL: embedded_model, SPEECH_MODEL: speech_model}
    name = options.name or EMBEDDED_MODEL
    if name not in models:
        raise CommandLineError(
            f"no embedded model is named {name!r}; there are {', '.join(models)}"
        )
    directory = models[name](to_stderr)
    with writing_to_standard_output():
        print(directory)
    return 0
