r"""Parse a regular expression in the syntax of Python's ``re`` into a syntax tree.

The differences from ECMA-262:

* ``$`` is also true before a line feed that ends the text, and with the flag ``m`` before each one;
  ``\A`` and ``\Z`` are the ends of the text.
* ``\d``, ``\w``, ``\s`` and ``\b`` are Unicode's unless the flag ``a`` is set. Without case, a
  character equals what ``re`` takes for equal: it compares lower case of one character, with a
  table of further equal characters. These sets are not computed here. The ``re`` of the Python that
  runs matches all characters, so they have its version of Unicode.
* A ``]`` at the start of a class is a member. Classes have no set operators.
* ``\N{NAME}``, ``\U0010ffff`` and octal escapes are characters; ``{,n}`` is a quantifier.
* Flags (``aimsux``) are set at the start, or for one group (``(?s-i:…)``) but for ``a`` and ``u``.
  ``(?#…)`` is a comment.

``re`` itself judges whether a pattern is valid. Constructs whose language is not regular, or
depends on the order of the alternatives, are refused: back-references, conditional groups, atomic
groups and possessive quantifiers.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache, reduce
from operator import or_

from state_machines.budgets import spend
from state_machines.errors import InvalidPatternError
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.limits import LIMITS
from state_machines.regex import assertions
from state_machines.regex.parser import NO_PART, PatternReader
from state_machines.regex.unicode_classes import PROPERTY_STEPS, all_characters, characters_matching
from state_machines.syntax_tree import (
    CLASS_MEMBERS_PER_STEP,
    HEXADECIMAL_ESCAPES,
    Characters,
    End,
    Expression,
    LookAhead,
    Repeat,
    Start,
    WordBoundary,
)

FLAG_LETTERS = {
    "a": re.ASCII,
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "u": re.UNICODE,
    "x": re.VERBOSE,
}
"""Flags of ``re`` by the letters that set them inside a pattern."""

_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_IGNORED = re.compile(r"(?:\(\?#[^)]*\))+")
_IGNORED_IF_VERBOSE = re.compile(r"(?:[ \t-\r]+|#[^\n]*|\(\?#[^)]*\))+")
_GROUP_NAME = re.compile(r"\?P<[^>]*>")
_CHARACTER_NAME = re.compile(r"\{([^}]*)\}")
_OCTAL = re.compile(r"0[0-7]{0,2}|[0-7]{3}")
_OCTAL_IN_CLASS = re.compile(r"[0-7]{1,3}")
_CONTROLS = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}

_IS_ANYTHING_INSIDE_EMPTY = re.search(r"\B", "") is not None
r"""Whether ``\B`` is true in the empty text: from Python 3.14 on."""


def flag_letters(flags: int) -> str:
    """Return the letters of the flags of a compiled pattern (``re.Pattern.flags``)."""
    return "".join(letter for letter, flag in FLAG_LETTERS.items() if flags & flag)


def parse(pattern: str, flags: str = "") -> Expression:
    """Return the syntax tree of a pattern.

    Args:
        pattern: The expression.
        flags: Flags that are set from the start, of ``aimsux``.

    Raises:
        InvalidPatternError: ``re`` does not compile the pattern.
        UnsupportedPatternError: It has a construct that is not supported.
    """
    try:
        re.compile(pattern, reduce(or_, map(FLAG_LETTERS.__getitem__, flags), re.NOFLAG))
    except (re.error, OverflowError, ValueError) as error:
        what = getattr(error, "msg", str(error))
        position = getattr(error, "pos", None) or 0
        raise InvalidPatternError(what, pattern=pattern, position=position) from error
    return _PythonParser(pattern, flags).parse()


class _PythonParser(PatternReader):
    """Reads a pattern that ``re`` compiles."""

    braces = re.compile(r"\{(?!\})([0-9]*)(?:(,)([0-9]*))?\}")

    def __init__(self, pattern: str, flags: str) -> None:
        super().__init__(pattern)
        self.flags = frozenset(flags)

    @property
    def is_ascii(self) -> bool:
        return "a" in self.flags

    @property
    def any_character(self) -> CodePointSet:
        """Any character but a line feed, with the flag ``s`` any."""
        return ANY_CODE_POINT if "s" in self.flags else ~code_points("\n")

    def anchor(self, mark: str) -> Expression:
        if "m" in self.flags:
            return assertions.LINE_START if mark == "^" else assertions.LINE_END
        return Start() if mark == "^" else assertions.LAST_LINE_END

    def skip_ignored(self) -> None:
        ignored = _IGNORED_IF_VERBOSE if "x" in self.flags else _IGNORED
        found = ignored.match(self.text, self.position)
        if found is not None:
            self.position = found.end()

    def term(self) -> Expression:
        """Read one part with its quantifier."""
        spend()
        start = self.position
        part = self.atom()
        if part is NO_PART:
            return part
        self.skip_ignored()
        bounds = self.quantifier()
        if bounds is None:
            return part
        if self.peek("+"):
            hint = "Leave the + out if what follows cannot begin as the repeated part does"
            self.unsupported("a possessive quantifier", self.position, hint)
        return Repeat(part, *bounds, position=start)

    def single(self, code_point: int) -> Expression:
        members = code_points(code_point)
        if members and "i" in self.flags:
            members = ignoring_case(re.escape(chr(code_point)), members, is_ascii=self.is_ascii)
        return Characters(members)

    # Groups

    def group(self, start: int) -> Expression:
        flags = self.flags
        with self.nested(start):
            mark = self.group_kind(start)
            if mark is None:
                return NO_PART
            body = self.alternation()
            self.take(")")
        self.flags = flags
        if mark in ("?=", "?!"):
            return LookAhead(body, negated=mark == "?!")
        if mark in ("?<=", "?<!"):
            return self.look_behind(start, body, negated=mark == "?<!")
        return body

    def group_kind(self, start: int) -> str | None:
        """Read what follows ``(``; return the mark of an assertion, ``""``, or ``None`` for flags.

        ``None`` says that the group has ended, and that its flags hold from here on.
        """
        for mark in ("?=", "?!", "?<=", "?<!"):
            if self.take(mark):
                return mark
        if not self.peek("?"):
            return ""
        if self.peek("?P="):
            self.unsupported("a back-reference", start, "Write out the texts that it can repeat")
        if self.peek("?>"):
            self.unsupported("an atomic group", start, "Write (?:…) if it cannot end in two ways")
        if self.peek("?("):
            self.unsupported("a conditional group", start, "Write one alternative for each case")
        name = _GROUP_NAME.match(self.text, self.position)
        if name is not None:
            self.position = name.end()
            return ""
        found = _FLAGS.match(self.text, self.position)
        if found is None:
            self.unsupported("an unknown kind of group", start)
        self.position = found.end()
        on, off = set(found[1]), set(found[2] or "")
        if found[3] == ")":
            self.flags |= on
            return None
        if on & {"a", "u"} and ("a" in on) != self.is_ascii:
            hint = (
                "re.search ignores it in places; set re.ASCII for the whole pattern, or not at all"
            )
            self.unsupported("the flag a or u for a part of the pattern", start, hint)
        self.flags = (self.flags | on) - off
        return ""

    # Escapes

    def escape(self, start: int) -> Expression:
        letter = self.text[self.position]
        if letter in "AZz":
            self.position += 1
            return Start() if letter == "A" else End()
        if letter in "bB":
            self.position += 1
            return self.word_boundary(negated=letter == "B")
        octal = _OCTAL.match(self.text, self.position)
        if octal is not None:
            self.position = octal.end()
            return self.single(int(octal[0], 8))
        if letter in "123456789":
            self.unsupported("a back-reference", start, "Write out the texts that it can repeat")
        members = self.class_escape(start)
        if members is not None:
            return Characters(members)
        return self.single(self.character_escape(start))

    def word_boundary(self, *, negated: bool) -> Expression:
        word = perl_members("w", is_ascii=self.is_ascii)
        boundary = WordBoundary(word, ~word, negated)
        if negated and not _IS_ANYTHING_INSIDE_EMPTY:
            return assertions.in_some_text(boundary)
        return boundary

    def class_escape(self, start: int) -> CodePointSet | None:
        letter = self.text[self.position]
        if letter not in "dDwWsS":
            return None
        self.position += 1
        members = perl_members(letter.lower(), is_ascii=self.is_ascii)
        return members if letter.islower() else ~members

    def character_escape(self, start: int) -> int:
        letter = self.next_character()
        if letter in HEXADECIMAL_ESCAPES:
            return self.hexadecimal(HEXADECIMAL_ESCAPES[letter], start)
        if letter == "N":
            name = _CHARACTER_NAME.match(self.text, self.position)
            assert name is not None, self.text
            self.position = name.end()
            return ord(unicodedata.lookup(name[1]))
        return _CONTROLS.get(letter, ord(letter))

    # Classes

    def character_class(self, start: int) -> CodePointSet:
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        count = 0
        while not count or not self.take("]"):
            if not count % CLASS_MEMBERS_PER_STEP:
                spend()
            count += 1
            if count > LIMITS.class_ranges:
                self.unsupported(f"a class of more than {LIMITS.class_ranges:,} ranges", start)
            ranges.extend(self.class_range())
        members = CodePointSet(ranges)
        if negated:
            members = ~members
        if "i" in self.flags:
            source = self.text[start : self.position]
            return ignoring_case(source, members, is_ascii=self.is_ascii)
        return members

    def class_range(self) -> tuple[tuple[int, int], ...]:
        first = self.class_member()
        if not isinstance(first, int):
            return first.ranges
        if not self.peek("-") or self.peek("-]"):
            return ((first, first),)
        self.position += 1
        last = self.class_member()
        assert isinstance(last, int), self.text
        return ((first, last),)

    def class_member(self) -> int | CodePointSet:
        start = self.position
        character = self.next_character()
        octal = _OCTAL_IN_CLASS.match(self.text, self.position) if character == "\\" else None
        if octal is not None:
            self.position = octal.end()
            return int(octal[0], 8)
        return self.class_character(character, start)


_CASED_STEPS = 50
"""Steps charged for matching all characters that have case."""


@lru_cache(maxsize=6)
def perl_members(letter: str, *, is_ascii: bool) -> CodePointSet:
    """Return the set of ``d``, ``s`` or ``w``."""
    return characters_matching(re.compile(rf"\{letter}+", re.ASCII if is_ascii else re.UNICODE))


@lru_cache(maxsize=1)
def _with_case() -> tuple[str, CodePointSet]:
    """Return all characters with another case, as a string and as a set."""
    spend(PROPERTY_STEPS)
    found = "".join(
        character
        for character in all_characters()
        if not character.lower() == character == character.upper() == character.casefold()
    )
    return found, CodePointSet.of(found)


def ignoring_case(source: str, members: CodePointSet, *, is_ascii: bool) -> CodePointSet:
    """Return the characters that an expression for one character matches without case.

    Args:
        source: The expression.
        members: The characters that it matches with case.
        is_ascii: Whether the flag ``re.ASCII`` is set.
    """
    spend(_CASED_STEPS)
    characters, with_case = _with_case()
    matcher = re.compile(source, re.IGNORECASE | (re.ASCII if is_ascii else re.UNICODE))
    return members & ~with_case | CodePointSet.of("".join(matcher.findall(characters)))
