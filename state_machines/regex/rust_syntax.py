r"""Parse a regular expression in the syntax of Rust's ``regex`` crate into a syntax tree.

Pydantic's patterns are such expressions, and so are the lexemes of grammars in Lark's notation. The
differences from ECMA-262:

* ``\d``, ``\w``, ``\s`` and ``\b`` are Unicode's: decimal digits, word characters, white space.
* ``.`` is any character but a line feed; with the flag ``s`` it is any character.
* Flags are set at any place, for the rest of a group (``(?i)``) or for one group (``(?s-i:…)``):
  ``i`` (without case), ``s``, ``m`` (``^`` and ``$`` at lines), ``R`` (``\r\n`` ends lines too),
  ``x`` (white space and ``#`` comments have no meaning), ``U`` (no effect) and ``u``, without which
  the classes are those of ASCII.
* ``\A`` and ``\z`` are the ends of the text; ``\<``, ``\>``, ``\b{start}``, ``\b{end-half}`` and
  the like those of words.
* Classes nest, and have the operators ``&&``, ``--`` and ``~~`` and the names ``[:alpha:]``.
* ``\p{…}`` matches names loosely, and scripts by their name alone.
* A quantifier may follow a quantifier.

There are no look-arounds and no back-references. As in ECMA-262's Annex B, a ``{`` that opens no
quantifier is itself, which the crate refuses.
"""

from __future__ import annotations

import re

from state_machines.budgets import spend
from state_machines.grammar.symbols import ANY_CODE_POINT, MAX_CODE_POINT, CodePointSet
from state_machines.limits import LIMITS
from state_machines.regex import assertions
from state_machines.regex.parser import NO_PART, PatternReader
from state_machines.regex.unicode_classes import (
    ASCII,
    ascii_class,
    loose_property_set,
    perl_class,
)
from state_machines.regex.unicode_versions import NOTHING
from state_machines.syntax_tree import (
    CLASS_MEMBERS_PER_STEP,
    HEXADECIMAL_ESCAPES,
    Characters,
    End,
    Expression,
    Repeat,
    Start,
)

_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_PROPERTY = re.compile(r"\{(\^?)([A-Za-z0-9_ -]+)(?:(!=|=|:)([A-Za-z0-9_. -]+))?\}")
_BRACED = re.compile(r"\{([0-9A-Fa-f]+)\}")
_WORD_EDGE = re.compile(r"\{(start|end|start-half|end-half)\}")
_NAME = re.compile(r"([^\W\d][\w.\[\]]*)>")
ASCII_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
_SPACE = re.compile(r"(?:[\t-\r \x85\u200e\u200f\u2028\u2029]+|#[^\n]*)+")
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ASCII_PERL = {"d": "digit", "s": "space", "w": "word"}
_SET_OPERATORS = ("&&", "--", "~~")


def parse(pattern: str, flags: str = "") -> Expression:
    r"""Return the syntax tree of a pattern.

    Args:
        pattern: The expression.
        flags: Flags that are set from the start, of ``imsuxRU``; ``u`` is always set.

    Raises:
        InvalidPatternError: The text is no regular expression.
        UnsupportedPatternError: It has a construct that is not supported.
    """
    return RustReader(pattern, flags).parse()


