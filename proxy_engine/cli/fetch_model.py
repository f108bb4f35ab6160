"""``fetch-model``: download and convert the embedded model in advance."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..progress import to_stderr
from .output import writing_to_standard_output

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "fetch-model",
        help="download and convert the embedded model",
        description="Downloads and converts the embedded model, unless that was done before, and "
        "prints its directory.",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # Deferred: this imports MLX, which `--help` need not wait for.
    from ..models.embedded import embedded_model  # noqa: PLC0415

    directory = embedded_model(to_stderr)
    with writing_to_standard_output():
        print(directory)
    return 0
