"""Properties of syntax trees that decide how a pattern is compiled, and rewritings before that."""

from __future__ import annotations

from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.syntax_tree import (
    Characters,
    Choice,
    End,
    Expression,
    LookAhead,
    LookBehind,
    Repeat,
    Series,
    WordBoundary,
    walk,
)

MAX_WORD_COUNT = 500
"""Largest count of one character that :func:`single_word` spells out."""


def context_classes(tree: Expression) -> tuple[CodePointSet, ...]:
    """Return the coarsest partition of characters that all assertions about the left respect."""
    classes = [ANY_CODE_POINT]
    for node in walk(tree):
        match node:
            case WordBoundary():
                classes = _split(_split(classes, node.word), node.other)
            case LookBehind():
                classes = _split(classes, node.members)
    return tuple(classes)


def _split(classes: list[CodePointSet], members: CodePointSet) -> list[CodePointSet]:
    parts = (part for cell in classes for part in (cell & members, cell & ~members))
    return [part for part in parts if part]


def single_word(tree: Expression) -> tuple[int, ...] | None:
    """Return the code points of the only word that a tree matches, else ``None``."""
    word: list[int] = []
    for part in tree.parts if isinstance(tree, Series) else (tree,):
        body, count = part, 1
        if isinstance(part, Repeat) and part.max_count == part.min_count < MAX_WORD_COUNT:
            body, count = part.body, part.min_count
        if not isinstance(body, Characters) or len(body.members) != 1:
            return None
        word.extend([body.members.ranges[0][0]] * count)
    return tuple(word)


def matches_empty_everywhere(tree: Expression) -> bool:
    """Return whether the tree matches the empty text at every position of every text."""
    match tree:
        case Series():
            return all(map(matches_empty_everywhere, tree.parts))
        case Choice():
            return any(map(matches_empty_everywhere, tree.branches))
        case Repeat():
            return tree.min_count == 0 or matches_empty_everywhere(tree.body)
    return False


def shorten_leading_repetition(tree: Expression) -> Expression:
    """Return a tree that is found in the same texts: ``[0-9]+x`` is found where ``[0-9]x`` is."""
    match tree:
        case Series(parts=(first, *rest)) if not any(part.looks_left for part in rest):
            return Series((shorten_leading_repetition(first), *rest))
        case Repeat(body=body, min_count=count) if not body.looks_left and body.reach <= 0:
            return Repeat(body, count, count, tree.position)
    return tree


def looks_ahead_by_end_alone(tree: Expression) -> bool:
    """Return whether ``$`` is the only assertion about the text that follows."""
    return not any(isinstance(node, WordBoundary | LookAhead) for node in walk(tree))


def without_end_assertions(tree: Expression) -> Expression:
    """Return the tree with every ``$`` replaced by an expression that matches nothing."""
    match tree:
        case End():
            return Characters(CodePointSet(()))
        case Series():
            return Series(tuple(map(without_end_assertions, tree.parts)))
        case Choice():
            return Choice(tuple(map(without_end_assertions, tree.branches)))
        case Repeat():
            body = without_end_assertions(tree.body)
            return Repeat(body, tree.min_count, tree.max_count, tree.position)
    return tree
