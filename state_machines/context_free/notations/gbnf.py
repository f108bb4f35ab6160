r"""Parse GBNF, the notation of llama.cpp. vLLM and XGrammar read the same but for details::

    root  ::= "[" (item ("," item)*)? "]"   # a rule; a comment
    item  ::= [a-z0-9_]+ | "\"" [^"\n]* "\"" | root{1,2}

A rule ends where the next name with ``::=`` after it begins, wherever lines end. An alternative may
be empty. An escape of a character that is neither a letter nor a digit stands for the character.
Tokens by name or number are written as :mod:`~state_machines.context_free.notations.grammar_reader`
says.
"""

from __future__ import annotations

import re
from typing import NoReturn

from state_machines.context_free.notations.grammar_reader import GrammarReader, read_named_tokens
from state_machines.grammar.symbols import ANY_CODE_POINT, MAX_CODE_POINT, CodePointSet
from state_machines.syntax_tree import (
    Characters,
    Expression,
    Grammar,
    Reference,
    Rule,
    String,
)
from state_machines.text_reader import HEXADECIMAL_ESCAPES, REPETITION_MARKS

_CONTROLS = {"0": 0, "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "e": 27}
_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[a-zA-Z0-9_]",
    "W": "[^a-zA-Z0-9_]",
    "s": r"[ \t\n\r]",
    "S": r"[^ \t\n\r]",
}
_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_LARK = re.compile(r"[?!]?[A-Za-z_][A-Za-z0-9_.]*\s*:(?!:=)|%\w|/")
# Possessive, so that the match takes linear time.
_COUNTS = re.compile(r"\{\s*+([0-9]++)\s*+(,?)\s*+([0-9]*+)\s*+\}")
_HINTS = {
    "'": 'Texts stand in "quotes"',
    "!": "Only a token by name or number can be negated: !<name>, !<[1000]>",
    "(=": "Look-ahead is not supported",
    "=": "A rule is written name ::= …",
    ":": "A rule is written name ::= …",
    "{": 'A count stands after what it repeats; texts stand in "quotes"',
    ",": 'Texts stand in "quotes"',
    ";": "A rule ends without a mark",
}


def parse(text: str) -> Grammar:
    """Return the rules of a grammar in their order; texts begin with the rule ``root``.

    Raises :class:`~state_machines.errors.GrammarSyntaxError` and, for counts and classes beyond the
    limits, :class:`~state_machines.errors.UnsupportedGrammarError`.
    """
    return _GbnfParser(text).parse()


class _GbnfParser(GrammarReader):
    plain_text = re.compile(r'[^"\\\ud800-\udfff]+')

    def parse(self) -> Grammar:
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
            rules[name] = Rule(name, self.alternatives(), self.source_position(start))
        if not rules:
            self.invalid("a grammar without a rule", 0, "Write root ::= …")
        return Grammar(rules, "root")

    def head(self) -> tuple[str, int] | None:
        """Return the name of the rule that begins here, and where its body begins."""
        name = _NAME.match(self.text, self.position)
        if name is None:
            return None
        end = self.end_of_space(name.end(), _SPACE)
        return (name[0], end + 3) if self.text.startswith("::=", end) else None

    def no_rule(self, start: int) -> NoReturn:
        if self.peek(")"):
            self.invalid("unmatched )", start)
        hint = "A rule is written name ::= …"
        if _LARK.match(self.text, start):
            hint += "; for Lark use GrammarStateMachine.from_lark, or notation='lark'"
        self.invalid("a rule was expected", start, hint)

    # Expressions

    def ends_series(self) -> bool:
        return self.text[self.position : self.position + 1] in "|)" or self.head() is not None

    def repetition(self) -> tuple[int, int | None] | None:
        start = self.position
        if not self.peek("{"):
            return self.mark()
        found = _COUNTS.match(self.text, start)
        if found is None or (found[3] and not found[2]):
            self.invalid("{m}, {m,} or {m,n} was expected", start)
        self.position = found.end()
        return self.bounds(found[1], found[3] if found[2] else found[1], start)

    def item(self) -> Expression:
        start = self.position
        if self.peek('"'):
            return String(self.string())
        if self.take("["):
            return Characters(self.character_class())
        if self.take("."):
            return Characters(ANY_CODE_POINT)
        if self.peek("(") and not self.peek("(="):
            return self.group(")")
        if self.peek("<"):
            return read_named_tokens(self)
        if self.take("!<"):
            self.position -= 1
            return read_named_tokens(self, negated=True)
        name = _NAME.match(self.text, start)
        if name is None:
            self.unexpected(start)
        self.position = name.end()
        return Reference(name[0], self.source_position(start))

    def unexpected(self, start: int) -> NoReturn:
        character = self.text[start]
        if character in REPETITION_MARKS:
            self.invalid(f"nothing precedes {character}", start)
        hint = next((hint for mark, hint in _HINTS.items() if self.peek(mark)), "")
        self.invalid(f"{character!r} was not expected here", start, hint)

    # Characters

    def skip_space(self) -> None:
        """Skip white space and comments."""
        self.position = self.end_of_space(self.position, _SPACE)

    def string_character(self, start: int) -> int:
        return self.class_member()

    def character_class(self) -> CodePointSet:
        """Read a class after its opening bracket."""
        start = self.position - 1
        negated = self.take("^")
        if self.peek("]"):
            hint = "Write . for any character" if negated else r"Write \] for a bracket"
            self.invalid("a class without a member", start, hint)
        members = self.class_members(start)
        return ~members if negated else members

    def class_member(self) -> int:
        """Read one character, which may be escaped; return its code point."""
        start = self.position
        character = self.next_character()
        point = self._escape(start) if character == "\\" else ord(character)
        if 0xD800 <= point <= 0xDFFF:
            self.invalid("a surrogate, which is no character", start, r"Write \UHHHHHHHH")
        return point

    def _escape(self, start: int) -> int:
        if self.at_end:
            self.invalid("nothing follows a backslash", start)
        letter = self.next_character()
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in HEXADECIMAL_ESCAPES:
            point = self.hexadecimal(HEXADECIMAL_ESCAPES[letter], start)
            if point > MAX_CODE_POINT:
                self.invalid("no code point", start)
            return point
        if not letter.isascii() or letter.isalnum() or letter in " \t\r\n":
            hint = f"Write {_CLASSES[letter]}" if letter in _CLASSES else ""
            self.invalid(f"\\{letter} has no meaning", start, hint)
        return ord(letter)
