r"""Parse a regular expression into its syntax tree.

The syntax is that of ECMA-262 with the ``u`` flag, which JSON Schema recommends for ``pattern``.
Real schemas are looser than that. Where the meaning is beyond doubt, the parser is as lenient as
Annex B:

* A needless escape of anything but an ASCII letter or digit stands for the character (``\-``,
  ``\_``, ``\@``).
* ``}`` and a ``{`` that opens no quantifier stand for themselves, as does ``-`` beside a class
  (``[\w-.]``).
* ``(?P<name>…)`` is a named group; ``(?i)`` at the start and ``(?i:…)`` ignore case.

A ``]`` that closes no class raises :class:`~state_machines.errors.InvalidPatternError`: the flag
``u`` forbids it, and it mostly shows that the pattern is of another dialect (``[^]]``,
``[[:alpha:]]``). So do escaped letters without a meaning in ECMA-262 (``\A``, ``\Z``, ``\z``),
possessive quantifiers, comments and conditionals. Constructs that have a meaning but are not
implemented, such as back-references and atomic groups, raise
:class:`~state_machines.errors.UnsupportedPatternError`.

A lone surrogate (``\ud83d``) is a class without members, since no text contains one.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from state_machines.budgets import spend
from state_machines.errors import InvalidPatternError
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.limits import LIMITS
from state_machines.regex.characters import CharacterReader
from state_machines.regex.unicode_classes import LINE_TERMINATOR, WORD
from state_machines.syntax_tree import (
    REPETITION_MARKS,
    Characters,
    Choice,
    End,
    Expression,
    LookAhead,
    LookBehind,
    Repeat,
    Series,
    Start,
    WordBoundary,
)

NO_PART = Series(())
"""A part without effect, such as a flag."""

_SYNTAX_CHARACTERS = frozenset(r"([\.^$]*+?{")
"""Characters that begin more than themselves."""

_SHOWN = 60
"""Characters beside a lone bracket that are searched for signs of another dialect."""

_EMPTY_CLASS = re.compile(r"\[\^?\][^\[\]]*$")
_POSIX_CLASS = re.compile(r"\[\[:\^?[a-z]+:\]")
_SET_OPERATOR = re.compile(r"\[[^\]]*(?:&&|--|~~|\[)[^\]]*\][^\[]*$")


def parse(pattern: str, flags: str = "") -> Expression:
    """Return the syntax tree of a pattern; ``flags`` may contain ``i`` and ``u``.

    Raises :class:`~state_machines.errors.InvalidPatternError` and
    :class:`~state_machines.errors.UnsupportedPatternError`.
    """
    return _RegexParser(pattern, flags).parse()


class PatternReader(CharacterReader):
    """The part of the parsers that all syntaxes share.

    Each method reads one production of the syntax at ``position`` and moves past it.
    """

    braces = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
    """A quantifier in braces: its lower bound, the comma and its upper bound."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.depth = 0

    @property
    @abstractmethod
    def any_character(self) -> CodePointSet:
        """The characters that ``.`` matches."""

    @abstractmethod
    def term(self) -> Expression:
        """Read one part with its quantifiers; :data:`NO_PART` for a part without effect."""

    @abstractmethod
    def group(self, start: int) -> Expression:
        """Read a group after ``(``."""

    @abstractmethod
    def escape(self, start: int) -> Expression:
        """Read what follows a backslash."""

    def skip_ignored(self) -> None:
        """Move past white space and comments where they have no meaning."""

    def anchor(self, mark: str) -> Expression:
        """Return the assertion of ``^`` or ``$``."""
        return Start() if mark == "^" else End()

    def closing_bracket(self, position: int) -> Expression:
        """Return what ``]`` stands for where it closes no class."""
        return self.single(ord("]"))

    def lazy(self, start: int) -> None:
        """Judge a quantifier with ``?`` behind it. Its language is that of a greedy one."""

    def append(self, parts: list[Expression], part: Expression) -> None:
        """Append a part of a sequence."""
        _append(parts, part)

    def parse(self) -> Expression:
        tree = self.alternation()
        if not self.at_end:
            self.invalid("unmatched )")
        return tree

    def alternation(self) -> Expression:
        branches = [self.concatenation()]
        while self.take("|"):
            branches.append(self.concatenation())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def concatenation(self) -> Expression:
        """Read the parts up to ``|``, ``)`` or the end."""
        parts: list[Expression] = []
        text, end = self.text, len(self.text)
        while True:
            self.skip_ignored()
            if self.position >= end or text[self.position] in "|)":
                return parts[0] if len(parts) == 1 else Series(tuple(parts))
            part = self.term()
            if part is not NO_PART:
                self.append(parts, part)

    def quantifier(self) -> tuple[int, int | None] | None:
        start = self.position
        if self.at_end:
            return None
        mark = self.text[start]
        bounds = REPETITION_MARKS.get(mark)
        if bounds is not None:
            self.position += 1
        else:
            braces = self.braces.match(self.text, start) if mark == "{" else None
            if braces is None:
                return None
            self.position = braces.end()
            bounds = self.bounds_of(braces)
        if self.take("?"):
            self.lazy(start)
        return bounds

    def bounds_of(self, braces: re.Match[str]) -> tuple[int, int | None]:
        """Return the bounds of a quantifier in braces."""
        if len(braces[0]) > 22:
            self.unsupported("a quantifier with a bound of more than 18 digits", braces.start())
        min_count = int(braces[1] or 0)
        if braces[2] is None:
            return min_count, min_count
        return min_count, int(braces[3]) if braces[3] else None

    def atom(self) -> Expression:
        start = self.position
        character = self.next_character()
        if character not in _SYNTAX_CHARACTERS:
            return self.single(ord(character))
        match character:
            case "(":
                return self.group(start)
            case "[":
                return Characters(self.agreed(self.character_class(start)))
            case "\\":
                if self.at_end:
                    self.invalid("nothing follows a backslash", start)
                return self.escape(start)
            case ".":
                return Characters(self.any_character)
            case "^" | "$":
                return self.anchor(character)
            case "]":
                return self.closing_bracket(start)
            case "*" | "+" | "?":
                self.invalid("a quantifier with nothing to repeat", start)
            case "{":
                if self.braces.match(self.text, start):
                    self.invalid("a quantifier with nothing to repeat", start)
                if re.compile(r"\{,[0-9]+\}").match(self.text, start):
                    self.invalid("a quantifier without a lower bound", start, "Write {0,n}")
        return self.single(ord(character))

    def single(self, code_point: int) -> Expression:
        members = code_points(code_point)
        return Characters(self.agreed(self.folded(members)) if self.ignore_case else members)

    @contextmanager
    def nested(self, start: int) -> Iterator[None]:
        """Count a nested group or class."""
        if self.depth >= LIMITS.nested_groups:
            self.unsupported(f"more than {LIMITS.nested_groups} groups inside each other", start)
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def denied(self, *, negated: bool) -> Iterator[None]:
        """Read the body of a look-around; a negated one denies its matches."""
        outer = self.is_denied
        self.is_denied = outer != negated
        yield
        self.is_denied = outer

    def look_behind(self, start: int, body: Expression, *, negated: bool) -> Expression:
        """Return the look-behind at a body; refuse it unless the body is one character."""
        branches = body.branches if isinstance(body, Choice) else (body,)
        members = CodePointSet(())
        for branch in branches:
            if not isinstance(branch, Characters):
                self.unsupported("a look-behind at anything but one character", start)
            members = members | branch.members
        return LookBehind(members, negated)


