"""Read the bodies of rules and terminals: alternatives, series, repetitions and groups."""

from __future__ import annotations

import re
from itertools import count
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.context_free.notations.lark.item_reader import ItemReader
from state_machines.context_free.notations.lark.syntax import Conjunction
from state_machines.syntax_tree import Alternatives, Expression, Series

LINES_PER_STEP = 8
"""Blank lines and comments in a row that one step skips."""

_INLINE_SPACE = re.compile(r"[ \t\f\r]+|(?://|#)[^\n]*")
_SPACE = re.compile(r"\s+|(?://|#)[^\n]*")
_ALIAS = re.compile(r"->[ \t]*_?[A-Za-z][A-Za-z0-9_-]*")
_COUNTS = re.compile(r"\{\s*+(-?[0-9]*+)\s*+(,?)\s*+(-?[0-9]*+)\s*+\}")
_TILDE_COUNTS = re.compile(r"~\s*+(-?[0-9]++)(?:(\s*+\.\.\s*+)(-?[0-9]++))?")


class BodyReader(ItemReader):
    """Reads bodies. A body ends with its line, unless a bracket is open or a ``|`` follows."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.brackets = 0
        """Open brackets, inside of which the end of a line has no meaning."""

    def alternatives(self) -> Expression:
        branches = [self.alternative()]
        while self.bar():
            branches.append(self.alternative())
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def bar(self) -> bool:
        """Read a ``|``, also on a later line; return whether there was one."""
        before = self.position
        self.skip_lines()
        if self.take("|"):
            return True
        self.position = before
        return False

    def alternative(self) -> Expression:
        self.skip_space()
        start = self.position
        members = [self.series()]
        while self.take("&"):
            members.append(self.series())
        alias = _ALIAS.match(self.text, self.position)
        if alias is not None:
            self.position = alias.end()
            self.skip_space()
        if self.peek("%if"):
            self.unsupported("a condition", self.position, "Write a rule for each case")
        if len(members) == 1:
            return members[0]
        return Conjunction(tuple(members), self.source_position(start))

    def series(self) -> Expression:
        parts: list[Expression] = []
        while True:
            self.skip_space()
            if self.at_end or self.text[self.position] in "\n|)]}&" or self.peek("->"):
                break
            if self.peek("%if"):
                break
            spend()
            parts.append(self.repeated())
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def repetition(self) -> tuple[int, int | None] | None:
        start = self.position
        if self.at_end:
            return None
        character = self.text[start]
        if character == "{":
            found = _COUNTS.match(self.text, start)
            if found is None or not (found[1] or found[3]):
                self.no_counts(start)
            least, most = found[1] or "0", found[3] if found[2] else found[1]
        elif character == "~":
            found = _TILDE_COUNTS.match(self.text, start)
            if found is None:
                return None
            least, most = found[1], found[3] if found[2] else found[1]
        else:
            return self.mark()
        self.position = found.end()
        return self.bounds(least, most, start)

    def no_counts(self, start: int) -> NoReturn:
        if self.text[start + 1 : start + 2] not in ("", "}", ",", "-", *"0123456789"):
            self.unsupported("a template", start, "Write a rule for each of its uses")
        self.invalid("{n}, {m,}, {,n} or {m,n} was expected", start)

    def group(self, closing: str) -> Expression:
        """Read a group after its opening bracket; lines may end inside it."""
        start = self.position - 1
        self.enter(start)
        self.brackets += 1
        inner = self.alternatives()
        self.skip_lines()
        if not self.take(closing):
            self.invalid(f"missing {closing}", start)
        self.brackets -= 1
        self.depth -= 1
        return inner

    # White space

    def skip_space(self) -> None:
        """Skip white space and comments, inside of brackets also the ends of lines."""
        if self.brackets:
            self.skip_lines()
            return
        for found_before in count():
            found = _INLINE_SPACE.match(self.text, self.position)
            if found is None:
                break
            if not found_before % LINES_PER_STEP:
                spend()
            self.position = found.end()

    def skip_lines(self) -> None:
        """Skip white space, comments and the ends of lines."""
        for found_before in count():
            found = _SPACE.match(self.text, self.position)
            if found is None:
                break
            if not found_before % LINES_PER_STEP:
                spend()
            self.position = found.end()
