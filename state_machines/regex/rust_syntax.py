r"""Parse a regular expression in the syntax of Rust's ``regex`` crate into a syntax tree.

Grammars in Lark's notation contain such expressions. The differences from ECMA-262:

* ``\d``, ``\w`` and ``\s`` are Unicode's decimal digits, word characters and white space.
* ``.`` is any character but a line feed; with the flag ``s`` it is any character.
* Flags are set at any place, for the rest of a group (``(?i)``) or for one group (``(?s-i:…)``):
  ``i`` (without case), ``s``, ``x`` (white space and ``#`` comments have no meaning), ``m`` and
  ``u`` (no effect).
* Classes nest, and have the operators ``&&``, ``--`` and ``~~`` and the names ``[:alpha:]``.
* ``\p{…}`` matches names loosely, and scripts by their name alone.
* A quantifier may follow a quantifier.

An expression describes whole lexemes, so ``^`` and ``\A`` at its start and ``$`` and ``\z`` at its
end have no effect. All other assertions are refused, and so are lazy quantifiers, whose meaning
depends on what follows. As in ECMA-262's Annex B, a ``{`` that opens no quantifier is itself.
"""

from __future__ import annotations

import re

from state_machines.budgets import spend
from state_machines.grammar.symbols import ANY_CODE_POINT, MAX_CODE_POINT, CodePointSet, code_points
from state_machines.limits import LIMITS
from state_machines.regex.parser import PatternReader
from state_machines.regex.unicode_classes import ascii_class, loose_property_set, perl_class
from state_machines.syntax_tree import (
    Characters,
    End,
    Expression,
    Repeat,
    Series,
    Start,
)
from state_machines.text_reader import CLASS_MEMBERS_PER_STEP, HEXADECIMAL_ESCAPES

_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_PROPERTY = re.compile(r"\{(\^?)([A-Za-z0-9_ -]+)(?:(!=|=|:)([A-Za-z0-9_ -]+))?\}")
_BRACED = re.compile(r"\{([0-9A-Fa-f]+)\}")
_ASCII_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
_SPACE = re.compile(r"(?:[\t-\r \x85\u200e\u200f\u2028\u2029]+|#[^\n]*)+")
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_SET_OPERATORS = ("&&", "--", "~~")
_NO_LOOK = "Terminals with & and ~ express conditions on the text of a lexeme"
_NO_PART = Series(())
"""Flags and anchors without effect."""


def parse(pattern: str, flags: str = "") -> Expression:
    r"""Return the syntax tree of a pattern; it has no assertions.

    Args:
        pattern: The expression.
        flags: Flags that are set from the start, of ``imsux``.

    Raises:
        InvalidPatternError: The text is no regular expression.
        UnsupportedPatternError: It has an assertion, a lazy quantifier or a back-reference.
    """
    return _Parser(pattern, flags).parse()