class _RegexParser(PatternReader):
    any_character = ~LINE_TERMINATOR

    def __init__(self, pattern: str, flags: str) -> None:
        super().__init__(pattern)
        self.ignore_case = "i" in flags
        self.names: set[str] = set()
        """Names of groups that can match together with the next group."""

    def parse(self) -> Expression:
        if self.take("(?i)"):
            self.ignore_case = True
        return super().parse()

    def closing_bracket(self, position: int) -> NoReturn:
        """Refuse a ``]`` that closes no class; say so if another dialect can have it there."""
        first = max(0, position - _SHOWN)
        before, around = self.text[first:position], self.text[first : position + _SHOWN]
        hint = "Write \\] for the character"
        if _EMPTY_CLASS.search(before):
            hint += r"; ECMA-262 reads [] and [^] as whole classes, and [\]…] is the class with ]"
        elif _POSIX_CLASS.search(around):
            hint += r"; ECMA-262 has no [:alpha:], but \p{Alphabetic}, or a-zA-Z in a class"
        elif _SET_OPERATOR.search(before):
            hint += "; ECMA-262 has no classes inside classes and no && or -- with the flag u"
        self.invalid("a ] that closes no class", position, hint)

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
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def term(self) -> Expression:
        spend()
        start = self.position
        atom = self.atom()
        bounds = self.quantifier()
        if bounds is None:
            return atom
        bare = self.text[start] != "(" or self.text.startswith("(?<", start)
        if bare and isinstance(atom, Start | End | WordBoundary | LookBehind):
            self.invalid("a quantifier after an anchor", start)
        min_count, max_count = bounds
        if max_count is not None and max_count < min_count:
            self.invalid("the bounds of a quantifier are out of order", start)
        here = self.position
        if self.quantifier() is not None:
            self.invalid("a quantifier after a quantifier", here)
        return Repeat(atom, min_count, max_count, position=start)

    # Groups

    def group(self, start: int) -> Expression:
        ignore_case = self.ignore_case
        with self.nested(start):
            wrap = self.group_kind(start)
            with self.denied(negated=wrap in ("?!", "?<!")):
                body = self.alternation()
            if not self.take(")"):
                self.invalid("missing )", start)
        self.ignore_case = ignore_case
        if wrap == "?=" or wrap == "?!":
            return LookAhead(body, negated=wrap == "?!")
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
        elif re.compile(r"\?[a-zA-Z]*(-[a-zA-Z]+)?[:)]").match(self.text, self.position):
            self.unsupported("an inline flag", start, "(?i) at the start and (?i:…) are read")
        else:
            self.invalid("an unknown kind of group", start)
        return ""

    def new_group_name(self) -> None:
        """Read the name of a group, unique among the groups that can match together (ES2025)."""
        start = self.position
        name = self.group_name()
        if name in self.names:
            self.invalid(f"a second group of the name {name!r}", start)
        self.names.add(name)

    # Escapes

    def escape(self, start: int) -> Expression:
        character = self.text[self.position]
        if character in "bB":
            self.position += 1
            word = self.folded(WORD)
            return WordBoundary(word, ~word, negated=character == "B")
        if character in "123456789":
            self.back_reference(start)
        if character == "k":
            self.named_reference(start)
        members = self.class_escape(start)
        if members is not None:
            return Characters(self.agreed(members))
        return self.single(self.character_escape(start))

    def back_reference(self, start: int) -> NoReturn:
        match = re.compile(r"[0-9]+").match(self.text, self.position)
        assert match is not None
        if len(match[0]) < 9 and int(match[0]) <= len(_opened_groups(self.text)):
            self.unsupported("a back-reference", start)
        self.invalid(f"a reference to group {match[0]}, which is not there", start)

    def named_reference(self, start: int) -> NoReturn:
        self.position += 1
        if not self.take("<") or self.group_name() not in _group_names(self.text):
            self.invalid("a reference to a named group that is not there", start)
        self.unsupported("a back-reference", start)


