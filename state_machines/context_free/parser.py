r"""From the text of a grammar to its rules.

The notation is GBNF, as llama.cpp has it; vLLM and XGrammar read the same but for details::

    root  ::= "[" (item ("," item)*)? "]"   # a rule; a comment
    item  ::= [a-z0-9_]+ | "\"" [^"\n]* "\"" | root{1,2}

A rule goes on until the next name with ``::=`` behind it, wherever lines end. An alternative may be
empty. An escape of a character that is no letter and no digit stands for the character.
"""

from __future__ import annotations

import re
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.context_free.characters import GrammarReader
from state_machines.context_free.syntax import (
    Alternatives,
    Characters,
    Expression,
    Reference,
    Repeat,
    Rule,
    Series,
    Text,
)
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.limits import LIMITS

__all__ = ["parse"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_LARK = re.compile(r"[?!]?[A-Za-z_][A-Za-z0-9_.]*\s*:(?!:=)|%\w|/")
# Possessive, so that no text is read in more than one way.
_COUNTS = re.compile(r"\{\s*+([0-9]++)\s*+(,?)\s*+([0-9]*+)\s*+\}")
_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_UNREAD = {
    "'": 'Texts stand in "quotes"',
    "<": "Tokens by name or number are not read",
    "!": "Tokens by name or number are not read",
    "(=": "Look-ahead is not read",
    "=": "A rule is written name ::= …",
    ":": "A rule is written name ::= …",
    "{": 'A count stands behind what it repeats; texts stand in "quotes"',
    ",": 'Texts stand in "quotes"',
    ";": "A rule ends without a mark",
}


def parse(text: str) -> dict[str, Rule]:
    """Return the rules of a grammar by name, in their order.

    Raises :class:`~state_machines.errors.GrammarSyntaxError`.
    """
    return _Parser(text).parse()


class _Parser(GrammarReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def parse(self) -> dict[str, Rule]:
        rules: dict[str, Rule] = {}
        self.skip_space()
        while not self.at_end:
            start = self.position
            head = self.head()
            if head is None:
                self.no_rule(start)
            name, self.position = head
            if name in rules:
                line, _ = rules[name].position
                self.invalid(f"the rule {name!r} is given twice, first in line {line}", start)
            self.rule = name
            rules[name] = Rule(name, self.alternatives(), self.place(start))
        if not rules:
            self.invalid("a grammar without a rule", 0, "Write root ::= …")
        return rules

    def head(self) -> tuple[str, int] | None:
        """Return the name that a rule begins with here, and where its body begins."""
        name = _NAME.match(self.text, self.position)
        if name is None:
            return None
        end = self.end_of_space(name.end())
        return (name[0], end + 3) if self.text.startswith("::=", end) else None

    def no_rule(self, start: int) -> NoReturn:
        if self.peek(")"):
            self.invalid("unmatched )", start)
        hint = "A rule is written name ::= …"
        if _LARK.match(self.text, start):
            hint += "; Lark's notation is not read"
        self.invalid("a rule was expected", start, hint)

    def alternatives(self) -> Expression:
        branches = [self.series()]
        while self.take("|"):
            branches.append(self.series())
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def series(self) -> Expression:
        parts: list[Expression] = []
        while True:
            self.skip_space()
            if self.at_end or self.peek("|") or self.peek(")"):
                break
            spend()
            if self.head() is not None:
                break
            parts.append(self.repeated())
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def repeated(self) -> Expression:
        """Read one part with the marks of repetition behind it."""
        part = self.part()
        marks = 0
        while True:
            # The mark may stand apart, but not the next part's.
            self.skip_space()
            start = self.position
            if self.at_end:
                return part
            if self.text[start] in _MARKS:
                self.position += 1
                least, most = _MARKS[self.text[start]]
            elif self.peek("{"):
                least, most = self.counts(start)
            else:
                return part
            marks += 1
            if marks > LIMITS.repetition_marks:
                self.invalid(
                    f"more than {LIMITS.repetition_marks} marks of repetition in a row", start
                )
            part = Repeat(part, least, most)

    def counts(self, start: int) -> tuple[int, int | None]:
        found = _COUNTS.match(self.text, start)
        if found is None:
            self.invalid("{m}, {m,} or {m,n} was expected", start)
        self.position = found.end()
        if max(len(found[1]), len(found[3])) > 9 or max(int(found[1]), int(found[3] or 0)) > (
            LIMITS.repetition_count
        ):
            self.invalid(f"a count of more than {LIMITS.repetition_count:,}", start)
        least = int(found[1])
        if found[3] and not found[2]:
            self.invalid("{m}, {m,} or {m,n} was expected", start)
        if not found[2]:
            return least, least
        most = int(found[3]) if found[3] else None
        if most is not None and most < least:
            self.invalid("counts that are out of order", start)
        return least, most

    def part(self) -> Expression:
        start = self.position
        if self.take('"'):
            return Text(self.literal())
        if self.take("["):
            return Characters(self.character_class())
        if self.take("."):
            return Characters(ANY_CODE_POINT)
        if self.peek("(") and not self.peek("(="):
            return self.group()
        name = _NAME.match(self.text, start)
        if name is None:
            self.unexpected(start)
        self.position = name.end()
        return Reference(name[0], self.place(start))

    def unexpected(self, start: int) -> NoReturn:
        character = self.text[start]
        if character in _MARKS:
            self.invalid(f"nothing stands before {character} to be repeated", start)
        hint = next((hint for mark, hint in _UNREAD.items() if self.peek(mark)), "")
        self.invalid(f"{character!r} was not expected here", start, hint)

    def group(self) -> Expression:
        start = self.position
        self.position += 1
        self.depth += 1
        if self.depth > LIMITS.nested_groups:
            self.invalid(f"more than {LIMITS.nested_groups} groups in each other", start)
        inner = self.alternatives()
        if not self.take(")"):
            self.invalid("missing )", start)
        self.depth -= 1
        return inner