class RustReader(PatternReader):
    """Reads a pattern as the crate does."""

    braces = re.compile(r"\{\s*([0-9]+)\s*(?:(,)\s*([0-9]*)\s*)?\}")

    flag_letters = frozenset("imsuxRU")
    no_look_hint = "Rust's syntax has none; pydantic's regex_engine='python-re' has"
    """What to do about an assertion that is refused."""

    def __init__(self, pattern: str, flags: str) -> None:
        super().__init__(pattern)
        self.flags = frozenset(flags) | {"u"}

    @property
    def flags(self) -> frozenset[str]:
        return self._flags

    @flags.setter
    def flags(self, flags: frozenset[str]) -> None:
        self._flags = flags
        self.ignore_case = "i" in flags

    @property
    def any_character(self) -> CodePointSet:
        """Any character but a line end, with the flag ``s`` any."""
        ends = CodePointSet.of("\r\n" if "R" in self.flags else "\n")
        members = ANY_CODE_POINT if "s" in self.flags else ~ends
        self.check_utf8(members, self.position - 1)
        return members

    def anchor(self, mark: str) -> Expression:
        if "m" not in self.flags:
            return super().anchor(mark)
        if "R" in self.flags:
            return assertions.CRLF_LINE_START if mark == "^" else assertions.CRLF_LINE_END
        return assertions.LINE_START if mark == "^" else assertions.LINE_END

    def skip_ignored(self) -> None:
        if "x" in self.flags:
            found = _SPACE.match(self.text, self.position)
            if found is not None:
                self.position = found.end()

    def folded(self, members: CodePointSet) -> CodePointSet:
        if self.ignore_case and "u" not in self.flags:
            return members | (super().folded(members & ASCII) & ASCII)
        return super().folded(members)

    def check_utf8(self, members: CodePointSet, start: int) -> None:
        """Refuse a set beyond ASCII without the flag ``u``: it would match parts of characters."""
        if "u" not in self.flags and members & ~ASCII:
            self.invalid("a set without the flag u that is not of ASCII alone", start)

    def term(self) -> Expression:
        """Read one part with its quantifiers."""
        spend()
        start = self.position
        part = self.atom()
        marks = 0
        while True:
            self.skip_ignored()
            here = self.position
            bounds = self.quantifier()
            if bounds is None:
                return part
            if part is NO_PART:
                self.invalid("a quantifier with nothing to repeat", here)
            marks += 1
            if marks > LIMITS.repetition_marks:
                self.unsupported(f"more than {LIMITS.repetition_marks} quantifiers in a row", here)
            part = Repeat(part, *bounds, position=start)

    def bounds_of(self, braces: re.Match[str]) -> tuple[int, int | None]:
        min_count, max_count = super().bounds_of(braces)
        if max_count is not None and max_count < min_count:
            self.invalid("the bounds of a quantifier are out of order", braces.start())
        return min_count, max_count

    # Groups

    def group(self, start: int) -> Expression:
        self.skip_ignored()
        for mark in ("?=", "?!", "?<=", "?<!"):
            if self.peek(mark):
                name = "look-behind" if "<" in mark else "look-ahead"
                self.unsupported(f"a {name}", start, self.no_look_hint)
        if self.peek("?>") or self.peek("?P>") or self.peek("?P="):
            self.unsupported("an atomic group or a back-reference", start)
        flags = self.flags
        if self.take("?<") or self.take("?P<"):
            self.group_name()
        elif self.peek("?"):
            found = _FLAGS.match(self.text, self.position)
            if found is None:
                self.invalid("an unknown kind of group", start)
            self.position = found.end()
            flags = self.changed_flags(found, start)
            if found[3] == ")":
                self.flags = flags
                return NO_PART
        outer, self.flags = self.flags, flags
        with self.nested(start):
            body = self.alternation()
            if not self.take(")"):
                self.invalid("missing )", start)
        self.flags = outer
        return body

    def group_name(self) -> str:
        """Read the name of a group and the ``>`` after it."""
        start = self.position
        found = _NAME.match(self.text, start)
        if found is None:
            self.invalid("a group name was expected", start)
        self.position = found.end()
        return found[1]

    def changed_flags(self, found: re.Match[str], start: int) -> frozenset[str]:
        on, off = set(found[1]), set(found[2] or "")
        unknown = (on | off) - self.flag_letters
        if unknown:
            known = ", ".join(sorted(self.flag_letters))
            self.unsupported(f"the flag {min(unknown)}", start, f"Flags are {known}")
        return frozenset((self.flags | on) - off)

    # Escapes

    def escape(self, start: int) -> Expression:
        letter = self.text[self.position]
        if letter in "Az":
            self.position += 1
            return Start() if letter == "A" else End()
        if letter in "bB<>":
            self.position += 1
            return self.word_edge(letter)
        if letter in "123456789k":
            self.unsupported("a back-reference", start, "Repeat the text as a rule of its own")
        members = self.class_escape(start)
        if members is not None:
            self.check_utf8(members, start)
            return Characters(self.agreed(members))
        return self.single(self.character_escape(start))

    def word_edge(self, letter: str) -> Expression:
        r"""Read the assertion about words that begins with a letter of ``bB<>``."""
        special = _WORD_EDGE.match(self.text, self.position) if letter == "b" else None
        edge = {"<": "start", ">": "end"}.get(letter, "")
        if special is not None:
            self.position = special.end()
            edge = special[1]
        word = self.perl_members("w")
        disputed, self.disputed = self.disputed, NOTHING
        if not edge:
            return assertions.word_boundary(word, letter == "B", disputed)
        return assertions.word_edge(edge, word, disputed)

    def perl_members(self, letter: str) -> CodePointSet:
        """Return the set of ``d``, ``s`` or ``w``."""
        if "u" not in self.flags:
            members = ascii_class(_ASCII_PERL[letter])
            assert members is not None
            return members
        if letter != "s":
            self.dispute(letter)
        return perl_class(letter)

    def class_escape(self, start: int) -> CodePointSet | None:
        letter = self.text[self.position]
        if letter in "dDwWsS":
            self.position += 1
            members = self.folded(self.perl_members(letter.lower()))
        elif letter in "pP":
            self.position += 1
            members = self.folded(self.unicode_property(start))
        else:
            return None
        return members if letter.islower() else ~members

    def unicode_property(self, start: int) -> CodePointSet:
        self.check_utf8(ANY_CODE_POINT, start)
        found = _PROPERTY.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
            negated, name, operator, value = found.groups()
        else:
            negated, name, operator, value = "", self.next_character(), None, None
        try:
            members = loose_property_set(name, value)
        except NotImplementedError:
            self.unsupported(f"the property {name}", start)
        if members is None and value is not None:
            self.unsupported(f"the property {name} of the value {value}", start)
        if members is None:
            self.invalid(f"there is no property {self.text[start : self.position]}", start)
        self.dispute(name, value)
        return ~members if bool(negated) != (operator == "!=") else members

    def character_escape(self, start: int) -> int:
        letter = self.next_character()
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in HEXADECIMAL_ESCAPES:
            found = _BRACED.match(self.text, self.position)
            if found is not None:
                self.position = found.end()
                digits = found[1].lstrip("0") or "0"
                point = int(digits, 16) if len(digits) < 8 else MAX_CODE_POINT + 1
            else:
                point = self.hexadecimal(HEXADECIMAL_ESCAPES[letter], start)
            if point > MAX_CODE_POINT or 0xD800 <= point <= 0xDFFF:
                self.invalid("no character", start)
            return point
        if letter.isascii() and letter.isalnum():
            hint = r"\z is the end of the text" if letter == "Z" else ""
            self.invalid(f"\\{letter} has no meaning", start, hint)
        return ord(letter)

    # Classes

    def character_class(self, start: int) -> CodePointSet:
        """Read a class after its opening bracket, with nested classes and set operators."""
        with self.nested(start):
            self.skip_ignored()
            negated = self.take("^")
            result = self.class_operand(start, self.leading_members())
            while not self.take("]"):
                operator = self.text[self.position : self.position + 2]
                self.position += 2
                operand = self.class_operand(start, [])
                match operator:
                    case "&&":
                        result = result & operand
                    case "--":
                        result = result & ~operand
                    case "~~":
                        result = (result | operand) & ~(result & operand)
        if negated:
            result = ~result
        self.check_utf8(result, start)
        return result

    def leading_members(self) -> list[tuple[int, int]]:
        """Read each ``-``, or else one ``]``, at the start of a class: they are themselves."""
        found: list[tuple[int, int]] = []
        self.skip_ignored()
        while self.take("-"):
            found.append((ord("-"), ord("-")))
            self.skip_ignored()
        if not found and self.take("]"):
            found.append((ord("]"), ord("]")))
        return found

    def class_operand(self, start: int, found: list[tuple[int, int]]) -> CodePointSet:
        """Read members up to a set operator or the closing bracket, and add them to ``found``."""
        count = 0
        while True:
            self.skip_ignored()
            if self.at_end:
                self.invalid("missing ]", start)
            if self.text.startswith(_SET_OPERATORS, self.position) or self.peek("]"):
                break
            if not count % CLASS_MEMBERS_PER_STEP:
                spend()
            count += 1
            if count > LIMITS.class_ranges:
                self.unsupported(f"a class of more than {LIMITS.class_ranges:,} ranges", start)
            found.extend(self.class_range(start))
        return self.folded(CodePointSet(found))

    def class_range(self, start: int) -> tuple[tuple[int, int], ...]:
        here = self.position
        first = self.class_member()
        self.skip_ignored()
        if not isinstance(first, int):
            return first.ranges
        if not self.peek("-"):
            return ((first, first),)
        hyphen = self.position
        self.position += 1
        self.skip_ignored()
        if self.at_end:
            self.invalid("missing ]", start)
        if self.peek("]") or self.peek("-"):
            self.position = hyphen
            return ((first, first),)
        last = self.class_member()
        if not isinstance(last, int):
            self.invalid("a set as the end of a range", here)
        if last < first:
            self.invalid("a range that is out of order", here)
        return ((first, last),)

    def class_member(self) -> int | CodePointSet:
        start = self.position
        character = self.next_character()
        if character == "[":
            named = ASCII_CLASS.match(self.text, start)
            members = None if named is None else ascii_class(named[2])
            if named is None or members is None:
                return self.nested_class(start)
            self.position = named.end()
            members = self.folded(members)
            return ~members if named[1] else members
        return self.class_character(character, start)

    def nested_class(self, start: int) -> CodePointSet:
        """Read a class inside a class, after its opening bracket."""
        return self.character_class(start)
