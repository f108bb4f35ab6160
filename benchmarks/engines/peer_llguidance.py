"""llguidance (Rust): strict about keywords by default, any whitespace, its slices for JSON.

Grammars get its general slices, its default. GBNF is converted to Lark by its own converter.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from llguidance import LLMatcher, LLTokenizer, StructTag, grammar_from
from llguidance.numpy import fill_next_token_bitmask

from engines.base import (
    CALL_BEGIN,
    CALL_END,
    CALL_TRIGGER,
    RefusedSchemaError,
    TokenizerSource,
    ToolSchema,
)
from engines.bitmask import Bitmask, empty_bitmask, has_any, has_token

__all__ = ["make_engine"]


class _Matcher:
    def __init__(self, matcher: LLMatcher, bitmask: Bitmask, ends: tuple[int, ...]) -> None:
        self._matcher = matcher
        self._bitmask = bitmask
        self._ends = ends

    def mask(self) -> None:
        fill_next_token_bitmask(self._matcher, self._bitmask)

    def allows(self, token_id: int) -> bool:
        self._check()
        return has_token(self._bitmask, token_id)

    def advance(self, token_id: int) -> None:
        if not self._matcher.consume_token(token_id):
            raise RuntimeError(f"token {token_id} is in the mask but not taken")

    def accepts_end(self) -> bool:
        self._check()
        return has_any(self._bitmask, self._ends)

    def _check(self) -> None:
        """The matcher reports its own failures, such as a limit that was reached, by a state."""
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error())


class _Compiled:
    def __init__(self, matcher: LLMatcher, bitmask: Bitmask, ends: tuple[int, ...]) -> None:
        self._matcher = matcher
        self._bitmask = bitmask
        self._ends = ends

    def matcher(self) -> _Matcher:
        return _Matcher(self._matcher.deep_copy(), self._bitmask, self._ends)


class _Engine:
    def __init__(self, source: TokenizerSource) -> None:
        self.version = version("llguidance")
        self._ends = source.end_token_ids
        self._tokenizer = LLTokenizer(
            source.path.read_text(encoding="utf-8"),
            eos_token=list(source.end_token_ids),
            slices=LLTokenizer.json_slices(),
        )
        self._general = self._tokenizer.with_slices(LLTokenizer.general_slices())
        self._bitmask = empty_bitmask(self._tokenizer.vocab_size)

    def compile(self, schema: Any) -> _Compiled:
        try:
            grammar = LLMatcher.grammar_from_json_schema(schema)
        except ValueError as error:
            raise RefusedSchemaError(str(error)) from error
        return self._compiled(self._tokenizer, grammar)

    def compile_grammar(self, grammar: str, notation: str) -> _Compiled:
        try:
            converted = grammar_from(notation, grammar)
        except ValueError as error:
            raise RefusedSchemaError(str(error)) from error
        return self._compiled(self._general, converted)

    def compile_tools(self, tools: Sequence[ToolSchema]) -> _Compiled:
        tags = [
            StructTag(
                trigger=CALL_TRIGGER,
                begin=CALL_BEGIN.replace("NAME", name),
                grammar=schema,
                end=CALL_END,
            )
            for name, schema in tools
        ]
        # The trigger is no special token of the vocabulary.
        grammar = StructTag.to_grammar(tags, assume_special=False)
        return self._compiled(self._tokenizer, grammar)

    def _compiled(self, tokenizer: LLTokenizer, grammar: str) -> _Compiled:
        matcher = LLMatcher(tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise RefusedSchemaError(matcher.get_error())
        return _Compiled(matcher, self._bitmask, self._ends)


def make_engine(source: TokenizerSource) -> _Engine:
    """Set up the engine."""
    return _Engine(source)
