"""Flags for the options of requests and of loading a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

from ..options.generation import RENAMED_OPTIONS, GenerationOptions
from ..options.overrides import OptionOverrides

if TYPE_CHECKING:
    from ..models.load_options import LoadArguments


_FLAGS: dict[str, dict[str, Any]] = {
    "adapter_path": {
        "metavar": "DIR",
        "help": "a LoRA, DoRA or full fine-tune of the model, as mlx_lm.lora writes it",
    },
    "revision": {
        "metavar": "R",
        "help": "branch, tag or commit of the model's Hugging Face repo",
    },
    "chat_template": {
        "metavar": "FILE",
        "help": "chat template in place of the model's: a file, or its text in Jinja",
    },
    "trust_remote_code": {
        "action": "store_true",
        "help": "run code of the model's files, for its architecture and its tokenizer",
    },
    "distributed": {
        "action": "store_true",
        "help": "share the model with the other ranks that mlx.launch has started",
    },
}


def add_load_flags(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add flags by the names of options of loading; all of them without names."""
    for name in names or _FLAGS:
        parser.add_argument(f"--{name.replace('_', '-')}", **_FLAGS[name])


def given_load_arguments(options: argparse.Namespace) -> LoadArguments:
    """Return the options of loading that flags of :func:`add_load_flags` have set."""
    given = {name: getattr(options, name, None) for name in _FLAGS}
    # `False` is a flag that is not given.
    return cast("LoadArguments", {name: value for name, value in given.items() if value})


def add_option_flags(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add a flag for each of some options, such as ``--max-tokens N``.

    Numbers, Booleans and options with named values have flags. A flag accepts the named values
    only; that of a Boolean has no value. The former name of a flag is an error with the new one.
    """
    for name in names:
        field = GenerationOptions.model_fields[name]
        kinds = (field.annotation, *get_args(field.annotation))
        texts = [text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)]
        shape: dict[str, Any] = {"choices": texts}
        if bool in kinds:
            shape = {"action": "store_const", "const": True}
        elif not texts:
            is_integer = int in kinds
            shape = {"type": int if is_integer else float, "metavar": "N" if is_integer else "X"}
        # `argparse` formats help texts with `%`.
        about = (field.description or "").replace("`", "").replace("%", "%%")
        parser.add_argument(
            f"--{name.replace('_', '-')}", help=f"{about} (default: {field.default})", **shape
        )
    for former, name in RENAMED_OPTIONS.items():
        if name in names:
            parser.add_argument(
                f"--{former.replace('_', '-')}", action=_Renamed, const=name, help=argparse.SUPPRESS
            )


class _Renamed(argparse.Action):
    """Refuses the former name of a flag; ``const`` is the name of the option."""

    def __init__(self, option_strings: Sequence[str], dest: str, **arguments: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **arguments)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        parser.error(f"{option_string} is named --{str(self.const).replace('_', '-')} now")


def given_flags(arguments: argparse.Namespace, *names: str) -> OptionOverrides:
    """Return the options that flags of :func:`add_option_flags` have set.

    Raises:
        InvalidOptionError: A value is out of range.
    """
    given = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    GenerationOptions(**given)
    return cast(OptionOverrides, given)
