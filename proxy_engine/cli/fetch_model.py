"""``fetch-model``: have the embedded model ready before it is needed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..progress import to_stderr
from .standard_output import writing_to_standard_output

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["add_parser"]


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "fetch-model",
        help="download and convert the embedded model",
        description="Download and convert the embedded model unless that was done before, and "
        "print its directory.",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # Deferred: this loads mlx, which `--help` need not wait for.
    from ..models.embedded import embedded_model  # noqa: PLC0415

    directory = embedded_model(to_stderr)
    with writing_to_standard_output():
        print(directory)
    return 0
