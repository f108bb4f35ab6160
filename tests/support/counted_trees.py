"""Nested repetitions with large counts, in Lark, patterns and schemas, and texts near them."""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

import regex
from hypothesis import strategies as st

__all__ = [
    "LETTERS",
    "MIXED",
    "CountedTree",
    "as_lark",
    "as_pattern",
    "counted_schemas",
    "is_text_of",
    "text_near",
    "trees",
]

COUNTS = (250, 500, 1_000, 2_000, 10_000)
"""Counts around which searches gave up; the last one is beyond most of them."""


def counted(most: int) -> st.SearchStrategy[int]:
    near = [count + offset for count in COUNTS if count <= most for offset in (-1, 0, 1)]
    return st.sampled_from([*range(4), *near])


def is_text_of(pattern: str, text: str) -> bool | None:
    try:
        return regex.fullmatch(pattern, text, timeout=2) is not None
    except TimeoutError:
        return None


CountedTree: TypeAlias = tuple[Any, ...]
LEAVES = {
    '"a"': ("a", ("a", "b", "")),
    '("a" | "b")': ("[ab]", ("a", "b")),
    '"a"?': ("a?", ("a", "")),
    '%json {"const": true}': ("true", ("true", "tru")),
    '%json {"enum": [[], [0]]}': (r"\[0?\]", ("[]", "[0]")),
    "lazy": ("#[ab]*;", ("#ab;", "#;", "#b;;")),
}
"""Items of Lark, each with its pattern and texts near it. No two begin alike, but for single letters,
so that longest match reads the texts of the pattern."""

MIXED = list(LEAVES)
LETTERS = ['"a"', '("a" | "b")', '"a"?']


@st.composite
def trees(draw: st.DrawFn, most: int, *, items: list[str], depth: int = 2) -> CountedTree:
    """Draw nested sequences and repetitions; at most ``most`` items are required."""
    kind = draw(st.sampled_from(("item", "all", "times", "times"))) if depth else "item"
    if kind == "item":
        return ("item", draw(st.sampled_from(items)))
    if kind == "all":
        inner = trees(most // 3, items=items, depth=depth - 1)
        return ("all", *draw(st.lists(inner, min_size=2, max_size=3)))
    least = draw(counted(most))
    tree = draw(trees(most // max(least, 1), items=items, depth=depth - 1))
    return ("times", tree, least, draw(st.sampled_from([least, least + 1, 2 * least + 1, None])))


def as_lark(tree: CountedTree) -> str:
    match tree:
        case ("item", item):
            return str(item)
        case ("all", *parts):
            return f"({' '.join(map(as_lark, parts))})"
    _, body, least, most = tree
    return f"({as_lark(body)}){{{least},{'' if most is None else most}}}"


def as_pattern(tree: CountedTree) -> str:
    match tree:
        case ("item", item):
            return f"(?:{LEAVES[item][0]})"
        case ("all", *parts):
            return "".join(map(as_pattern, parts))
    _, body, least, most = tree
    return f"(?:{as_pattern(body)}){{{least},{'' if most is None else most}}}"


def text_near(tree: CountedTree, random: Random) -> str:
    """Return a text that differs from a text of a tree in a count or an item, if at all."""
    match tree:
        case ("item", item):
            texts = LEAVES[item][1]
            return random.choice(texts) if random.random() < 0.02 else texts[0]
        case ("all", *parts):
            return "".join(text_near(part, random) for part in parts)
    _, body, least, most = tree
    offset = random.choice([-1, 0, 0, 0, 1])
    count = max(0, random.choice([least, least if most is None else most]) + offset)
    if count > 100 and random.random() < 0.5:
        return text_near(body, random) * count
    return "".join(text_near(body, random) for _ in range(count))


@st.composite
def counted_schemas(draw: st.DrawFn, most: int) -> tuple[Any, list[Any]]:
    """Draw a schema with counts, and values near it."""
    size = draw(counted(most))
    extra = draw(st.sampled_from([None, 0, 1, 5]))
    kind = draw(st.sampled_from(("arrays", "strings", "contains", "objects")))
    lengths = [max(0, size + offset) for offset in (-1, 0, 1, 2)]
    if kind == "strings":
        bounds = draw(st.sampled_from([f"{{{size},}}", f"{{{size}}}", f"{{{size},{size + 1}}}"]))
        first = f"^(ab|b){bounds}$"
        other = draw(st.sampled_from(["^(.b)*$", "b$", f"^.{{{size},}}$", "^b*$"]))
        text: dict[str, Any] = {"type": "string", "pattern": first}
        text |= (
            {"not": {"pattern": other}} if draw(st.booleans()) else {"allOf": [{"pattern": other}]}
        )
        return text, ["ab" * n for n in lengths] + ["b" * n for n in lengths] + ["b" * size + "ab"]
    bounds_of_items = {"minItems": size} | ({} if extra is None else {"maxItems": size + extra})
    items = {"enum": draw(st.sampled_from([[1], [1, 2], [True, 1]]))}
    inner: dict[str, Any] = {"type": "array", "items": items, **bounds_of_items}
    arrays = [[1] * n for n in lengths] + [[1] * (n - 1) + [2] for n in lengths if n]
    if kind == "contains":
        least = draw(counted(most))
        inner |= {"contains": {"const": 1}, "minContains": least}
        return inner, [*arrays, [1] * least, [1] * least + [2] * size]
    if kind == "objects":
        member = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
        inner = {**member, "additionalProperties": False}
        arrays = [{"a": array} for array in arrays]
    schema = {
        "type": "array",
        "items": inner,
        "uniqueItems": True,
        "minItems": draw(st.integers(0, 3)),
    }
    values = draw(st.lists(st.lists(st.sampled_from(arrays), max_size=3), max_size=5))
    return schema, [*values, arrays[1:3], arrays[:2], [arrays[1]] * 2]
