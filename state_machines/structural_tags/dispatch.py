"""Free text and tokens in which tags and patterns occur, and tags with separators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from state_machines.budgets import spend
from state_machines.errors import InvalidStructuralTagError, UnsupportedStructuralTagError
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, repetition, union
from state_machines.grammar.until import aho_corasick
from state_machines.structural_tags.formats import (
    Format,
    OneToken,
    Place,
    Tag,
    Token,
    choice,
    const,
    free_format,
    series,
)


def grouped_tags(
    triggers: Sequence[str], tags: Sequence[Tag], pointer: str
) -> dict[str, list[tuple[str, Tag]]]:
    """Return each trigger with the tags that begin with it, and their beginnings.

    Raises:
        StructuralTagError: A tag begins with no trigger or with several, or a trigger begins no
            tag or cannot be reached.
    """
    groups: list[list[tuple[str, Tag]]] = [[] for _ in triggers]
    for tag in tags:
        spend(1 + len(triggers) // 8)
        begin = tag.begin
        if isinstance(begin, OneToken):
            raise InvalidStructuralTagError(
                "a trigger is a text, so a tag does not begin with a token",
                pointer=f"{tag.pointer}/begin",
                hint="Use token_triggered_tags",
            )
        matching = [n for n, trigger in enumerate(triggers) if begin.startswith(trigger)]
        if len(matching) != 1:
            raise InvalidStructuralTagError(
                f"the tag begins with {'several triggers' if matching else 'no trigger'}",
                pointer=f"{tag.pointer}/begin",
                hint="Each tag begins with exactly one of the triggers",
            )
        groups[matching[0]].append((begin, tag))
    for number, group in enumerate(groups):
        if not group:
            raise InvalidStructuralTagError(
                f"no tag begins with the trigger {triggers[number][:80]!r}",
                pointer=f"{pointer}/{number}",
                hint="Leave out the trigger",
            )
    _check_reachable(triggers, pointer)
    return dict(zip(triggers, groups, strict=True))


def grouped_rules(rules: Sequence[tuple[str, Format]], pointer: str) -> list[tuple[str, Format]]:
    """Return the patterns that begin with no other pattern, each with the format after it.

    In free text the first pattern that is complete dispatches, and the longest one where several
    end with the same character. A pattern that begins with another one is reached through it.
    """
    by_first: dict[str, list[Format]] = {}
    for pattern, content in sorted(rules, key=lambda rule: len(rule[0])):
        spend(1 + len(by_first) // 8)
        first = next((known for known in by_first if pattern.startswith(known)), pattern)
        rest = pattern[len(first) :]
        following = series((const(rest), content)) if rest else content
        by_first.setdefault(first, []).append(following)
    _check_reachable(list(by_first), pointer)
    return [(first, choice(contents)) for first, contents in by_first.items()]


def _check_reachable(patterns: Sequence[str], pointer: str) -> None:
    """Raise for a pattern that contains a pattern: the inner pattern dispatches first."""
    automaton = aho_corasick(frozenset(patterns))
    for number, pattern in enumerate(patterns):
        if automaton.first_in(pattern) == pattern:
            continue
        inner = next(other for other in patterns if other != pattern and other in pattern)
        raise UnsupportedStructuralTagError(
            f"{pattern[:80]!r} cannot be reached, since it contains {inner[:80]!r}",
            pointer=f"{pointer}/{number}",
            hint="Choose texts none of which contains another",
        )


def triggered_tags(
    groups: Mapping[str, Sequence[tuple[str, Tag]]],
    excludes: Sequence[str] = (),
    at_least_one: bool = False,
    stop_after_first: bool = False,
) -> Format:
    """Return free text in which each trigger begins a tag of that trigger."""
    tags = [(begin, tag) for group in groups.values() for begin, tag in group]

    def language(place: Place) -> Node:
        writer, inner = place.writer, Place(place.writer)
        first = EPSILON
        if at_least_one:
            first = union(tag.node(place) for _, tag in tags)
            if stop_after_first:
                return first
        rules = []
        for trigger, group in groups.items():
            bodies = (
                concatenation(writer.string(begin[len(trigger) :], False), tag.rest(inner))
                for begin, tag in group
            )
            rules.append((trigger, union(bodies)))
        special = [
            concatenation(form, tag.rest(inner))
            for begin, tag in tags
            if (form := writer.special(begin)) is not None
        ]
        dispatch = writer.dispatch(
            rules,
            (*excludes, *filter(None, place.ends)),
            is_loop=not stop_after_first,
            special=special,
        )
        return concatenation(first, dispatch)

    return free_format(language, excludes)


def separated_tags(
    tags: Sequence[Tag], separator: str, at_least_one: bool, stop_after_first: bool
) -> Format:
    """Return tags with a separator between them, and no other text."""
    ends_in_text = any(tag.ends_in_text for tag in tags)

    def language(place: Place) -> Node:
        found = union(tag.node(place) for tag in tags)
        if not stop_after_first:
            later = found
            if place.after_text != ends_in_text:
                inner = place._replace(after_text=ends_in_text and not separator)
                later = union(tag.node(inner) for tag in tags)
            between = place.writer.string(separator, ends_in_text)
            found = concatenation(found, repetition(concatenation(between, later), 0, None))
        return found if at_least_one else optional(found)

    return Format(language=language, is_unlimited=True, ends_in_text=ends_in_text)


def text_dispatch(
    rules: Sequence[tuple[str, Format]], is_loop: bool, excludes: Sequence[str]
) -> Format:
    """Return free text in which each pattern is followed by its format.

    Args:
        rules: The patterns, each with its format.
        is_loop: Whether free text follows the format.
        excludes: Strings that the free text does not contain.
    """

    def language(place: Place) -> Node:
        inner = place._replace(after_text=False)
        nodes = [(pattern, content.node(inner)) for pattern, content in rules]
        return place.writer.dispatch(nodes, excludes, is_loop=is_loop)

    return free_format(language, excludes)


def token_dispatch(
    rules: Mapping[Token, Sequence[Callable[[Place], Node]]],
    is_loop: bool,
    excludes: Sequence[Token],
    at_least_one: bool = False,
    *,
    knows_end: bool = False,
) -> Format:
    """Return free tokens in which each trigger token is followed by a language of that token.

    Args:
        rules: The tokens, each with its languages.
        is_loop: Whether any tokens follow the language.
        excludes: Other tokens that are not written.
        at_least_one: Whether the text begins with one of the tokens.
        knows_end: Whether the token that ends the enclosing tag is not written either.
    """

    def language(place: Place) -> Node:
        inner, token = place._replace(after_text=False), place.writer.token
        found = union(
            [
                concatenation(token((each,)), union(content(inner) for content in contents))
                for each, contents in rules.items()
            ]
        )
        ends = place.end_tokens if knows_end else ()
        other = token((*excludes, *rules, *ends), is_negated=True)
        if is_loop:
            rest = repetition(union((other, found)), 0, None)
            return concatenation(found, rest) if at_least_one else rest
        return found if at_least_one else concatenation(repetition(other, 0, None), optional(found))

    return free_format(language, excludes)
