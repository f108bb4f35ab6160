"""Errors of a grammar's text, with line and column."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from state_machines.errors import GrammarSyntaxError, UnsupportedGrammarError
from state_machines.syntax_tree import SourcePosition
from state_machines.text_reader import TextReader


class GrammarReader(TextReader):
    """Base of the parsers of grammars.

    Raises :class:`~state_machines.errors.GrammarSyntaxError` and
    :class:`~state_machines.errors.UnsupportedGrammarError`.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.rule = ""
        """The name of the rule that is being read."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        self._line_ends = np.flatnonzero(points == ord("\n"))

    def source_position(self, offset: int) -> SourcePosition:
        """Return the line and the column of an offset."""
        line = int(np.searchsorted(self._line_ends, offset))
        line_start = int(self._line_ends[line - 1]) if line else -1
        return line + 1, offset - line_start

    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        line, column = self.source_position(self.position if position is None else position)
        raise GrammarSyntaxError(what, line=line, column=column, rule=self.rule, hint=hint)

    def unsupported(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        line, column = self.source_position(self.position if position is None else position)
        raise UnsupportedGrammarError(
            f"{what} is not supported", line=line, column=column, rule=self.rule, hint=hint
        )
