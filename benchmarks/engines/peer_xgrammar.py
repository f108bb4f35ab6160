"""xgrammar (C++): additional properties as the schema says (not strict), any whitespace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import xgrammar
from tokenizers import Tokenizer

from engines.base import (
    CALL_BEGIN,
    CALL_END,
    CALL_TRIGGER,
    RefusedSchemaError,
    TokenizerSource,
    ToolSchema,
)
from engines.bitmask import Bitmask, empty_bitmask, has_any, has_token
from state_machines.vocabulary import Vocabulary

__all__ = ["make_engine"]


class _Matcher:
    def __init__(
        self, matcher: xgrammar.GrammarMatcher, bitmask: Bitmask, ends: tuple[int, ...]
    ) -> None:
        self._matcher = matcher
        self._bitmask = bitmask
        self._ends = ends

    def mask(self) -> None:
        self._matcher.fill_next_token_bitmask(self._bitmask)

    def allows(self, token_id: int) -> bool:
        return has_token(self._bitmask, token_id)

    def advance(self, token_id: int) -> None:
        if not self._matcher.accept_token(token_id):
            raise RuntimeError(f"token {token_id} is in the mask but not taken")

    def accepts_end(self) -> bool:
        return has_any(self._bitmask, self._ends)


class _Compiled:
    def __init__(
        self, grammar: xgrammar.CompiledGrammar, bitmask: Bitmask, ends: tuple[int, ...]
    ) -> None:
        self._grammar = grammar
        self._bitmask = bitmask
        self._ends = ends

    def matcher(self) -> _Matcher:
        return _Matcher(xgrammar.GrammarMatcher(self._grammar), self._bitmask, self._ends)


class _Engine:
    def __init__(self, source: TokenizerSource) -> None:
        self.version = version("xgrammar")
        self._ends = source.end_token_ids
        vocabulary = Vocabulary.from_tokenizer(
            Tokenizer.from_file(str(source.path)), end_token_ids=source.end_token_ids
        )
        info = xgrammar.TokenizerInfo(
            [form or b"" for form in vocabulary.token_bytes],
            vocab_type=xgrammar.VocabType.RAW,
            stop_token_ids=list(source.end_token_ids),
        )
        self._compiler = xgrammar.GrammarCompiler(info)
        self._bitmask = empty_bitmask(vocabulary.size)

    def compile(self, schema: Any) -> _Compiled:
        try:
            grammar = self._compiler.compile_json_schema(
                json.dumps(schema), strict_mode=False, any_whitespace=True
            )
        except (RuntimeError, ValueError) as error:
            raise RefusedSchemaError(str(error)) from error
        return _Compiled(grammar, self._bitmask, self._ends)

    def compile_grammar(self, grammar: str, notation: str) -> _Compiled:
        try:
            if notation == "lark":
                compiled = self._compiler.compile_lark(grammar)
            else:
                compiled = self._compiler.compile_grammar(grammar, root_rule_name="root")
        except (RuntimeError, ValueError) as error:
            raise RefusedSchemaError(str(error)) from error
        return _Compiled(compiled, self._bitmask, self._ends)

    def compile_tools(self, tools: Sequence[ToolSchema]) -> _Compiled:
        tags = [
            {
                "type": "tag",
                "begin": CALL_BEGIN.replace("NAME", name),
                "content": {"type": "json_schema", "json_schema": schema},
                "end": CALL_END,
            }
            for name, schema in tools
        ]
        calls = {"type": "triggered_tags", "triggers": [CALL_TRIGGER], "tags": tags}
        try:
            compiled = self._compiler.compile_structural_tag(
                {"type": "structural_tag", "format": calls}
            )
        except (RuntimeError, ValueError) as error:
            raise RefusedSchemaError(str(error)) from error
        return _Compiled(compiled, self._bitmask, self._ends)


def make_engine(source: TokenizerSource) -> _Engine:
    """Set up the engine."""
    return _Engine(source)
