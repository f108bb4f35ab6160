"""``serve``: the model behind OpenAI's interfaces."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING

from .errors import CommandLineError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["FLAGS", "add_parser"]

_DESCRIPTION = """\
Serves chats, completions and responses as OpenAI's clients know them, and a page to try them at /.
What is not given as a flag is taken from the environment (PROXY_ENGINE_MODEL, PROXY_ENGINE_PORT and
so on), or from a file .env in the working directory. A key is better kept out of the command line,
which others on this computer can read."""

FLAGS = {
    "model": ("M", "the model to begin with: a directory or a hub id (default: the embedded one)"),
    "host": ("ADDRESS", "where to listen (default: 127.0.0.1, this computer alone)"),
    "port": ("N", "where to listen (default: 8000; 0: any free port)"),
    "api-key": ("KEY", "what clients must show as 'Authorization: Bearer KEY'"),
    "model-directories": ("DIRS", "directories with models that may be asked for, by commas"),
    "aliases": ("NAMES", "other names of the model to begin with, by commas"),
    "max-running": ("N", "answers that are generated at the same time (default: 8)"),
    "max-queue": ("N", "answers that wait; beyond that: status 503 (default: 64)"),
    "max-choices": ("N", "answers that one request may ask for (default: 16)"),
    "max-body-bytes": ("N", "size of a request; beyond that: status 413 (default: 8 MiB)"),
    "max-prompt-characters": ("N", "size of a prompt; beyond: status 413 (default: a million)"),
    "max-compile-seconds": ("S", "processor time to compile a format; then: 400 (default: 1)"),
    "header-seconds": ("S", "time for a request's headers to come in (default: 10)"),
    "body-seconds": ("S", "time for a request's body to come in (default: 30)"),
    "write-seconds": ("S", "time for a client to take what is sent (default: 60)"),
    "keep-alive-seconds": ("S", "silence of a stream before a comment is sent (default: 15)"),
    "grace-seconds": ("S", "time for running answers to end when stopped (default: 10)"),
    "memory-limit-bytes": ("N", "memory for a model (default: what the device has)"),
    "stored-responses": ("N", "responses kept for previous_response_id (default: 256)"),
    "allowed-hosts": ("NAMES", "names of the server beside localhost, by commas; '*': any"),
    "cors-origins": ("URLS", "origins whose pages may use the server, by commas; '*': any"),
    "log-format": ("F", "text (default) or json"),
    "log-level": ("L", "debug, info (default), warning or error"),
    "log-prompts": ("BOOL", "write what clients send into the log (default: false)"),
}
"""The settings as flags: what their values are called, and what they are for."""


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve", help="serve a model to OpenAI's clients", description=_DESCRIPTION
    )
    for name, (metavar, about) in FLAGS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=about)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    missing = [
        name
        for name in ("fastapi", "prometheus_client", "pydantic_settings", "uvicorn")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise CommandLineError(
            f"the server needs {', '.join(missing)}",
            hint="Install them with `pip install 'proxy-engine[server]'`.",
        )
    # Deferred: other commands need nothing of this, and what loads mlx can wait.
    from ..server.settings import read_settings  # noqa: PLC0415

    names = [name.replace("-", "_") for name in FLAGS]
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    try:
        settings = read_settings(given)
    except ValueError as error:
        raise CommandLineError(str(error)) from error
    from ..server.serve import serve  # noqa: PLC0415

    return serve(settings)
