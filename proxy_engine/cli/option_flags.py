"""Command line flags for the options of requests."""

from __future__ import annotations

import argparse
from typing import Any, Literal, cast, get_args, get_origin

from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides


def add_option_flags(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add a flag for each of some options, such as ``--max-tokens N``.

    Numbers and options with named values have flags. A flag accepts the named values only.
    """
    for name in names:
        field = GenerationOptions.model_fields[name]
        kinds = (field.annotation, *get_args(field.annotation))
        texts = [text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)]
        shape: dict[str, Any] = {"choices": texts}
        if not texts:
            is_integer = int in kinds
            shape = {"type": int if is_integer else float, "metavar": "N" if is_integer else "X"}
        # `argparse` formats help texts with `%`.
        about = (field.description or "").replace("`", "").replace("%", "%%")
        parser.add_argument(
            f"--{name.replace('_', '-')}", help=f"{about} (default: {field.default})", **shape
        )


def given_flags(arguments: argparse.Namespace, *names: str) -> OptionOverrides:
    """Return the options that flags of :func:`add_option_flags` have set.

    Raises:
        InvalidOptionError: A value is out of range.
    """
    given = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    GenerationOptions(**given)
    return cast(OptionOverrides, given)
