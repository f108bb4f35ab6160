"""Languages of words over code points: construction, membership, counting and enumeration."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from state_machines.budgets import spend
from state_machines.caches import WeakValueLruCache
from state_machines.grammar.boolean import difference
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.word_lists import literals
from state_machines.limits import LIMITS

NODES_PER_STEP = 4
"""States of a language whose words are counted in one step."""

_LANGUAGE_WORDS = 4096
"""Words whose membership in one language is stored."""

_MEMO_WORDS = 512
"""Words of a set up to which its language is cached by the words."""

_LANGUAGES: WeakValueLruCache[frozenset[str], Node] = WeakValueLruCache(LIMITS.held_languages)
_ANSWERS: WeakKeyDictionary[Node, dict[str, bool]] = WeakKeyDictionary()


def word_language(words: Iterable[str]) -> Node:
    """Return the language of exactly the given words."""
    key = frozenset(words)
    if len(key) > _MEMO_WORDS:
        return literals(key)
    return _LANGUAGES.get(key, lambda: literals(key))


def without_words(language: Node, words: Iterable[str]) -> Node:
    """Return the language without the given words."""
    return difference(language, word_language(words), ANY_CODE_POINT)


def contains_word(language: Node, word: str) -> bool:
    """Return whether the language contains the word; answers are cached with the language."""
    known = _ANSWERS.setdefault(language, {})
    answer = known.get(word)
    if answer is None:
        if len(known) >= _LANGUAGE_WORDS:
            known.clear()
        answer = known[word] = after_text(language, word).nullable
    return answer


def after_text(language: Node, text: str) -> Node:
    """Return the language of the words that begin with a text, without the text."""
    for character in text:
        point = ord(character)
        for symbols, target in language.transitions:
            if point in symbols:
                language = target
                break
        else:
            return EMPTY
    return language


def count_words(language: Node, limit: int) -> int:
    """Return the number of words of the language, or ``limit`` if there are more."""
    counted = 0
    layer: dict[Node, int] = {language: 1}
    while layer and counted < limit:
        below: dict[Node, int] = {}
        begun = 0
        for node, paths in layer.items():
            counted += paths * node.nullable
            for symbols, target in node.transitions:
                below[target] = min(limit, below.get(target, 0) + paths * len(symbols))
                begun += paths * len(symbols)
            # Transitions lead to states with a word, so different beginnings have different words.
            if counted + begun >= limit:
                return limit
        spend(len(layer) // NODES_PER_STEP)
        layer = below
    return min(counted, limit)


def list_words(language: Node, limit: int) -> list[str] | None:
    """Return all words of the language, shortest first; ``None`` if there are ``limit`` or more."""
    if count_words(language, limit) >= limit:
        return None
    words: list[str] = []
    layer = [("", language)]
    while layer:
        words.extend(prefix for prefix, node in layer if node.nullable)
        layer = [
            (prefix + chr(point), target)
            for prefix, node in layer
            for symbols, target in node.transitions
            for first, last in symbols.ranges
            for point in range(first, last + 1)
        ]
    return words
