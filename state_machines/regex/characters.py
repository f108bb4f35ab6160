r"""The part of the parser that reads single characters: escapes, classes and names of groups.

:mod:`state_machines.regex.parser` says where the parser is more lenient than ECMA-262.
"""

from __future__ import annotations

import re
from itertools import count
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.errors import InvalidPatternError, UnsupportedPatternError
from state_machines.grammar.symbols import ANY_CODE_POINT, MAX_CODE_POINT, CodePointSet
from state_machines.limits import LIMITS
from state_machines.regex import unicode_versions
from state_machines.regex.unicode_classes import (
    ASCII,
    DIGIT,
    SPACE,
    WORD,
    case_closure,
    property_set,
)
from state_machines.syntax_tree import CLASS_MEMBERS_PER_STEP

_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_CLASS_ESCAPES = {"d": DIGIT, "w": WORD, "s": SPACE}
_PROPERTY = re.compile(r"\{([A-Za-z0-9_]+)(?:=([A-Za-z0-9_]+))?\}")
_BRACED_CODE_POINT = re.compile(r"([0-9A-Fa-f]+)\}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")


class CharacterReader:
    """Reads characters, escapes and classes of a pattern.

    Raises :class:`~state_machines.errors.InvalidPatternError` and
    :class:`~state_machines.errors.UnsupportedPatternError`.

    Attributes:
        text: The pattern.
        position: Where it is read.
        ignore_case: Whether characters match without case at the current position.
        is_denied: Whether the current position is one that a match must not have, as in ``(?!…)``.
        disputed: The characters on which readers may disagree in the class that is being read, as
            :mod:`~state_machines.regex.unicode_versions` says.
    """

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.position = 0
        self.ignore_case = False
        self.is_denied = False
        self.disputed = unicode_versions.NOTHING

    def invalid(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        """Raise for text that is no pattern; by default at the current position."""
        where = self.position if position is None else position
        raise InvalidPatternError(what, pattern=self.text, position=where, hint=hint)

    def unsupported(self, what: str, position: int | None = None, hint: str = "") -> NoReturn:
        """Raise for text that has a meaning but is not supported; ``what`` names the construct."""
        where = self.position if position is None else position
        raise UnsupportedPatternError(what, pattern=self.text, position=where, hint=hint)

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

    def folded(self, members: CodePointSet) -> CodePointSet:
        """Return a set with all case variants of its members if case is ignored."""
        if not self.ignore_case:
            return members
        if members is not ANY_CODE_POINT and members & ~ASCII:
            self.dispute("case_folding", sure=members)
        return case_closure(members)

    def dispute(
        self, name: str, value: str | None = None, sure: CodePointSet = unicode_versions.NOTHING
    ) -> None:
        """Note that the class depends on a property, except for its ``sure`` members."""
        found = unicode_versions.disputed(name, value)
        if found:
            if sure:
                found = found & ~sure
            self.disputed = (self.disputed | found) if self.disputed else found

    def agreed(self, members: CodePointSet) -> CodePointSet:
        """Return the members of a complete class that are so for all readers.

        Where a match is denied, these are all characters that are members for some reader.
        """
        disputed, self.disputed = self.disputed, unicode_versions.NOTHING
        if not disputed:
            return members
        return members | disputed if self.is_denied else unicode_versions.without(members, disputed)

    # Escapes

    def class_escape(self, start: int) -> CodePointSet | None:
        r"""Read ``d``, ``P{…}`` and the like after a backslash; ``None`` for any other escape."""
        letter = self.text[self.position]
        if letter.lower() in _CLASS_ESCAPES:
            self.position += 1
            members = self.folded(_CLASS_ESCAPES[letter.lower()])
        elif letter in "pP":
            self.position += 1
            members = self._property(start)
        else:
            return None
        if letter.islower():
            return members
        return self.folded(~members) if letter == "P" else ~members

    def _property(self, start: int) -> CodePointSet:
        match = _PROPERTY.match(self.text, self.position)
        if match is None:
            self.invalid("{Name} or {Name=Value} must follow \\p", start)
        self.position = match.end()
        try:
            members = property_set(match[1], match[2])
        except NotImplementedError:
            self.unsupported(f"the property {match[0]}", start)
        if members is None:
            hint = f"For a script write {{Script={match[1]}}}" if match[2] is None else ""
            self.invalid(f"there is no property {match[0]}", start, hint)
        self.dispute(match[1], match[2])
        return members

    def character_escape(self, start: int) -> int:
        """Read the escape of one character after the backslash; return its code point."""
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
                self.invalid("a letter must follow \\c", start)
            return ord(letter) % 32
        if character == "0":
            if not self.at_end and self.text[self.position] in "0123456789":
                self.invalid("an octal escape", start, "Write \\xHH")
            return 0
        if character.isascii() and character.isalnum():
            hint = "^ and $ match the ends of the text" if character in "AZz" else ""
            self.invalid(f"\\{character} has no meaning in ECMA-262", start, hint)
        return ord(character)

    def unicode_escape(self, start: int) -> int:
        r"""Read ``HHHH`` or ``{H…}`` after ``\u``, with the second half of a surrogate pair."""
        if self.take("{"):
            match = _BRACED_CODE_POINT.match(self.text, self.position)
            if match is None or len(match[1].lstrip("0")) > 6 or int(match[1], 16) > MAX_CODE_POINT:
                self.invalid("no code point", start)
            self.position = match.end()
            return int(match[1], 16)
        high = self.hexadecimal(4, start)
        if 0xD800 <= high <= 0xDBFF:
            match = _LOW_SURROGATE.match(self.text, self.position)
            if match is not None:
                self.position = match.end()
                return 0x10000 + ((high - 0xD800) << 10) + int(match[1], 16) - 0xDC00
        return high

    # Names of groups

    def group_name(self) -> str:
        """Read a RegExpIdentifierName of ECMA-262 and the ``>`` after it."""
        start = self.position
        name: list[str] = []
        while not self.take(">"):
            if self.at_end:
                self.invalid("missing > after a group name", start)
            here = self.position
            character = self.next_character()
            if character == "\\":
                if not self.take("u"):
                    self.invalid("an escape in a group name that is no \\u", here)
                character = chr(self.unicode_escape(here))
            if not _is_name_character(character, is_first=not name):
                self.invalid("a group name was expected", here)
            name.append(character)
        if not name:
            self.invalid("a group name was expected", start)
        return "".join(name)

    # Classes

    def character_class(self, start: int) -> CodePointSet:
        """Read a class after its opening bracket."""
        negated = self.take("^")
        members = self.folded(self.class_members(start))
        return ~members if negated else members

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

    def class_member(self) -> int | CodePointSet:
        """Read one character, or one escape that stands for a set, inside of a class."""
        start = self.position
        character = self.next_character()
        return 8 if character == "\\" and self.take("b") else self.class_character(character, start)

    def class_character(self, character: str, start: int) -> int | CodePointSet:
        """Return what one character of a class stands for; read the escape after a backslash."""
        if character != "\\":
            return ord(character)
        if self.at_end:
            self.invalid("nothing follows a backslash", start)
        members = self.class_escape(start)
        return self.character_escape(start) if members is None else members


def _is_name_character(character: str, *, is_first: bool) -> bool:
    if character.isascii():
        return character in "$_" or (character.isalpha() if is_first else character.isalnum())
    if character in "\u200c\u200d":
        return not is_first
    members = property_set("ID_Start" if is_first else "ID_Continue")
    return members is not None and ord(character) in members
