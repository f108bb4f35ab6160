"""What commands share: their error, standard output, and flags, also of option models."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast, get_args, get_origin

from pydantic import BaseModel

from ..errors import EngineError, OutputFileError

if TYPE_CHECKING:
    from ..models.load_options import LoadArguments


WRONG_COMMAND_LINE = 2
"""The exit status of a wrong command line, or a missing input, before any work."""


class CommandLineError(EngineError):
    """The command line is wrong, or names a missing input; exit status 2."""


@contextmanager
def writing_to_standard_output() -> Iterator[None]:
    """Convert errors of writing, such as a full disk, to ``OutputFileError``.

    ``BrokenPipeError`` passes: the reader closed standard output.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFileError(
            f"cannot write standard output: {error.strerror}", path="-"
        ) from error


def discard_standard_output() -> None:
    """Discard the buffer, which the interpreter would otherwise flush, and fail, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


Flag = dict[str, Any]
"""The arguments of ``add_argument``."""

_LOAD_FLAGS: dict[str, Flag] = {
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
        "action": "store_const",
        "const": True,
        "help": "run code of the model's files, for its architecture and its tokenizer",
    },
    "distributed": {
        "action": "store_const",
        "const": True,
        "help": "share the model with the other ranks that mlx.launch has started",
    },
    "wired_memory": {
        "action": argparse.BooleanOptionalAction,
        "help": "whether macOS keeps the memory of the device resident while models run",
    },
}


_METAVARS = {"output": "FILE", "text": "FIELD", "columns": "NAMES"}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            WRONG_COMMAND_LINE, f"{self.prog}: {message}; {self.prog} --help shows the options\n"
        )


class ShortHelp(argparse.Action):
    """``--help``, which shows the most frequent options, and ``--help-all``.

    Args:
        shown: The names of the options that ``--help`` shows.
    """

    def __init__(
        self, option_strings: Sequence[str], dest: str, shown: Iterable[str], help: str
    ) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)
        self._shown = {*shown, "help", "help_all"}

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        if rest[-1] != "--help-all":
            for action in parser._actions:
                if action.option_strings and action.dest not in self._shown:
                    action.help = argparse.SUPPRESS
            for group in parser._action_groups:
                if all(action.help == argparse.SUPPRESS for action in group._group_actions):
                    group.description = None
        parser.print_help()
        parser.exit()


def as_flag(name: str) -> str:
    """Return the flag of an option."""
    return f"--{name.replace('_', '-')}"


def add_flags(parser: argparse._ActionsContainer, flags: dict[str, Flag]) -> None:
    """Add flags by the names of their values."""
    for name, settings in flags.items():
        parser.add_argument(as_flag(name), **settings)


def add_load_flags(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add flags by the names of options of loading; all of them without names."""
    add_flags(parser, {name: _LOAD_FLAGS[name] for name in names or _LOAD_FLAGS})


def given_load_arguments(options: argparse.Namespace) -> LoadArguments:
    """Return the options of loading that flags of :func:`add_load_flags` have set."""
    given = {name: getattr(options, name, None) for name in _LOAD_FLAGS}
    return cast(
        "LoadArguments", {name: value for name, value in given.items() if value is not None}
    )


def add_option_flags(
    parser: argparse._ActionsContainer, model: type[BaseModel], *names: str
) -> None:
    """Add a flag for each of some options of a model, such as ``--max-tokens N``.

    A flag accepts the named values of its option only; that of a Boolean has no value, and of one
    that is on by default a negation.
    """
    for name in names:
        field = model.model_fields[name]
        kinds = (field.annotation, *get_args(field.annotation))
        texts = [text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)]
        shape: Flag = {"choices": texts} if texts else {"metavar": _METAVARS.get(name, "TEXT")}
        if bool in kinds:
            shape = {"action": "store_const", "const": True}
            if field.default is True:
                shape = {"action": argparse.BooleanOptionalAction}
        elif int in kinds or float in kinds:
            shape = (
                {"type": int, "metavar": "N"} if int in kinds else {"type": float, "metavar": "X"}
            )
        # `argparse` formats help texts with `%`.
        about = in_flags(field.description or "", names).replace("`", "").replace("%", "%%")
        about = f"{about[:1].lower()}{about[1:]}".removesuffix(".")
        default = "" if field.default in (None, False, (), "") else f" (default: {field.default})"
        add_flags(parser, {name: {"help": f"{about}{default}", **shape}})


def given_flags(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options that flags have set."""
    given = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def in_flags(message: str, names: Iterable[str]) -> str:
    """Return a message about arguments in Python with flags in their place.

    ``"resume=True continues it"`` is ``"--resume continues it"``. Names without an underscore are
    words as well, and replaced if a value follows.
    """

    def flag(match: re.Match[str]) -> str:
        value = match["value"]
        words = [as_flag(match["name"]), *([value] if value else [])]
        return " ".join(word for word in words if word != "True")

    names = sorted(names, key=len, reverse=True)
    if not names:
        return message
    known = "|".join(names)
    message = re.sub(rf"\b(?P<name>{known})=(?P<value>'[^']*'|\w*)", flag, message)
    compound = "|".join(name for name in names if "_" in name)
    if not compound:
        return message
    return re.sub(rf"(?<![\w'-])(?P<name>{compound})(?P<value>)(?![\w'])", flag, message)
