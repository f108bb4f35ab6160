"""JSON texts as trees that keep the spelling of their scalars."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "JsonTree",
    "Members",
    "Path",
    "Scalar",
    "parse",
    "places",
    "replaced",
    "spelled",
    "string_value",
]

_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",:\[\]{}]+')
_SPACE = re.compile(r"[ \t\r\n]*")

Path: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number, or literal.

    Attributes:
        text: The spelling.
    """

    text: str

    @property
    def is_string(self) -> bool:
        """Whether it is a string."""
        return self.text.startswith('"')


@dataclass(frozen=True, slots=True)
class Members:
    """A list or an object.

    Attributes:
        is_object: Whether it is an object, whose names and values alternate in ``items``.
        items: The items.
    """

    is_object: bool
    items: tuple[JsonTree, ...]


JsonTree: TypeAlias = "Scalar | Members"


def parse(text: str) -> JsonTree:
    """Return the tree of a valid JSON text."""
    return _parse(text, _SPACE.match(text, 0).end())[0]  # type: ignore[union-attr]


def _parse(text: str, at: int) -> tuple[JsonTree, int]:
    if text[at] not in "[{":
        scalar = _SCALAR.match(text, at)
        assert scalar is not None, text
        return Scalar(scalar[0]), scalar.end()
    is_object = text[at] == "{"
    items: list[JsonTree] = []
    at += 1
    while True:
        while text[at] in " \t\r\n,:":
            at += 1
        if text[at] in "]}":
            return Members(is_object, tuple(items)), at + 1
        item, at = _parse(text, at)
        items.append(item)


def spelled(tree: JsonTree) -> str:
    """Return the text of a tree, with the white space of ``json.dumps``."""
    if isinstance(tree, Scalar):
        return tree.text
    items = [spelled(item) for item in tree.items]
    if not tree.is_object:
        return f"[{', '.join(items)}]"
    members = zip(items[::2], items[1::2], strict=True)
    return f"{{{', '.join(f'{name}: {value}' for name, value in members)}}}"


def places(tree: JsonTree, path: Path = ()) -> Iterator[tuple[Path, JsonTree, bool]]:
    """Yield each part of a tree with its path, and whether it is the name of a member."""
    yield path, tree, False
    if isinstance(tree, Members):
        for number, item in enumerate(tree.items):
            if tree.is_object and number % 2 == 0:
                yield (*path, number), item, True
            else:
                yield from places(item, (*path, number))


def replaced(tree: JsonTree, path: Path, part: JsonTree) -> JsonTree:
    """Return a tree with another part at a path."""
    if not path:
        return part
    assert isinstance(tree, Members)
    items = list(tree.items)
    items[path[0]] = replaced(items[path[0]], path[1:], part)
    return Members(tree.is_object, tuple(items))


def string_value(scalar: Scalar) -> str:
    """Return the value of a string."""
    value: str = json.loads(scalar.text)
    return value
