"""The project's own engine, with its default options, and with members of objects in any order."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from engines.base import RefusedSchemaError, TokenizerSource, ToolSchema
from state_machines import (
    GrammarBudgetError,
    GrammarError,
    GrammarStateMachine,
    InvalidArgumentError,
    JsonSchemaStateMachine,
    Matcher,
    PatternError,
    RegexStateMachine,
    SchemaError,
    StateMachine,
    Vocabulary,
)
from state_machines.errors import CompositionError
from state_machines.json_schema.machine import PropertyOrder
from state_machines.root import RootStateMachine, Series, Text
from state_machines.tool_calls import format_named
from state_machines.tool_calls.call import ToolSignature

__all__ = ["make_engine", "make_engine_of_any_order"]


class _Matcher:
    def __init__(self, matcher: Matcher, end_token_ids: tuple[int, ...]) -> None:
        self._matcher = matcher
        self._ends = end_token_ids
        self._mask: npt.NDArray[np.bool_]

    def mask(self) -> None:
        self._mask = self._matcher.allowed_tokens()

    def allows(self, token_id: int) -> bool:
        return bool(self._mask[token_id])

    def advance(self, token_id: int) -> None:
        self._matcher.advance(token_id)

    def accepts_end(self) -> bool:
        return any(self._mask[token_id] for token_id in self._ends)


class _Compiled:
    def __init__(self, machine: StateMachine, vocabulary: Vocabulary) -> None:
        self._machine = machine
        self._vocabulary = vocabulary
        self._ends = tuple(vocabulary.end_token_ids)

    def matcher(self) -> _Matcher:
        return _Matcher(self._machine.matcher(self._vocabulary), self._ends)


class _Engine:
    def __init__(self, source: TokenizerSource, property_order: PropertyOrder) -> None:
        self._property_order = property_order
        try:
            self.version = version("proxy-engine")
        except PackageNotFoundError:
            self.version = "source tree"
        self._vocabulary = Vocabulary.from_tokenizer(
            Tokenizer.from_file(str(source.path)), end_token_ids=source.end_token_ids
        )
        # The tries that all masks need are made with the first matcher of a vocabulary.
        RegexStateMachine("").matcher(self._vocabulary)

    def compile(self, schema: Any) -> _Compiled:
        try:
            machine = JsonSchemaStateMachine(schema, property_order=self._property_order)
        except (SchemaError, PatternError, GrammarBudgetError) as error:
            raise RefusedSchemaError(f"{type(error).__name__}: {error}") from error
        return _Compiled(machine, self._vocabulary)

    def compile_grammar(self, grammar: str, notation: str) -> _Compiled:
        try:
            machine = GrammarStateMachine(grammar, notation=notation)
        except (GrammarError, InvalidArgumentError) as error:
            raise RefusedSchemaError(f"{type(error).__name__}: {error}") from error
        return _Compiled(machine, self._vocabulary)

    def compile_tools(self, tools: Sequence[ToolSchema]) -> _Compiled:
        signatures = [ToolSignature(name, schema) for name, schema in tools]
        text = Text("text")
        try:
            part = Series(text, format_named("hermes").calls(signatures, min_calls=0))
            machine = RootStateMachine(part, self._vocabulary)
        except (SchemaError, CompositionError) as error:
            raise RefusedSchemaError(f"{type(error).__name__}: {error}") from error
        return _Compiled(machine, self._vocabulary)


def make_engine(source: TokenizerSource) -> _Engine:
    """Set up the engine."""
    return _Engine(source, "schema")


def make_engine_of_any_order(source: TokenizerSource) -> _Engine:
    """Set up the engine so that it accepts the members of an object in any order."""
    return _Engine(source, "any")
