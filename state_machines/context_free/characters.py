r"""Characters of a grammar: white space, escapes, literals and classes, and how they are read."""

from __future__ import annotations

import re
from itertools import count
from typing import NoReturn

import numpy as np

from state_machines.budgets import spend
from state_machines.context_free.syntax import Position
from state_machines.errors import GrammarSyntaxError, UnsupportedGrammarError
from state_machines.grammar.symbols import MAX_CODE_POINT, CodePointSet
from state_machines.limits import LIMITS

__all__ = ["GrammarReader"]

_CONTROLS = {"0": 0, "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "e": 27}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[a-zA-Z0-9_]",
    "W": "[^a-zA-Z0-9_]",
    "s": r"[ \t\n\r]",
    "S": r"[^ \t\n\r]",
}
_SPACE = re.compile(r"[ \t\r\n]*")
_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")
_PLAIN = re.compile(r'[^"\\\ud800-\udfff]+')

CHARACTERS_PER_STEP = 8
"""Characters of a class that are read in about a step."""


class GrammarReader:
    """A place in the text of a grammar; reads characters there.

    Raises :class:`~state_machines.errors.GrammarSyntaxError`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.rule = ""
        """The name of the rule being read."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        self._breaks = np.flatnonzero(points == ord("\n"))

    def place(self, position: int) -> Position:
        """Return the line and the column of an offset."""
        line = int(np.searchsorted(self._breaks, position))
        before = int(self._breaks[line - 1]) if line else -1
        return line + 1, position - before

    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        line, column = self.place(self.position if position is None else position)
        raise GrammarSyntaxError(what, line=line, column=column, rule=self.rule, hint=hint)

    def too_large(self, what: str, position: int) -> NoReturn:
        line, column = self.place(position)
        raise UnsupportedGrammarError(what, line=line, column=column, rule=self.rule)

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.position += len(text)
            return True
        return False

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def skip_space(self) -> None:
        """Go on behind white space and comments."""
        self.position = self.end_of_space(self.position)

    def end_of_space(self, position: int) -> int:
        """Return where white space and comments end that begin at an offset."""
        for comments in count():
            found = _SPACE.match(self.text, position)
            assert found is not None, "it matches nothing, too"
            position = found.end()
            if not self.text.startswith("#", position):
                break
            if not comments % CHARACTERS_PER_STEP:
                spend()
            end = self.text.find("\n", position)
            position = len(self.text) if end < 0 else end
        return position

    def literal(self) -> str:
        """Read a literal behind its opening quote."""
        start = self.position - 1
        parts: list[str] = []
        while not self.take('"'):
            if self.at_end:
                self.invalid('missing "', start)
            spend()
            plain = _PLAIN.match(self.text, self.position)
            if plain is None:
                parts.append(chr(self.character()))
            else:
                parts.append(plain[0])
                self.position = plain.end()
        return "".join(parts)

    def character_class(self) -> CodePointSet:
        """Read a class behind its opening bracket."""
        start = self.position - 1
        negated = self.take("^")
        if self.peek("]"):
            hint = "Write . for any character" if negated else r"Write \] for a bracket"
            self.invalid("a class without a member", start, hint)
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if self.at_end:
                self.invalid("missing ]", start)
            if not len(ranges) % CHARACTERS_PER_STEP:
                spend()
            if len(ranges) > LIMITS.class_ranges:
                self.too_large(f"a class of more than {LIMITS.class_ranges:,} ranges", start)
            here = self.position
            first = last = self.character()
            if self.peek("-") and not self.peek("-]"):
                self.position += 1
                if self.at_end:
                    self.invalid("missing ]", start)
                last = self.character()
            if last < first:
                self.invalid("a range that is out of order", here)
            ranges.append((first, last))
        members = CodePointSet(ranges)
        return ~members if negated else members

    def character(self) -> int:
        """Read one character, which may be escaped; return its code point."""
        start = self.position
        character = self.text[start]
        self.position += 1
        point = self._escape(start) if character == "\\" else ord(character)
        if 0xD800 <= point <= 0xDFFF:
            self.invalid("a surrogate, which is no character", start, r"Write \UHHHHHHHH")
        return point

    def _escape(self, start: int) -> int:
        if self.at_end:
            self.invalid("a backslash with nothing behind it", start)
        letter = self.text[self.position]
        self.position += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in _DIGITS:
            count = _DIGITS[letter]
            digits = self.text[self.position : self.position + count]
            if len(digits) < count or not _HEXADECIMAL.fullmatch(digits):
                self.invalid(f"{count} hexadecimal digits must stand behind \\{letter}", start)
            self.position += count
            point = int(digits, 16)
            if point > MAX_CODE_POINT:
                self.invalid("no code point", start)
            return point
        if not letter.isascii() or letter.isalnum() or letter in " \t\r\n":
            hint = f"Write {_CLASSES[letter]}" if letter in _CLASSES else ""
            self.invalid(f"\\{letter} has no meaning", start, hint)
        return ord(letter)
