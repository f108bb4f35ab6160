r"""Characters of a grammar: white space, escapes, literals and classes, and how they are read."""

from __future__ import annotations

import re
from typing import NoReturn

from state_machines.context_free.syntax import Position
from state_machines.errors import GrammarSyntaxError
from state_machines.grammar.symbols import MAX_CODE_POINT, CodePointSet

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
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")


class GrammarReader:
    """A place in the text of a grammar; reads characters there.

    Raises :class:`~state_machines.errors.GrammarSyntaxError`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.rule = ""
        """The name of the rule being read."""

    def place(self, position: int) -> Position:
        """Return the line and the column of an offset."""
        before = self.text[:position]
        return before.count("\n") + 1, position - before.rfind("\n")

    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        line, column = self.place(self.position if position is None else position)
        raise GrammarSyntaxError(what, line=line, column=column, rule=self.rule, hint=hint)

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
        found = _SPACE.match(self.text, self.position)
        assert found is not None, "it matches nothing, too"
        self.position = found.end()

    def literal(self) -> str:
        """Read a literal behind its opening quote."""
        start = self.position - 1
        points: list[str] = []
        while not self.take('"'):
            if self.at_end:
                self.invalid('missing "', start)
            points.append(chr(self.character()))
        return "".join(points)

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
