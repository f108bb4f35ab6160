"""Reading steps that the parsers of regular expressions and of grammars share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from itertools import count
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.grammar.symbols import CodePointSet
from state_machines.limits import LIMITS

REPETITION_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
"""Repetition operators of one character, with their bounds."""

HEXADECIMAL_ESCAPES = {"x": 2, "u": 4, "U": 8}
"""Letters of escapes by code point, with the number of their digits."""

_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")

CLASS_MEMBERS_PER_STEP = 8
"""Members of a character class that one step reads."""


class TextReader(ABC):
    """A text and the position up to which it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    @abstractmethod
    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        """Raise for text that is not of the notation; by default at the current position."""

    @abstractmethod
    def unsupported(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        """Raise for text that has a meaning but is not supported; ``what`` names the construct."""

    def class_member(self) -> int | CodePointSet:
        """Read one character, or one escape that stands for a set, inside of a class."""
        raise NotImplementedError  # pragma: no cover - for notations with classes

    def peek(self, text: str) -> bool:
        """Return whether ``text`` comes next."""
        return self.text.startswith(text, self.position)

    def take(self, text: str) -> bool:
        """Read ``text`` if it comes next; return whether it did."""
        if self.text.startswith(text, self.position):
            self.position += len(text)
            return True
        return False

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def next_character(self) -> str:
        """Read one character."""
        if self.at_end:
            self.invalid("unexpected end")
        character = self.text[self.position]
        self.position += 1
        return character

    def hexadecimal(self, digits: int, start: int) -> int:
        """Read a number of exactly ``digits`` digits; ``start`` is the position for errors."""
        text = self.text[self.position : self.position + digits]
        if len(text) < digits or not _HEXADECIMAL.fullmatch(text):
            self.invalid(f"{digits} hexadecimal digits were expected", start)
        self.position += digits
        return int(text, 16)

    def class_members(self, start: int) -> CodePointSet:
        """Read the members of a character class, and the bracket that closes it.

        A ``-`` beside a set is itself, as in Annex B of ECMA-262.
        """
        ranges: list[tuple[int, int]] = []
        for members in count():
            if self.take("]"):
                break
            if not members % CLASS_MEMBERS_PER_STEP:
                spend()
            if members > LIMITS.class_ranges:
                self.unsupported(f"a class of more than {LIMITS.class_ranges:,} ranges", start)
            here = self.position
            first = self._class_member(start)
            found = [first]
            if self.peek("-") and not self.peek("-]"):
                self.position += 1
                last = self._class_member(start)
                if isinstance(first, int) and isinstance(last, int):
                    if last < first:
                        self.invalid("a range that is out of order", here)
                    ranges.append((first, last))
                    continue
                found += [ord("-"), last]
            for each in found:
                if isinstance(each, int):
                    ranges.append((each, each))
                else:
                    spend(len(each.ranges) // 16)
                    ranges.extend(each.ranges)
        return CodePointSet(ranges)

    def _class_member(self, start: int) -> int | CodePointSet:
        if self.at_end:
            self.invalid("missing ]", start)
        return self.class_member()
