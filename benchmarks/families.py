"""Families of schemas for which one number says how large they are, with a text for each.

A family isolates one dimension: everything that is not said to grow stays as it is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["FAMILIES", "MIXED", "Family", "Member", "Piece"]


@dataclass(frozen=True)
class Piece:
    """A part of a text, some times over."""

    text: str
    times: int = 1


@dataclass(frozen=True)
class Member:
    """A schema of a family and a valid text. Each piece is tokenised separately."""

    schema: Any
    pieces: list[Piece]


@dataclass(frozen=True)
class Family:
    """Schemas by size; ``grows`` names the dimension."""

    name: str
    grows: str
    sizes: list[int]
    member: Callable[[int], Member]


def _powers(first: int, last: int) -> list[int]:
    """Sizes from ``first`` to ``last``, each twice the one before."""
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


def _written(schema: Any, instance: Any) -> Member:
    return Member(schema, [Piece(json.dumps(instance, ensure_ascii=False))])


def _words(count: int, seed: int = 0) -> list[str]:
    """Different words, the same ones first whatever the count."""
    chance = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(5, 14)))] = None
    return list(words)


def _closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


_LEAVES: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string", "maxLength": 40}, "some words"),
    ({"type": "integer", "minimum": 0}, 1234),
    ({"enum": ["red", "green", "blue"]}, "green"),
    ({"type": "array", "items": {"type": "number"}, "maxItems": 5}, [1.5, 2]),
]


def _tree(nodes: int) -> Member:
    """Nested objects of four properties with ``size`` schemas in total."""
    words = _words(nodes)
    used = 0

    def grown(budget: int) -> tuple[dict[str, Any], Any]:
        nonlocal used
        used += 1
        if budget < 5:
            return _LEAVES[used % len(_LEAVES)]
        properties, instance = {}, {}
        for _ in range(4):
            name = words[used - 1]
            properties[name], instance[name] = grown((budget - 1) // 4)
        return _closed(properties), instance

    return _written(*grown(nodes))


def _string_limit(limit: int) -> Member:
    text = "the quick brown fox jumps over the lazy dog, and so on. " * 20
    return _written({"type": "string", "maxLength": limit}, text[: min(limit, 1000)])


def _string_filled(limit: int) -> Member:
    """As long as the limit allows: the last masks have to count."""
    sentence = "all work and no play makes Jack a dull boy. "[: min(limit, 44)]
    times, rest = divmod(limit, len(sentence))
    pieces = [Piece('"'), Piece(sentence, times), Piece(sentence[:rest] + '"')]
    return Member({"type": "string", "minLength": limit, "maxLength": limit}, pieces)


def _pattern_limit(limit: int) -> Member:
    schema = {"type": "string", "pattern": f"^([a-z]+ ){{1,{limit}}}[A-Z]$"}
    return _written(schema, "some words here " * min(limit // 3, 30) + "word X")


def _depth(levels: int) -> Member:
    schema: Any = {"type": "string"}
    instance: Any = "deep"
    for _ in range(levels):
        schema = _closed({"inner": schema, "number": {"type": "integer"}})
        instance = {"inner": instance, "number": 12}
    return _written(schema, instance)


def _text_depth(levels: int) -> Member:
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["label", "children"],
                "additionalProperties": False,
            }
        },
    }
    instance: Any = {"label": "leaf", "children": []}
    for _ in range(levels - 1):
        instance = {"label": "branch", "children": [instance]}
    return _written(schema, instance)


def _members(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    properties, instance = {}, {}
    for position, word in enumerate(_words(count)):
        properties[word], instance[word] = _LEAVES[position % len(_LEAVES)]
    return properties, instance


def _properties_closed(count: int) -> Member:
    """All are required."""
    properties, instance = _members(count)
    return _written(_closed(properties), instance)


def _properties_optional(count: int) -> Member:
    """None is required, so that any later one may come next; the text has one in eight."""
    properties, instance = _members(count)
    some = dict(list(instance.items())[::8])
    return _written(_closed(properties, required=[]), some)


def _properties_open(count: int) -> Member:
    """Half of them are required, and twenty names that the schema does not list follow."""
    properties, instance = _members(count)
    schema = {"type": "object", "properties": properties, "required": list(properties)[::2]}
    others = {f"other_{word}": 1 for word in _words(20, seed=1)}
    return _written(schema, {**instance, **others})


def _enum(entries: int) -> Member:
    words = _words(entries)
    chosen = [words[position * 7919 % entries] for position in range(20)]
    return _written({"type": "array", "items": {"enum": words}}, chosen)


def _any_of_tagged(branches: int) -> Member:
    """Branches with a discriminator: a distinct constant each."""
    words = _words(branches)
    options = [
        _closed({"kind": {"const": word}, f"of_{word}": {"type": "string"}}) for word in words
    ]
    chosen = [words[position * 7919 % branches] for position in range(20)]
    instance = [{"kind": word, f"of_{word}": "some text"} for word in chosen]
    return _written({"type": "array", "items": {"anyOf": options}}, instance)


def _any_of_untagged(branches: int) -> Member:
    """Branches that overlap: each requires a distinct name."""
    words = _words(branches)
    options = [
        {"type": "object", "properties": {word: {"type": "integer"}}, "required": [word]}
        for word in words
    ]
    instance = {words[-1]: 5, "else": "text"}
    return _written({"anyOf": options}, instance)


def _items_limit(limit: int) -> Member:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": limit}
    return _written(schema, list(range(100, 100 + min(limit, 300))))


def _text_length(items: int) -> Member:
    schema = {"type": "array", "items": _closed({"id": {"type": "integer"}, "of": _LEAVES[0][0]})}
    return _written(schema, [{"id": 1000 + i, "of": "some words"} for i in range(items)])


def _unique_items(items: int) -> Member:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    return _written(schema, _words(items))


FAMILIES = [
    Family("schema nodes", "schemas in the schema", _powers(16, 4096), _tree),
    Family("string limit", "maxLength", [10**k for k in range(1, 7)], _string_limit),
    Family("string, filled", "minLength = maxLength", [10**k for k in range(1, 7)], _string_filled),
    Family("pattern limit", "repetitions in a pattern", _powers(4, 4096), _pattern_limit),
    Family("nesting", "objects in one another", _powers(4, 256), _depth),
    Family("nesting of the text", "levels of a recursive schema", _powers(4, 256), _text_depth),
    Family("properties, closed", "required properties", _powers(8, 1024), _properties_closed),
    Family("properties, optional", "optional properties", _powers(8, 1024), _properties_optional),
    Family("properties, open", "listed properties", _powers(8, 1024), _properties_open),
    Family("enum", "entries", _powers(16, 16384), _enum),
    Family("anyOf, tagged", "branches", _powers(4, 512), _any_of_tagged),
    Family("anyOf, untagged", "branches", _powers(2, 128), _any_of_untagged),
    Family("items limit", "maxItems", [10**k for k in range(1, 7)], _items_limit),
    Family("text length", "items in the text", _powers(8, 512), _text_length),
    Family("unique items", "different items in the text", _powers(8, 256), _unique_items),
]

MIXED = _written(
    _closed(
        {
            "name": {"type": "string", "maxLength": 60},
            "mail": {"type": "string", "pattern": "^[a-z.]+@[a-z]+\\.(com|org)$"},
            "born": {"type": "string", "format": "date"},
            "role": {"enum": ["admin", "editor", "reader"]},
            "scores": {"type": "array", "items": {"type": "number", "maximum": 100}},
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
                "required": ["street"],
            },
        }
    ),
    {
        "name": "Ada Lovelace of London",
        "mail": "ada.lovelace@example.com",
        "born": "1815-12-10",
        "role": "editor",
        "scores": [1, 22.5, 99.75, 3e-05],
        "address": {"street": "St James’s Square", "number": 12, "city": "London"},
    },
)
"""The schema that is walked in vocabularies of growing size."""
