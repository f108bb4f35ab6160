"""``serve``: the model behind OpenAI's interfaces."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING

from .errors import CommandLineError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_REQUIREMENTS = (
    "fastapi",
    "prometheus_client",
    "psutil",
    "pydantic_settings",
    "python_multipart",
    "uvicorn",
)


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command. Its flags are parsed by ``pydantic_settings``, once it is imported."""
    parser = commands.add_parser("serve", help="serve a model to OpenAI's clients", add_help=False)
    parser.set_defaults(run=_run, flags=[])


def _run(options: argparse.Namespace) -> int:
    missing = [name for name in _REQUIREMENTS if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandLineError(
            f"the server needs {', '.join(missing)}",
            hint="Install the dependencies with `pip install 'proxy-engine[server]'`.",
        )
    # Deferred: other commands need no server, and `--help` no MLX.
    from ..server.settings import parse_settings  # noqa: PLC0415

    try:
        settings = parse_settings(options.flags)
    except ValueError as error:
        raise CommandLineError(str(error)) from error
    from ..server.serve import serve  # noqa: PLC0415

    return serve(settings)
