r"""Characters of a pattern: escapes and classes, and how they are read.

The lenience is that of :mod:`state_machines.regex.parser`, of which this is a part.
"""

from __future__ import annotations

import re
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.errors import InvalidPatternError, UnsupportedPatternError
from state_machines.grammar.symbols import MAX_CODE_POINT, CodePointSet
from state_machines.regex.unicode_classes import DIGIT, SPACE, WORD, case_closure, property_set

__all__ = ["CharacterReader"]

_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_CLASS_ESCAPES = {"d": DIGIT, "w": WORD, "s": SPACE}
_PROPERTY = re.compile(r"\{([A-Za-z0-9_]+)(?:=([A-Za-z0-9_]+))?\}")


class CharacterReader:
    """A place in a pattern; reads characters, escaped ones and classes there.

    Raises :class:`~state_machines.errors.InvalidPatternError` and
    :class:`~state_machines.errors.UnsupportedPatternError`.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.ignore_case = False

    # Errors

    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        where = self.position if position is None else position
        raise InvalidPatternError(what, pattern=self.pattern, position=where, hint=hint)

    def unsupported(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        where = self.position if position is None else position
        raise UnsupportedPatternError(what, pattern=self.pattern, position=where, hint=hint)

    # Reading

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.position += len(text)
            return True
        return False

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.pattern)

    def next_character(self) -> str:
        if self.at_end:
            self.invalid("the pattern ends too early")
        character = self.pattern[self.position]
        self.position += 1
        return character

    def folded(self, members: CodePointSet) -> CodePointSet:
        return case_closure(members) if self.ignore_case else members

    # Escapes

    def class_escape(self, start: int) -> CodePointSet | None:
        r"""Read ``d``, ``P{…}`` and the like behind a backslash; ``None``: it is no class."""
        letter = self.pattern[self.position]
        if letter.lower() in _CLASS_ESCAPES:
            self.position += 1
            members = self.folded(_CLASS_ESCAPES[letter.lower()])
        elif letter in "pP":
            self.position += 1
            members = self.property(start)
        else:
            return None
        if letter.islower():
            return members
        return self.folded(~members) if letter == "P" else ~members

    def property(self, start: int) -> CodePointSet:
        match = _PROPERTY.match(self.pattern, self.position)
        if match is None:
            self.invalid("{Name} or {Name=Value} must stand behind \\p", start)
        self.position = match.end()
        try:
            members = property_set(match[1], match[2])
        except NotImplementedError:
            self.unsupported(f"the property {match[0]}", start)
        if members is None:
            hint = f"For a script write {{Script={match[1]}}}" if match[2] is None else ""
            self.invalid(f"there is no property {match[0]}", start, hint)
        return members

    def character_escape(self, start: int) -> int:
        """Read one escaped character behind the backslash; return its code point."""
        character = self.next_character()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            return self.hexadecimal(2, start)
        if character == "u":
            return self.unicode_escape(start)
        if character == "c":
            letter = self.next_character()
            if not (letter.isascii() and letter.isalpha()):
                self.invalid("a letter must stand behind \\c", start)
            return ord(letter) % 32
        if character == "0":
            if not self.at_end and self.pattern[self.position] in "0123456789":
                self.invalid("an octal escape", start, "Write \\xHH")
            return 0
        if character.isascii() and character.isalnum():
            hint = "^ and $ match the ends of the text" if character in "AZz" else ""
            self.invalid(f"\\{character} has no meaning in ECMA-262", start, hint)
        return ord(character)

    def hexadecimal(self, digits: int, start: int) -> int:
        text = self.pattern[self.position : self.position + digits]
        if len(text) < digits or not re.fullmatch("[0-9A-Fa-f]+", text):
            self.invalid(f"{digits} hexadecimal digits were expected", start)
        self.position += digits
        return int(text, 16)

    def unicode_escape(self, start: int) -> int:
        if self.take("{"):
            match = re.compile(r"([0-9A-Fa-f]+)\}").match(self.pattern, self.position)
            if match is None or len(match[1].lstrip("0")) > 6 or int(match[1], 16) > MAX_CODE_POINT:
                self.invalid("no code point", start)
            self.position = match.end()
            return int(match[1], 16)
        high = self.hexadecimal(4, start)
        if 0xD800 <= high <= 0xDBFF:
            match = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})").match(
                self.pattern, self.position
            )
            if match is not None:
                self.position = match.end()
                return 0x10000 + ((high - 0xD800) << 10) + int(match[1], 16) - 0xDC00
        return high

    # Names of groups

    def group_name(self) -> str:
        """Read the name of a group and the ``>`` behind it: a RegExpIdentifierName of ECMA-262."""
        start = self.position
        name: list[str] = []
        while not self.take(">"):
            if self.at_end:
                self.invalid("missing > behind a group name", start)
            here = self.position
            character = self.next_character()
            if character == "\\":
                if not self.take("u"):
                    self.invalid("an escape in a group name that is no \\u", here)
                character = chr(self.unicode_escape(here))
            if not _may_stand_in_name(character, at_start=not name):
                self.invalid("a group name was expected", here)
            name.append(character)
        if not name:
            self.invalid("a group name was expected", start)
        return "".join(name)

    # Classes

    def character_class(self, start: int) -> CodePointSet:
        """Read a class behind its opening bracket."""
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if self.at_end:
                self.invalid("missing ]", start)
            spend()
            here = self.position
            first = self.class_atom()
            if self.peek("-") and not self.peek("-]"):
                self.position += 1
                if self.at_end:
                    self.invalid("missing ]", start)
                last = self.class_atom()
                if isinstance(first, int) and isinstance(last, int):
                    if last < first:
                        self.invalid("a range that is out of order", here)
                    ranges.append((first, last))
                    continue
                spend(len(_ranges(last)) // 16)
                ranges.extend(_ranges(last))
                ranges.append((ord("-"), ord("-")))
            spend(len(_ranges(first)) // 16)
            ranges.extend(_ranges(first))
        members = self.folded(CodePointSet(ranges))
        return ~members if negated else members

    def class_atom(self) -> int | CodePointSet:
        start = self.position
        character = self.next_character()
        if character != "\\":
            return ord(character)
        if self.at_end:
            self.invalid("a backslash with nothing behind it", start)
        if self.take("b"):
            return 8
        members = self.class_escape(start)
        return self.character_escape(start) if members is None else members


def _may_stand_in_name(character: str, *, at_start: bool) -> bool:
    if character.isascii():
        return character in "$_" or (character.isalpha() if at_start else character.isalnum())
    if character in "\u200c\u200d":
        return not at_start
    members = property_set("ID_Start" if at_start else "ID_Continue")
    return members is not None and ord(character) in members


def _ranges(atom: int | CodePointSet) -> tuple[tuple[int, int], ...]:
    return ((atom, atom),) if isinstance(atom, int) else atom.ranges


_GROUP_OR_SKIP = re.compile(r"\\.|\[(?:[^\]\\]|\\.)*\]|\((?!\?)|\(\?P?<(?![=!])([^>]*)>", re.DOTALL)
