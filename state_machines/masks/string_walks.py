"""The tokens of JSON strings: one walk of a text for all bounds on its length.

A token fits between two bounds if its characters, and the fewest that complete the text after it,
fit. So a text is walked once, and the tokens for a pair of bounds are selected by these numbers.

A text that contains a pattern anywhere begins with any text. Then all tokens that stay inside the
string are allowed, and only the few that close it depend on the pattern.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from weakref import ref

import numpy as np
import numpy.typing as npt

from state_machines.budgets import Verdict, spend
from state_machines.caches import LruCache
from state_machines.grammar.boolean import Complement, Intersection, everything, intersection
from state_machines.grammar.encoding import JSON_STRING, EncodedText, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import (
    Concatenation,
    Repetition,
    SymbolNode,
    Union,
    concatenation,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.shortest import has_all_lengths, shortest_length
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.masks.descent import Descents, below, states_at_vertices
from state_machines.masks.lexeme_tokens import NO_VERTICES, ClosingQuotes, WalkCache
from state_machines.masks.token_sets import Bits, TokenSet, packed, united, within, without
from state_machines.masks.token_trie import Ids, TokenTrie

_FEW_REPETITIONS = 3
"""Repetitions of a part of a text that few tokens exceed."""

LONG_TOKEN = 32
"""Characters from which on a token may reach a bound that is far away."""

_SEARCHED_PARTS = 32
"""Parts of a text among which a long repetition is looked for."""

_CLOSED_TEXTS = 64
"""Vertices of opening quotes for which the texts before closing quotes are stored."""

ANY_TEXT = everything(ANY_CODE_POINT)

_MEASURED_BYTES = 8 << 20
"""Bytes of texts of strings whose tokens are measured in characters."""

_BACKSLASH, _QUOTATION_MARK = ord("\\"), ord('"')


class TokenLengths:
    """The tokens of a trie by the number of characters that they begin in a JSON string.

    Attributes:
        at: The characters on the path to each vertex: int32, shape (vertices,). An escape is one
            character, and so is an escaped surrogate pair.
        longest: The greatest number.
        quotes: The vertices of quotes that are not escaped, where tokens end: int32, ascending.
    """

    def __init__(self, trie: TokenTrie) -> None:
        self.at: Ids = trie.tables.group(
            "string_characters", lambda: {"characters": _count_characters(trie)}
        )["characters"]
        self.longest = int(self.at.max(initial=0))
        self._of_token: Ids = np.zeros(int(trie.ids.max(initial=-1)) + 1, np.int32)
        self._of_token[trie.ids] = self.at[trie.vertex_of]
        self._up_to: dict[int, Bits] = {}
        is_escape = trie.byte == _BACKSLASH
        for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
            is_escape[first:last] &= ~is_escape[trie.parent[first:last]]
        is_quote = (trie.byte == _QUOTATION_MARK) & ~is_escape[trie.parent] & (trie.low < trie.end)
        self.quotes: Ids = np.flatnonzero(is_quote).astype(np.int32)

    def up_to(self, count: int) -> Bits:
        """Return the tokens with at most a number of characters."""
        count = max(0, min(count, self.longest))
        known = self._up_to.get(count)
        if known is None:
            fits = self._of_token <= count
            known = self._up_to[count] = np.packbits(fits, bitorder="little")
        return known


class MeasuredStrings:
    """The tokens inside the strings of a text, by numbers of characters.

    Args:
        text: The language of the text.
        start: The vertex before the text: the root, or that of an opening quote.
        strings: The strings of the vocabulary.
        is_bounded: Whether :meth:`tokens` is called with bounds.

    Attributes:
        inside: The tokens that stay inside the strings.
        quotes: The vertices of closing quotes: int32, ascending.
        missing: The most characters that complete a text after a token; 0 if they are not counted.
        reach: A length from which on an upper bound refuses no token.
    """

    inside: TokenSet

    def __init__(self, text: Node, start: int, strings: Strings, *, is_bounded: bool) -> None:
        self._trie = strings.trie
        self._descents = strings.descents
        self._lengths = strings.lengths
        self._start = start
        self._least_missing = self.missing = 0
        free = _free_part(text)
        if text is not ANY_TEXT and (free is not None or (not is_bounded and _continues(text))):
            # Any text may be written, so only its ends are looked for.
            written = strings.closed_texts(start)
            self.inside = written.any_text.inside
            self.quotes: Ids = written.closing(text)
            if free is not None and is_bounded:
                self.missing = shortest_length(free)
        else:
            self._walk(text, is_bounded=is_bounded)
        first = int(self._lengths.at[start])
        self._word_lengths: Ids = self._lengths.at[self._trie.parent[self.quotes]] - first
        self.reach = self._lengths.longest + self.missing
        # Not held: a text may lead back to itself, and is the key of its measure in a cache.
        self._text = ref(text)

    def _walk(self, text: Node, *, is_bounded: bool) -> None:
        trie, lengths = self._trie, self._lengths
        with self._descents.table() as table:
            found = self._descents.descend(table, below(self._start, table.number(_string(text))))
            nodes = [table.nodes[number] for number in found.reached]
        beyond = np.concatenate([NO_VERTICES, *(ends for _, ends in found.leaving)])
        closed = lengths.quotes[found.tokens.contains(trie.ids[trie.low[lengths.quotes]])]
        self.quotes = np.union1d(trie.parent[beyond], closed)
        self.inside = without(found.tokens, trie.tokens_at_all(self.quotes))
        if is_bounded:
            missing = _missing_characters(node for node in nodes if node is not EPSILON).values()
            self._least_missing = min(missing, default=0)
            self.missing = max(missing, default=0)

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return self.inside.nbytes + 2 * self.quotes.nbytes

    def tokens(self, min_chars: int, max_chars: int | None) -> tuple[TokenSet, Ids]:
        """Return the tokens of the texts with a number of characters between bounds.

        Args:
            min_chars: The least number; above 1 only if :func:`has_all_lengths` of the text.
            max_chars: The greatest number; ``None`` for no bound.

        Returns:
            The tokens that stay inside the string or close it, and the vertices of closing quotes.
        """
        is_word = self._word_lengths >= min_chars
        inside = [self.inside]
        if max_chars is not None:
            is_word &= self._word_lengths <= max_chars
            certain = max_chars + int(self._lengths.at[self._start]) - self.missing
            inside = [within(self.inside, self._lengths.up_to(certain))]
            if self._least_missing < self.missing:
                inside.append(packed(self._fitting(max_chars)))
        quotes = self.quotes[is_word]
        return united(inside, self._trie.tokens_at_all(quotes)), quotes

    def _fitting(self, max_chars: int) -> Ids:
        """Return tokens that fit, among those for which it depends on the state after them."""
        trie, lengths = self._trie, self._lengths
        max_chars += int(lengths.at[self._start])
        certain, possible = (
            lengths.up_to(max_chars - missing) for missing in (self.missing, self._least_missing)
        )
        ids = within(self.inside, possible & ~certain).ids
        text = self._text()
        if not len(ids) or text is None:
            return NO_VERTICES
        vertex_of = np.zeros(int(trie.ids.max()) + 1, np.int32)
        vertex_of[trie.ids] = trie.vertex_of
        vertices = vertex_of[ids]
        with self._descents.table() as table:
            first = table.number(_string(text))
            if not self._start:
                states = states_at_vertices(table, first, trie)
            else:
                visited, after = self._descents.visits(table, below(self._start, first))
                states = np.zeros(trie.size, np.int32)
                states[visited] = after
            after = states[vertices]
            nodes = {number: table.nodes[number] for number in np.unique(after).tolist()}
        missing = np.zeros(max(nodes) + 1, np.int32)
        found = _missing_characters(nodes.values())
        missing[list(nodes)] = [found[node] for node in nodes.values()]
        return ids[lengths.at[vertices] + missing[after] <= max_chars]


class _ClosedTexts:
    """The texts that tokens write below a vertex before they close a string of any text.

    Attributes:
        any_text: The tokens of any text.
    """

    def __init__(self, start: int, any_text: MeasuredStrings, trie: TokenTrie) -> None:
        self.any_text = any_text
        skipped = len(trie.text(start))
        numbers = {"": 0}
        self._steps: list[tuple[int, int]] = []
        self._ends: list[int] = []
        for quote in any_text.quotes.tolist():
            text = json.loads(b'"' + trie.text(quote)[skipped:])
            for at in range(len(text)):
                if text[: at + 1] not in numbers:
                    numbers[text[: at + 1]] = len(numbers)
                    self._steps.append((numbers[text[:at]], ord(text[at])))
            self._ends.append(numbers[text])

    def closing(self, text: Node) -> Ids:
        """Return the vertices of the quotes that close a string of a language of code points."""
        states = [text]
        spend(len(self._steps) // 8)
        for before, point in self._steps:
            states.append(states[before].character_derivative(point))
        is_word = np.array([states[number].nullable for number in self._ends], np.bool_)
        return self.any_text.quotes[is_word]


class Strings:
    """The tokens of the JSON strings of a vocabulary. Safe to use from several threads."""

    def __init__(self, descents: Descents) -> None:
        self.trie = descents.trie
        self.descents = descents
        self.closing = ClosingQuotes(self.trie)
        self.lengths = TokenLengths(self.trie)
        self._measured: WalkCache[tuple[int, bool], MeasuredStrings] = WalkCache(_MEASURED_BYTES)
        self._closed: LruCache[int, _ClosedTexts] = LruCache(_CLOSED_TEXTS)
        self._is_long = self.lengths.at[self.trie.vertex_of] >= LONG_TOKEN
        self.long_tokens: Ids = self.trie.ids[self._is_long]
        """The tokens of at least :data:`LONG_TOKEN` characters."""
        # Every schema has strings, so their tokens are computed before the first mask.
        self._any = MeasuredStrings(ANY_TEXT, 0, self, is_bounded=True)

    @cached_property
    def _long_walks(self) -> Descents:
        vertices = self.trie.vertex_of[self._is_long].tolist()
        return Descents(TokenTrie.of_texts([self.trie.text(vertex) for vertex in vertices]))

    def long_tokens_of(self, string: Node) -> Ids:
        """Return the :attr:`long_tokens` that begin a string or end with its closing quote."""
        with self.descents.table() as table:
            found = self._long_walks.descend(table, below(0, table.number(string)))
        return self.long_tokens[found.tokens.ids]

    def measured(self, text: Node, start: int, *, is_bounded: bool) -> MeasuredStrings:
        """Return the tokens of the strings of a text without bounds, below a vertex."""
        if text is ANY_TEXT:
            return self._any if not start else self.closed_texts(start).any_text
        known = self._measured.get(text, (start, is_bounded))
        if known is None:
            made = MeasuredStrings(text, start, self, is_bounded=is_bounded)
            known = self._measured.put(text, (start, is_bounded), made)
        return known

    def closed_texts(self, start: int) -> _ClosedTexts:
        """Return the texts that tokens write below a vertex before they close a string."""
        known = self._closed.get(start)
        if known is None:
            is_root = not start
            any_text = (
                self._any if is_root else MeasuredStrings(ANY_TEXT, start, self, is_bounded=True)
            )
            known = self._closed.put(start, _ClosedTexts(start, any_text, self.trie))
        return known

    def without_bounds(self, text: Node) -> tuple[Node, int, int | None]:
        """Return a text without bounds on its length, and the bounds.

        The text and the bounds together allow the tokens that the original text allows.
        """
        members = text.members if isinstance(text, Intersection) else (text,)
        counted: list[Repetition] = []
        rest: list[Node] = []
        for node in members:
            if isinstance(node, Repetition) and isinstance(node.body, SymbolNode):
                counted.append(node)
                node = repetition(node.body, 0, None)
            rest.append(node)
        tops = [node.max_count for node in counted if node.max_count is not None]
        min_chars = max((node.min_count for node in counted), default=0)
        if not min_chars and not tops:
            return text, 0, None
        text = intersection(rest)
        if min_chars > 1 and has_all_lengths(text) is not Verdict.YES:
            # The bound also refuses characters after which no length within the bounds is left.
            text = intersection((text, repetition(symbols(ANY_CODE_POINT), min_chars, None)))
            min_chars = 0
        return text, min(min_chars, self._any.reach + 1), min(tops, default=None)


def without_far_counts(text: Node, least: int = LONG_TOKEN) -> tuple[Node, int | None]:
    """Return a text whose first parts may be repeated without end, and the least bound of them.

    Words of at most as many characters as that bound are in both languages.

    Args:
        text: The language of the text.
        least: Bounds below it are kept. If all are, the bound that is returned is ``None``.

    >>> from state_machines.regex import compile_pattern
    >>> texts = [compile_pattern(f"[a-z]{{0,{count}}}1", search=False) for count in (62, 63)]
    >>> len({without_far_counts(text)[0] for text in texts})
    1
    """
    bounds: list[int] = []
    found = _without_far_counts(text, least, bounds)
    return found, min(bounds, default=None)


def _without_far_counts(text: Node, least: int, bounds: list[int]) -> Node:
    match text:
        case Concatenation():
            head, tail = _without_far_counts(text.head, least, bounds), text.tail
            if text.head.nullable:
                tail = _without_far_counts(tail, least, bounds)
            return text if (head, tail) == (text.head, text.tail) else concatenation(head, tail)
        case Union() | Intersection() if len(text.members) <= _SEARCHED_PARTS:
            members = tuple(_without_far_counts(member, least, bounds) for member in text.members)
            if members == text.members:
                return text
            return union(members) if isinstance(text, Union) else intersection(members)
        case Repetition() if text.max_count is not None and not text.body.nullable:
            if text.max_count < least:
                return text
            bounds.append(text.max_count)
            return repetition(text.body, text.min_count, None)
    return text


def with_other_counts(text: Node) -> tuple[Node, Node] | None:
    """Return two texts, with fewer and with more repetitions; ``None`` for a text without any.

    The first language is within that of the text, the second one around it. So tokens that both
    allow or refuse, the text allows or refuses as well: no token reads the last repetition.
    """
    if not _has_long(text):
        return None
    return _with_counts(text, _FEW_REPETITIONS), _with_counts(text, None)


def _has_long(text: Node) -> bool:
    """Whether one of the first parts of a text is a repetition of more parts than tokens read."""
    pending = [text]
    for _ in range(_SEARCHED_PARTS):
        if not pending:
            break
        node = pending.pop()
        if isinstance(node, Concatenation):
            pending += (node.tail, node.head)
        elif isinstance(node, Union | Intersection):
            pending += node.members[:_SEARCHED_PARTS]
        elif isinstance(node, Repetition) and _is_long(node):
            return True
    return False


def _with_counts(text: Node, count: int | None) -> Node:
    parts: list[Node] = []
    while isinstance(text, Concatenation):
        parts.append(text.head)
        text = text.tail
    parts.append(text)
    for number, part in enumerate(parts):
        if isinstance(part, Union | Intersection):
            join = union if isinstance(part, Union) else intersection
            parts[number] = join([_with_counts(member, count) for member in part.members])
        elif isinstance(part, Repetition) and _is_long(part):
            parts[number] = repetition(part.body, part.min_count, count)
    return concatenation(*parts)


def _is_long(node: Repetition) -> bool:
    """Whether a repetition has more parts than tokens usually read; they read many symbols."""
    if node.max_count is None or node.body.max_length == 1:
        return False
    return node.min_count <= _FEW_REPETITIONS < node.max_count


def _string(text: Node) -> Node:
    return encoded(text, JSON_STRING, b'"')


def _free_part(text: Node) -> Node | None:
    """Return a part of a union that begins with any text; ``None`` if there is none.

    All derivatives of the union have that part.
    """
    for node in text.members if isinstance(text, Union) else (text,):
        if isinstance(node, Concatenation) and node.head.is_universal:
            return node
    return None


def _continues(text: Node) -> bool:
    """Whether every text is known to begin a word: after it, words may be of any length."""
    if isinstance(text, Intersection):
        # Excluding texts of bounded length leaves the longer words.
        others = [member for member in text.members if not _excludes_bounded_texts(member)]
        return not others or (len(others) == 1 and _free_part(others[0]) is not None)
    return _excludes_bounded_texts(text) or _free_part(text) is not None


def _excludes_bounded_texts(text: Node) -> bool:
    return isinstance(text, Complement) and text.body.max_length is not None


def _missing_characters(states: Iterable[Node]) -> dict[Node, int]:
    """Return the fewest characters that complete a text after each state.

    A character that has begun is not counted.
    """
    known: dict[Node, int] = {}

    def of(node: Node) -> int:
        # At most the bytes of one character are followed.
        found = known.get(node)
        if found is None:
            spend()
            if isinstance(node, EncodedText):
                found = shortest_length(node.text)
            elif isinstance(node, Concatenation):
                # The rest of a character, then the rest of the text.
                found = of(node.tail)
            elif isinstance(node, Union):
                found = min(map(of, node.members))
            else:
                found = min((of(target) for _, target in node.transitions), default=0)
            known[node] = found
        return found

    return {node: of(node) for node in states}


def _count_characters(trie: TokenTrie) -> npt.NDArray[np.int32]:
    characters = trie.characters.copy()
    escaped = trie.byte == _BACKSLASH
    for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
        escaped[first:last] |= escaped[trie.parent[first:last]]
    for vertex in np.flatnonzero(escaped).tolist():
        characters[vertex] = _characters_of(trie.text(vertex))
    return characters


def _characters_of(text: bytes) -> int:
    count = at = 0
    while at < len(text):
        if text[at] == _BACKSLASH:
            at += _escape_length(text[at : at + 12])
            count += 1
        else:
            count += text[at] & 0xC0 != 0x80
            at += 1
    return count


def _escape_length(text: bytes) -> int:
    if text[1:2] != b"u":
        return 2
    is_pair = text[2:3] in b"dD" and text[3:4] in b"89abAB" and text[6:8] in (b"", b"\\", b"\\u")
    return 12 if is_pair and len(text) > 3 else 6
