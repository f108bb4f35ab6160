"""The interface of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "CompiledSchema",
    "Engine",
    "EngineFactory",
    "EngineMatcher",
    "RefusedSchemaError",
    "TokenizerSource",
]


class RefusedSchemaError(Exception):
    """The engine says that it does not take this schema. Its sentence says why."""


@dataclass(frozen=True)
class TokenizerSource:
    """The tokenizer every engine gets: a ``tokenizer.json`` and the tokens that end a text."""

    path: Path
    end_token_ids: tuple[int, ...]


class EngineMatcher(Protocol):
    """One text. ``mask`` and ``advance`` are timed, the others are not."""

    def mask(self) -> None:
        """Compute the mask of the next token by the engine's own natural call, and keep it."""

    def allows(self, token_id: int) -> bool:
        """Whether the mask computed last has this token."""

    def advance(self, token_id: int) -> None:
        """Take a token that the mask has. Raises if the engine refuses it all the same."""

    def accepts_end(self) -> bool:
        """Whether the mask computed last has an end token."""


class CompiledSchema(Protocol):
    """A schema an engine has taken."""

    def matcher(self) -> EngineMatcher:
        """Start a text."""


class Engine(Protocol):
    """An engine with its tokenizer set up."""

    version: str

    def compile(self, schema: Any) -> CompiledSchema:
        """Compile a JSON Schema. Raises :class:`RefusedSchemaError` if the engine says no."""

    def compile_grammar(self, grammar: str, notation: str) -> CompiledSchema:
        """Compile a grammar. Raises :class:`RefusedSchemaError` if the engine says no.

        Args:
            grammar: The grammar.
            notation: ``gbnf``, whose start is ``root``, or ``lark``, whose start is ``start``.
        """


EngineFactory = Callable[[TokenizerSource], Engine]
