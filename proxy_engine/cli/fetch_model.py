"""``fetch-model``: download and convert an embedded model in advance."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..runtime.progress import to_stderr
from .errors import CommandLineError, writing_to_standard_output

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
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
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
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
