"""The interface of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "CALL_BEGIN",
    "CALL_END",
    "CALL_TRIGGER",
    "CompiledSchema",
    "Engine",
    "EngineFactory",
    "EngineMatcher",
    "RefusedSchemaError",
    "TokenizerSource",
    "ToolSchema",
]


CALL_TRIGGER = "<tool_call>"
CALL_BEGIN = CALL_TRIGGER + '\n{"name": "NAME", "arguments": '
CALL_END = "}\n</tool_call>"
"""The texts around the arguments of a call, those of Hermes and Qwen."""

ToolSchema = tuple[str, dict[str, Any]]
"""The name of a tool and the schema of its arguments."""


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

    def compile_tools(self, tools: Sequence[ToolSchema]) -> CompiledSchema:
        """Compile free text with calls of tools between :data:`CALL_BEGIN` and :data:`CALL_END`.

        Raises :class:`RefusedSchemaError` if the engine says no.
        """


EngineFactory = Callable[[TokenizerSource], Engine]
