"""``serve``: the model behind OpenAI's interfaces."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import MissingExtraError
from ..runtime.extras import requires_extra
from .errors import CommandLineError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command. Its flags are parsed by ``pydantic_settings``, once it is imported."""
    parser = commands.add_parser("serve", help="serve a model to OpenAI's clients", add_help=False)
    parser.set_defaults(run=_run, flags=[])


def _run(options: argparse.Namespace) -> int:
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
