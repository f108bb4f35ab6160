"""Words drawn from languages of code points, with a preference for the ends of ranges."""

from __future__ import annotations

from random import Random

from state_machines.grammar.node import EMPTY, Node

__all__ = ["a_word"]


def a_word(language: Node, random: Random, steps: int = 40) -> str | None:
    """Draw a word: branches are equally likely, however many characters they have.

    Args:
        language: The language, which has a word.
        random: Chooses branches and characters.
        steps: Characters after which the word is completed.

    Returns:
        The word; ``None`` if it has no end near.
    """
    word = ""
    stops = random.choice((0.05, 0.3))
    for _ in range(steps):
        transitions = language.transitions
        if language.nullable and (not transitions or random.random() < stops):
            return word
        assert transitions, f"dead end after {word!r}"
        members, language = random.choice(transitions)
        first, last = random.choice(members.ranges)
        word += chr(random.choice((first, last, random.randint(first, last))))
    for _ in range(4000):
        if language.nullable:
            return word
        members, language = min(language.transitions, key=lambda step: step[1].min_length)
        assert language is not EMPTY
        word += chr(members.ranges[0][0])
    return None
