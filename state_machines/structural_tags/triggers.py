"""Checks triggers and patterns, and groups what follows each of them.

In free text the first trigger that is complete dispatches, and the longest one where several end
with the same character. A trigger that begins with another one is reached through it.
"""

from __future__ import annotations

from collections.abc import Sequence

from state_machines.budgets import spend
from state_machines.errors import InvalidStructuralTagError, UnsupportedStructuralTagError
from state_machines.grammar.until import aho_corasick
from state_machines.structural_tags.formats import (
    Alternatives,
    ConstString,
    Format,
    OneToken,
    Series,
    Tag,
    Token,
    TriggeredTag,
)


def grouped_tags(
    triggers: Sequence[str], tags: Sequence[Tag], pointer: str
) -> tuple[tuple[str, tuple[TriggeredTag, ...]], ...]:
    """Return each trigger with the tags that begin with it.

    Raises:
        StructuralTagError: A tag begins with no trigger or with several, or a trigger begins no
            tag or cannot be reached.
    """
    groups: list[list[TriggeredTag]] = [[] for _ in triggers]
    for tag in tags:
        spend(1 + len(triggers) // 8)
        begin = tag.begin
        if not isinstance(begin, str):
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
        groups[matching[0]].append(TriggeredTag(begin, tag))
    for number, group in enumerate(groups):
        if not group:
            raise InvalidStructuralTagError(
                f"no tag begins with the trigger {triggers[number][:80]!r}",
                pointer=f"{pointer}/{number}",
                hint="Leave out the trigger",
            )
    _check_reachable(triggers, pointer)
    return tuple((trigger, tuple(group)) for trigger, group in zip(triggers, groups, strict=True))


def grouped_rules(
    rules: Sequence[tuple[str, Format]], pointer: str
) -> tuple[tuple[str, Format], ...]:
    """Return the patterns that begin with no other pattern, each with the format after it.

    Raises:
        UnsupportedStructuralTagError: A pattern contains another one behind its beginning.
    """
    by_first: dict[str, list[Format]] = {}
    for pattern, content in sorted(rules, key=lambda rule: len(rule[0])):
        spend(1 + len(by_first) // 8)
        first = next((known for known in by_first if pattern.startswith(known)), pattern)
        rest = pattern[len(first) :]
        if rest:
            remainder = ConstString(pointer=content.pointer, value=rest)
            content = Series(pointer=content.pointer, elements=(remainder, content))
        by_first.setdefault(first, []).append(content)
    _check_reachable(list(by_first), pointer)
    return tuple(
        (first, Alternatives(pointer=pointer, elements=tuple(contents)))
        for first, contents in by_first.items()
    )


def grouped_token_tags(
    triggers: Sequence[Token], tags: Sequence[Tag], pointer: str
) -> tuple[tuple[Token, tuple[Tag, ...]], ...]:
    """Return each token with the tags that begin with it.

    Raises:
        InvalidStructuralTagError: A tag does not begin with one of the tokens, or a token begins
            no tag. A token is given in one way, by its text or by its number.
    """
    groups: dict[Token, list[Tag]] = {trigger: [] for trigger in triggers}
    for tag in tags:
        token = tag.begin.tokens[0] if isinstance(tag.begin, OneToken) else None
        if token is None or token not in groups:
            raise InvalidStructuralTagError(
                "the tag does not begin with one of the trigger tokens",
                pointer=f"{tag.pointer}/begin",
                hint='Its begin is {"type": "token", "token": …}, with the same text or number',
            )
        groups[token].append(tag)
    for number, trigger in enumerate(triggers):
        if not groups[trigger]:
            raise InvalidStructuralTagError(
                f"no tag begins with the token {trigger!r}", pointer=f"{pointer}/{number}"
            )
    return tuple((token, tuple(group)) for token, group in groups.items())


def _check_reachable(patterns: Sequence[str], pointer: str) -> None:
    """Raise for a pattern that contains another one, which would dispatch first."""
    automaton = aho_corasick(frozenset(patterns))
    for number, pattern in enumerate(patterns):
        if automaton.finds(pattern):
            continue
        inner = next(other for other in patterns if other != pattern and other in pattern)
        raise UnsupportedStructuralTagError(
            f"{pattern[:80]!r} cannot be reached, since it contains {inner[:80]!r}",
            pointer=f"{pointer}/{number}",
            hint="Choose texts none of which contains another",
        )
