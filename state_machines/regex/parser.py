r"""From the text of a pattern to its tree.

The syntax is that of ECMA-262 with the ``u`` flag, which JSON Schema recommends for ``pattern``.
Where real schemas are looser than that and the meaning is beyond doubt, the parser is as lenient
as Annex B: a needless escape of anything but an ASCII letter or digit stands for the character
(``\-``, ``\_``, ``\@``); so do ``]``, ``}`` and a ``{`` that opens no quantifier; ``-`` beside a
class (``[\w-.]``) is itself. ``(?P<name>…)`` is a named group, ``(?i)`` at the start and
``(?i:…)`` ignore case.

Not read: ``\A``, ``\Z``, ``\z`` and other escaped letters that ECMA-262 gives no meaning, atomic
groups, possessive quantifiers, comments, conditionals; these raise
:class:`~state_machines.errors.InvalidPatternError` or, where the construct has a meaning that is
not built, :class:`~state_machines.errors.UnsupportedPatternError`.

A lone surrogate (``\ud83d``) stands for no text at all: it is a class without members.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.errors import InvalidPatternError
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.limits import LIMITS
from state_machines.regex.characters import CharacterReader
from state_machines.regex.syntax import (
    Alternatives,
    Characters,
    End,
    Expression,
    LookAhead,
    LookBehind,
    Repeat,
    Series,
    Start,
    WordBoundary,
)
from state_machines.regex.unicode_classes import LINE_TERMINATOR, WORD

__all__ = ["parse"]

_QUANTIFIER = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_SYMBOLIC_QUANTIFIERS: dict[str, tuple[int, int | None]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}


def parse(pattern: str) -> Expression:
    """Return the tree of a pattern.

    Raises :class:`~state_machines.errors.InvalidPatternError` and
    :class:`~state_machines.errors.UnsupportedPatternError`.
    """
    return _Parser(pattern).parse()


class _Parser(CharacterReader):
    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.depth = 0
        self.names: set[str] = set()
        """Names of groups that can match together with the next one."""

    # Grammar rules: each reads at ``position`` and leaves it behind what it read

    def parse(self) -> Expression:
        if self.take("(?i)"):
            self.ignore_case = True
        tree = self.alternation()
        if not self.at_end:
            self.invalid("unmatched )")
        return tree

    def alternation(self) -> Expression:
        branches: list[Expression] = []
        before = self.names
        found: set[str] = set()
        while not branches or self.take("|"):
            spend(len(before) // 16)
            self.names = set(before)
            branches.append(self.concatenation())
            found |= self.names
        self.names = found
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def concatenation(self) -> Expression:
        parts: list[Expression] = []
        while not self.at_end and self.pattern[self.position] not in "|)":
            _append(parts, self.term())
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def term(self) -> Expression:
        spend()
        start = self.position
        atom = self.atom()
        bounds = self.quantifier()
        if bounds is None:
            return atom
        bare = self.pattern[start] != "(" or self.pattern.startswith("(?<", start)
        if bare and isinstance(atom, Start | End | WordBoundary | LookBehind):
            self.invalid("a quantifier behind an anchor", start)
        least, most = bounds
        if most is not None and most < least:
            self.invalid("the bounds of a quantifier are out of order", start)
        here = self.position
        if self.quantifier() is not None:
            self.invalid("a quantifier behind a quantifier", here)
        return Repeat(atom, least, most, position=start)

    def quantifier(self) -> tuple[int, int | None] | None:
        if self.at_end:
            return None
        bounds = _SYMBOLIC_QUANTIFIERS.get(self.pattern[self.position])
        if bounds is not None:
            self.position += 1
        else:
            match = _QUANTIFIER.match(self.pattern, self.position)
            if match is None:
                return None
            self.position = match.end()
            bounds = self._counted(match)
        self.take("?")  # lazy or greedy is a matter of captures, not of the language
        return bounds

    def _counted(self, match: re.Match[str]) -> tuple[int, int | None]:
        if len(match[0]) > 22:
            self.unsupported("a quantifier with a bound of more than 18 digits", match.start())
        least = int(match[1])
        if match[2] is None:
            return least, least
        return least, int(match[3]) if match[3] else None

    def atom(self) -> Expression:
        start = self.position
        character = self.next_character()
        if character == "(":
            return self.group(start)
        if character == "[":
            return Characters(self.character_class(start), start)
        if character == "\\":
            return self.escape(start)
        if character == ".":
            return Characters(~LINE_TERMINATOR, start)
        if character == "^":
            return Start(start)
        if character == "$":
            return End(start)
        if character in "*+?":
            self.invalid("a quantifier with nothing to repeat", start)
        if character == "{":
            if _QUANTIFIER.match(self.pattern, start):
                self.invalid("a quantifier with nothing to repeat", start)
            if re.compile(r"\{,[0-9]+\}").match(self.pattern, start):
                self.invalid("a quantifier without a lower bound", start, "Write {0,n}")
        return self.single(ord(character), start)

    def single(self, code_point: int, start: int) -> Expression:
        return Characters(self.folded(code_points(code_point)), start)

    # Groups

    def group(self, start: int) -> Expression:
        if self.depth >= LIMITS.nested_groups:
            self.unsupported(f"more than {LIMITS.nested_groups} groups inside each other", start)
        self.depth += 1
        ignore_case = self.ignore_case
        wrap = self.group_kind(start)
        body = self.alternation()
        if not self.take(")"):
            self.invalid("missing )", start)
        self.depth -= 1
        self.ignore_case = ignore_case
        if wrap == "?=" or wrap == "?!":
            return LookAhead(start, body, negated=wrap == "?!")
        if wrap == "?<=" or wrap == "?<!":
            return self.look_behind(start, body, negated=wrap == "?<!")
        return body

    def group_kind(self, start: int) -> str:
        """Read what follows ``(``; return the mark of an assertion or ``""``."""
        for mark in ("?=", "?!", "?<=", "?<!"):
            if self.take(mark):
                return mark
        if self.take("?:") or not self.peek("?"):
            return ""
        if self.take("?i:"):
            self.ignore_case = True
        elif self.take("?-i:"):
            self.ignore_case = False
        elif self.take("?<") or self.take("?P<"):
            self.new_group_name()
        elif self.peek("?P="):
            self.unsupported("a back-reference", start)
        elif self.peek("?>"):
            self.unsupported("an atomic group", start)
        elif re.compile(r"\?[a-zA-Z]*(-[a-zA-Z]+)?[:)]").match(self.pattern, self.position):
            self.unsupported("an inline flag", start, "(?i) at the start and (?i:…) are read")
        else:
            self.invalid("an unknown kind of group", start)
        return ""

    def new_group_name(self) -> None:
        """Read the name of a group, which no other has that can match beside it (ES2025)."""
        start = self.position
        name = self.group_name()
        if name in self.names:
            self.invalid(f"a second group of the name {name!r}", start)
        self.names.add(name)

    def look_behind(self, start: int, body: Expression, *, negated: bool) -> Expression:
        branches = body.branches if isinstance(body, Alternatives) else (body,)
        members = CodePointSet(())
        for branch in branches:
            if not isinstance(branch, Characters):
                self.unsupported("a look-behind at anything but one character", start)
            members = members | branch.members
        return LookBehind(start, members, negated)

    # Escapes

    def escape(self, start: int) -> Expression:
        if self.at_end:
            self.invalid("a backslash with nothing behind it", start)
        character = self.pattern[self.position]
        if character in "bB":
            self.position += 1
            return WordBoundary(start, character == "B", self.folded(WORD))
        if character in "123456789":
            self.back_reference(start)
        if character == "k":
            self.named_reference(start)
        members = self.class_escape(start)
        if members is not None:
            return Characters(members, start)
        return self.single(self.character_escape(start), start)

    def back_reference(self, start: int) -> NoReturn:
        match = re.compile(r"[0-9]+").match(self.pattern, self.position)
        assert match is not None
        if len(match[0]) < 9 and int(match[0]) <= len(_opened_groups(self.pattern)):
            self.unsupported("a back-reference", start)
        self.invalid(f"a reference to group {match[0]}, which is not there", start)

    def named_reference(self, start: int) -> NoReturn:
        self.position += 1
        if not self.take("<") or self.group_name() not in _group_names(self.pattern):
            self.invalid("a reference to a named group that is not there", start)
        self.unsupported("a back-reference", start)


def _append(parts: list[Expression], part: Expression) -> None:
    """Append a part; what repeats the body of the last part adds to its count (``aa?a*``)."""
    if parts:
        (body, least, most), (other, more, top) = _counted(parts[-1]), _counted(part)
        if body == other and not body.left and body.reach <= 0:
            bound = None if most is None or top is None else most + top
            parts[-1] = Repeat(body, least + more, bound)
            return
    parts.append(part)


def _counted(part: Expression) -> tuple[Expression, int, int | None]:
    return (part.body, part.least, part.most) if isinstance(part, Repeat) else (part, 1, 1)


_GROUP_OR_SKIP = re.compile(
    r"\\.|\[(?:[^\]\\]|\\.)*(?:\]|$)|\((?!\?)|\(\?P?<(?![=!])([^>(]*)>", re.DOTALL
)


def _opened_groups(pattern: str) -> list[str | None]:
    """Return the capturing groups of a pattern, each as its name or ``None``, in order."""
    found = _GROUP_OR_SKIP.finditer(pattern)
    return [match[1] for match in found if match[0].startswith("(")]


def _group_names(pattern: str) -> set[str]:
    """Return the names of a pattern's groups, read to their end or as far as they are names."""
    names = set()
    for raw in _opened_groups(pattern):
        if raw is not None:
            with suppress(InvalidPatternError):
                names.add(CharacterReader(f"{raw}>").group_name())
    return names
