"""What the compiler asks of a tree before it compiles it, and rewritings that keep its meaning."""

from __future__ import annotations

from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.regex.syntax import (
    Alternatives,
    Characters,
    End,
    Expression,
    LookAhead,
    LookBehind,
    Repeat,
    Series,
    WordBoundary,
)

__all__ = [
    "always_matches_nothing",
    "left_classes",
    "reaches_by_end_alone",
    "without_end",
    "without_leading_surplus",
    "word_of",
]

MAX_WORD = 500
"""A counted character is spelled out, as part of a word, up to this count."""


def left_classes(tree: Expression) -> tuple[CodePointSet, ...]:
    """Return the coarsest classes of characters that the pattern's assertions tell apart."""
    classes = [ANY_CODE_POINT]
    stack = [tree]
    while stack:
        node = stack.pop()
        match node:
            case WordBoundary(word=members) | LookBehind(members=members):
                parts = (part for cell in classes for part in (cell & members, cell & ~members))
                classes = [part for part in parts if part]
            case Series(parts=children) | Alternatives(branches=children):
                stack.extend(children)
            case Repeat(body=child) | LookAhead(body=child):
                stack.append(child)
    return tuple(classes)


def word_of(tree: Expression) -> tuple[int, ...] | None:
    """Return the code points of an expression that matches one word alone, else ``None``."""
    word: list[int] = []
    for part in tree.parts if isinstance(tree, Series) else (tree,):
        body, count = part, 1
        if isinstance(part, Repeat) and part.least == part.most and part.least < MAX_WORD:
            body, count = part.body, part.least
        if not isinstance(body, Characters) or len(body.members) != 1:
            return None
        word.extend([body.members.ranges[0][0]] * count)
    return tuple(word)


def always_matches_nothing(tree: Expression) -> bool:
    """Whether the expression matches the empty text wherever it stands."""
    match tree:
        case Series():
            return all(map(always_matches_nothing, tree.parts))
        case Alternatives():
            return any(map(always_matches_nothing, tree.branches))
        case Repeat():
            return tree.least == 0 or always_matches_nothing(tree.body)
    return False


def without_leading_surplus(tree: Expression) -> Expression:
    """Return a tree that is found in the same texts: ``[0-9]+x`` is found where ``[0-9]x`` is."""
    match tree:
        case Series(parts=(first, *rest)) if not any(part.left for part in rest):
            return Series((without_leading_surplus(first), *rest))
        case Repeat(body=body, least=least) if not body.left and body.reach <= 0:
            return Repeat(body, least, least, tree.position)
    return tree


def reaches_by_end_alone(tree: Expression) -> bool:
    match tree:
        case WordBoundary() | LookAhead():
            return False
        case Series():
            return all(map(reaches_by_end_alone, tree.parts))
        case Alternatives():
            return all(map(reaches_by_end_alone, tree.branches))
        case Repeat():
            return reaches_by_end_alone(tree.body)
    return True


def without_end(tree: Expression) -> Expression:
    """Return the tree with every ``$`` replaced by what never matches."""
    match tree:
        case End():
            return Characters(CodePointSet(()))
        case Series():
            return Series(tuple(map(without_end, tree.parts)))
        case Alternatives():
            return Alternatives(tuple(map(without_end, tree.branches)))
        case Repeat():
            return Repeat(without_end(tree.body), tree.least, tree.most, tree.position)
    return tree