class _Parser(PatternReader):
    def __init__(self, pattern: str, flags: str) -> None:
        super().__init__(pattern)
        self.flags = frozenset(flags)

    @property
    def flags(self) -> frozenset[str]:
        return self._flags

    @flags.setter
    def flags(self, flags: frozenset[str]) -> None:
        self._flags = flags
        self.ignore_case = "i" in flags

    @property
    def any_character(self) -> CodePointSet:
        """Any character but a line feed, with the flag ``s`` any."""
        return ANY_CODE_POINT if "s" in self.flags else ~code_points("\n")

    def concatenation(self) -> Expression:
        parts: list[Expression] = []
        while True:
            self.skip_space()
            if self.at_end or self.text[self.position] in "|)":
                break
            part = self.term()
            if part is not _NO_PART:
                parts.append(part)
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def term(self) -> Expression:
        """Read one part with its quantifiers."""
        spend()
        start = self.position
        part = self.atom()
        marks = 0
        while True:
            self.skip_space()
            here = self.position
            bounds = self.quantifier()
            if bounds is None:
                break
            if part is _NO_PART or isinstance(part, Start | End):
                self.invalid("a quantifier with nothing to repeat", here)
            marks += 1
            if marks > LIMITS.repetition_marks:
                self.unsupported(f"more than {LIMITS.repetition_marks} quantifiers in a row", here)
            part = Repeat(part, *bounds, position=start)
        if isinstance(part, Start):
            before = self.text[:start]
            if self.depth or "m" in self.flags or re.sub(r"\(\?[a-z]+\)", "", before):
                self.unsupported("an assertion", start, _NO_LOOK)
            return _NO_PART
        if isinstance(part, End):
            if self.depth or "m" in self.flags or not self.at_end:
                self.unsupported("an assertion", start, _NO_LOOK)
            return _NO_PART
        return part

    def lazy(self, start: int) -> None:
        self.unsupported(
            "a lazy quantifier", start, "The rule option [lazy] makes a whole terminal lazy"
        )

    def bounds_of(self, braces: re.Match[str]) -> tuple[int, int | None]:
        for digits in (braces[1], braces[3] or ""):
            if len(digits) > 9 or int(digits or 0) > LIMITS.repetition_count:
                self.unsupported(
                    f"a count of more than {LIMITS.repetition_count:,}", braces.start()
                )
        min_count = int(braces[1])
        max_count = int(braces[3]) if braces[3] else min_count if braces[2] is None else None
        if max_count is not None and max_count < min_count:
            self.invalid("the bounds of a quantifier are out of order", braces.start())
        return min_count, max_count

    def skip_space(self) -> None:
        if "x" in self.flags:
            found = _SPACE.match(self.text, self.position)
            if found is not None:
                self.position = found.end()

    # Groups

    def group(self, start: int) -> Expression:
        for mark in ("?=", "?!", "?<=", "?<!"):
            if self.peek(mark):
                name = "look-behind" if "<" in mark else "look-ahead"
                self.unsupported(f"a {name}", start, _NO_LOOK)
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
                return _NO_PART
        outer, self.flags = self.flags, flags
        with self.nested(start):
            body = self.alternation()
            if not self.take(")"):
                self.invalid("missing )", start)
        self.flags = outer
        return body

    def changed_flags(self, found: re.Match[str], start: int) -> frozenset[str]:
        on, off = set(found[1]), set(found[2] or "")
        unknown = (on | off) - set("imsux")
        if unknown or "u" in off:
            self.unsupported(
                f"the flag {min(unknown) if unknown else '-u'}", start, "Flags are i, m, s, u and x"
            )
        return frozenset((self.flags | on) - off)

    # Escapes

    def escape(self, start: int) -> Expression:
        letter = self.text[self.position]
        if letter in "Az":
            self.position += 1
            return Start() if letter == "A" else End()
        if letter in "bB<>":
            self.unsupported("a word boundary", start, _NO_LOOK)
        if letter in "123456789k":
            self.unsupported("a back-reference", start, "Repeat the text as a rule of its own")
        members = self.class_escape(start)
        if members is not None:
            return Characters(members)
        return self.single(self.character_escape(start))

    def class_escape(self, start: int) -> CodePointSet | None:
        letter = self.text[self.position]
        if letter in "dDwWsS":
            self.position += 1
            members = self.folded(perl_class(letter.lower()))
            return members if letter.islower() else ~members
        if letter not in "pP":
            return None
        self.position += 1
        members = self.folded(self.unicode_property(start))
        return members if letter == "p" else ~members

    def unicode_property(self, start: int) -> CodePointSet:
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
        if members is None:
            self.invalid(f"there is no property {self.text[start : self.position]}", start)
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
            negated = self.take("^")
            result = self.class_operand(start, is_first=True)
            while not self.take("]"):
                operator = self.text[self.position : self.position + 2]
                self.position += 2
                operand = self.class_operand(start, is_first=False)
                match operator:
                    case "&&":
                        result = result & operand
                    case "--":
                        result = result & ~operand
                    case "~~":
                        result = (result | operand) & ~(result & operand)
        return ~result if negated else result

    def class_operand(self, start: int, *, is_first: bool) -> CodePointSet:
        """Read members up to a set operator or the closing bracket."""
        found: list[tuple[int, int]] = []
        count = 0
        while is_first and self.take("-"):
            found.append((ord("-"), ord("-")))
            count += 1
        while True:
            self.skip_space()
            if self.at_end:
                self.invalid("missing ]", start)
            if self.text.startswith(_SET_OPERATORS, self.position):
                break
            if self.peek("]") and (count or not is_first):
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
        self.skip_space()
        if not isinstance(first, int):
            return first.ranges
        is_range = self.peek("-") and not self.text.startswith(("-]", "--"), self.position)
        if not is_range:
            return ((first, first),)
        self.position += 1
        self.skip_space()
        if self.at_end:
            self.invalid("missing ]", start)
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
            named = _ASCII_CLASS.match(self.text, start)
            if named is None:
                return self.character_class(start)
            members = ascii_class(named[2])
            if members is None:
                self.invalid(f"there is no class [:{named[2]}:]", start)
            self.position = named.end()
            return ~members if named[1] else members
        return self.class_character(character, start)