def _append(parts: list[Expression], part: Expression) -> None:
    """Append a part; join repetitions of one body into one count (``aa?a*``)."""
    if parts:
        previous, current = _as_repeat(parts[-1]), _as_repeat(part)
        body = current.body
        if body == previous.body and not body.looks_left and body.reach <= 0:
            max_count = None
            if previous.max_count is not None and current.max_count is not None:
                max_count = previous.max_count + current.max_count
            parts[-1] = Repeat(body, previous.min_count + current.min_count, max_count)
            return
    parts.append(part)


def _as_repeat(part: Expression) -> Repeat:
    return part if isinstance(part, Repeat) else Repeat(part, 1, 1)


_GROUP_OR_SKIP = re.compile(
    r"\\.|\[(?:[^\]\\]|\\.)*(?:\]|$)|\((?!\?)|\(\?P?<(?![=!])([^>(]*)>", re.DOTALL
)


def _opened_groups(pattern: str) -> list[str | None]:
    """Return the names of a pattern's capturing groups in order, ``None`` where there is none."""
    found = _GROUP_OR_SKIP.finditer(pattern)
    return [match[1] for match in found if match[0].startswith("(")]


def _group_names(pattern: str) -> set[str]:
    """Return the names of a pattern's groups, without names that have a syntax error."""
    names = set()
    for raw in _opened_groups(pattern):
        if raw is not None:
            with suppress(InvalidPatternError):
                names.add(CharacterReader(f"{raw}>").group_name())
    return names
