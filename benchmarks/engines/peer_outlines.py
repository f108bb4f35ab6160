"""outlines (Rust core): a regular expression for each schema, its default white space.

Its index is made for tokens of one byte, since indices for large vocabularies take minutes. The
texts that it accepts do not depend on the vocabulary; its times do, and are not to be compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from outlines_core import Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema
from tokenizers import Tokenizer

from engines.base import RefusedSchemaError, TokenizerSource, ToolSchema
from state_machines import Vocabulary as TokenVocabulary

__all__ = ["make_engine"]

_END = 256


class _Matcher:
    def __init__(self, index: Index, token_bytes: list[bytes | None]) -> None:
        self._index = index
        self._token_bytes = token_bytes
        self._state: int = index.get_initial_state()

    def mask(self) -> None:
        """Nothing: states are looked up byte by byte."""

    def allows(self, token_id: int) -> bool:
        return self._behind(token_id) is not None

    def advance(self, token_id: int) -> None:
        state = self._behind(token_id)
        if state is None:
            raise RuntimeError(f"token {token_id} is not taken")
        self._state = state

    def accepts_end(self) -> bool:
        return bool(self._index.is_final_state(self._state))

    def _behind(self, token_id: int) -> int | None:
        state: int | None = self._state
        for byte in self._token_bytes[token_id] or b"":
            state = None if state is None else self._index.get_next_state(state, byte)
        return state


class _Compiled:
    def __init__(self, index: Index, token_bytes: list[bytes | None]) -> None:
        self._index = index
        self._token_bytes = token_bytes

    def matcher(self) -> _Matcher:
        return _Matcher(self._index, self._token_bytes)


class _Engine:
    def __init__(self, source: TokenizerSource) -> None:
        self.version = version("outlines_core")
        vocabulary = TokenVocabulary.from_tokenizer(
            Tokenizer.from_file(str(source.path)), end_token_ids=source.end_token_ids
        )
        self._token_bytes = list(vocabulary.token_bytes)
        self._vocabulary = Vocabulary(_END, {bytes([byte]): [byte] for byte in range(_END)})

    def compile(self, schema: Any) -> _Compiled:
        try:
            index = Index(build_regex_from_schema(json.dumps(schema)), self._vocabulary)
        except (TypeError, ValueError) as error:
            raise RefusedSchemaError(str(error)) from error
        return _Compiled(index, self._token_bytes)

    def compile_grammar(self, grammar: str, notation: str) -> _Compiled:
        raise RefusedSchemaError("outlines-core has no grammars")

    def compile_tools(self, tools: Sequence[ToolSchema]) -> _Compiled:
        raise RefusedSchemaError("outlines-core has no calls of tools in free text")


def make_engine(source: TokenizerSource) -> _Engine:
    """Set up the engine."""
    return _Engine(source)
