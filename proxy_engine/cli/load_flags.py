"""Flags that state how a model is loaded."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

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
