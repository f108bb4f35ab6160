r"""Anchors of response templates: the texts and patterns that open and close a field.

A parser searches for a pattern, and a model writes a text that the pattern matches. An anchor
therefore has *words*: the pattern ``<think>\n?`` has the words ``<think>`` and ``<think>`` with a
line feed. It *requires* a text that all words contain, here ``<think>``: a part of an answer
without this text cannot be taken for the anchor.

Patterns are those of :mod:`re` that are valid in ECMA-262, too. Look-around, ``^`` and ``\b``
depend on text around the anchor and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from state_machines.errors import CompositionError, ProxyError
from state_machines.regex.parser import parse
from state_machines.syntax_tree import (
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

_ASSERTIONS: Mapping[type[Expression], str] = {
    LookAhead: "a look-ahead",
    LookBehind: "a look-behind",
    Start: "^",
    WordBoundary: r"\b",
}
_MAX_WORDS = 16
_GAP = "\0"
"""Stands for characters that differ between words."""

_END_OF_TEXT = re.compile(r"(?<!\\)((?:\\\\)*)\\[Zz]")
_PLAIN = "ABCxyz019_"
_PUNCTUATION = ".:/-@$+"

Atom: TypeAlias = tuple[str, bool]
"""A text, and whether all words have it."""


def refuse(what: str, where: str, hint: str = "") -> CompositionError:
    """Return the error of a member of a template that cannot be compiled."""
    return CompositionError(what, part=f"response_template.{where}", hint=hint)


@dataclass(frozen=True)
class Anchor:
    """A pattern or a list of alternative texts; each alternative opens or closes a field.

    Attributes:
        pattern: The pattern.
        where: Where the template has it, such as ``fields.content.close``.
    """

    pattern: str
    where: str

    @classmethod
    def of(cls, owner: Mapping[str, Any], key: str, where: str) -> Anchor | None:
        """Return the anchor under ``key`` or ``key_pattern``; ``None`` if there is none.

        Raises:
            CompositionError: The pattern cannot be inverted.
        """
        where = f"{where}.{key}"
        if key in owner:
            listed = [owner[key]] if isinstance(owner[key], str) else owner[key]
            if not isinstance(listed, list) or not all(isinstance(e, str) and e for e in listed):
                raise refuse("should be a text or a list of texts", where)
            texts = sorted(listed, key=len, reverse=True)
            return cls("|".join(map(re.escape, texts)), where)
        pattern = owner.get(f"{key}_pattern")
        if pattern is None:
            return None
        anchor = cls.of_pattern(pattern, f"{where}_pattern")
        if key == "open" and any(isinstance(node, End) for node in _nodes(anchor._tree)):
            raise refuse("the end of the text cannot open a field", anchor.where)
        return anchor

    @classmethod
    def of_pattern(cls, pattern: Any, where: str) -> Anchor:
        """Return the anchor of a pattern; as for :meth:`of`."""
        if not isinstance(pattern, str):
            raise refuse("should be a pattern", where)
        anchor = cls(_END_OF_TEXT.sub(r"\1$", pattern), where)
        try:
            nodes = list(_nodes(anchor._tree))
            re.compile(anchor.pattern)
        except (ProxyError, re.error) as error:
            what = getattr(error, "what", str(error))
            raise refuse(f"the pattern {pattern!r} cannot be inverted: {what}", where) from error
        for node in nodes:
            if (name := _ASSERTIONS.get(type(node))) is not None:
                raise refuse(f"{name} in the pattern {pattern!r} cannot be inverted", where)
        return anchor

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern, re.DOTALL)

    @cached_property
    def _tree(self) -> Expression:
        return parse(self.pattern, "")

    def word(self, groups: Mapping[str, str], ends: Collection[str] = ()) -> str:
        """Return a short word, empty only if nothing but the end of the text matches.

        Args:
            groups: The texts of named groups.
            ends: Texts that end every output; a word without them is preferred.
        """
        if groups:
            return "".join(
                groups.get(name or "") or _word(parse(text, "")) for text, name in self.pieces()
            )
        words = [
            text for skeleton in self._skeletons() if (text := "".join(t for t, _ in skeleton))
        ]
        plain = [text for text in words if not any(end in text for end in ends)]
        return next(iter([*plain, *words]), "")

    def requires(self, text: str, ends: Collection[str] = ()) -> bool:
        """Whether each word contains a text, other than the words that end every output."""
        for atoms in self._skeletons():
            skeleton = "".join(part if is_fixed else _GAP for part, is_fixed in atoms)
            if skeleton and text not in skeleton and not any(end in skeleton for end in ends):
                return False
        return True

    @property
    def begins_fixed(self) -> bool:
        """Whether the first character of each word is the same for its alternative."""
        return all(atoms and atoms[0][1] for atoms in self._skeletons())

    def runs(self) -> list[str]:
        """Return the texts between the variable characters of the first word."""
        skeleton = "".join(text if is_fixed else _GAP for text, is_fixed in self._skeletons()[0])
        return list(filter(None, skeleton.split(_GAP)))

    def pieces(self) -> list[tuple[str, str | None]]:
        """Return the named groups with their names, and the texts between them, in order.

        Raises:
            CompositionError: A named group is inside another group or an alternative.
        """
        found: list[tuple[str, str | None]] = []
        start, depth, opened = 0, 0, None
        is_named = "(?P<" in self.pattern
        for token in _TOKENS.finditer(self.pattern):
            text, name = token[0], token["name"]
            if text == "|" and not depth and is_named:
                raise refuse("alternatives around a named group have one reading", self.where)
            if name and depth:
                raise refuse(f"the group {name!r} is inside another one", self.where)
            if name:
                found.append((self.pattern[start : token.start()], None))
                start, opened = token.end(), name
            depth += text.startswith("(") - (text == ")")
            if text == ")" and not depth and opened is not None:
                found.append((self.pattern[start : token.start()], opened))
                start, opened = token.end(), None
        found.append((self.pattern[start:], None))
        return [(text, name) for text, name in found if text or name]

    def group(self, name: str) -> str | None:
        """Return the pattern of a named group; ``None`` if there is none."""
        return next((text for text, found in self.pieces() if found == name), None)

    def around(self, name: str) -> tuple[str, str]:
        """Return the patterns before and after a named group."""
        pieces = self.pieces()
        index = next(index for index, (_, found) in enumerate(pieces) if found == name)
        texts = [text for text, _ in pieces]
        return "".join(texts[:index]), "".join(texts[index + 1 :])

    def _skeletons(self) -> list[list[Atom]]:
        found = list(islice(_expanded(self._tree), _MAX_WORDS + 1))
        if len(found) > _MAX_WORDS:
            raise refuse(f"more than {_MAX_WORDS} alternatives", self.where)
        return found


_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?P<(?P<name>\w+)>)?|[)|]", re.DOTALL)


def _nodes(tree: Expression) -> Iterator[Expression]:
    yield tree
    for child in tree.children:
        yield from _nodes(child)


def _expanded(tree: Expression) -> Iterator[list[Atom]]:
    """Yield a word for each combination of alternatives, as atoms."""
    match tree:
        case Characters():
            yield [(_letter(tree), len(tree.members) == 1)]
        case Choice():
            for branch in tree.branches:
                yield from _expanded(branch)
        case Repeat() if tree.min_count:
            for atoms in _expanded(tree.body):
                gap = [] if tree.min_count == tree.max_count else [("", False)]
                yield [*gap, *atoms * tree.min_count, *gap]
        case Repeat():
            yield [("", False)]
        case Series() if tree.parts:
            for first in _expanded(tree.parts[0]):
                for rest in _expanded(Series(tree.parts[1:])):
                    yield [*first, *rest]
        case _:
            yield []


def _letter(tree: Characters) -> str:
    letters = (letter for letter in _PLAIN if ord(letter) in tree.members)
    return next(letters, "") or chr(next(iter(tree.members)))


def _word(tree: Expression) -> str:
    return "".join(text for text, _ in next(_expanded(tree), []))


def restricted_names(group: str, following: str, where: str) -> str:
    """Return a pattern of names that a group matches, up to the text that follows it.

    Args:
        group: The pattern of the group.
        following: The text after a name, whose first character no name contains.
        where: Where the template has the group.

    Raises:
        CompositionError: The group matches no letters.
    """
    pattern = re.compile(group, re.DOTALL)
    if not pattern.fullmatch("get") or not pattern.fullmatch("a"):
        raise refuse(f"the group {group!r} matches no names", where)
    letters = ["A-Za-z"]
    letters += ["0-9"] if pattern.fullmatch("a9") and pattern.fullmatch("9a") else []
    for mark in f"_{_PUNCTUATION}":
        texts = (f"a{mark}", f"{mark}a", f"a{mark}{mark}a")
        if mark != following[:1] and all(map(pattern.fullmatch, texts)):
            letters.append(re.escape(mark))
    return f"[{''.join(letters)}]+"
