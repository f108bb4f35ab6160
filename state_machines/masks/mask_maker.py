"""Assembles the mask of one state.

The state is written as a union of configurations, and each configuration as
``prefix · lexeme · continuation`` (:mod:`state_machines.grammar.configurations`). A token either
stays inside the lexeme or ends with it, or it leaves the lexeme and writes a suffix beyond. So the
allowed tokens of a configuration are

* the tokens inside the lexeme: one bit set for each lexeme, independent of the continuation;
* the leaving tokens whose suffix the continuation accepts: a set of suffixes;
* where the lexeme may be empty, the tokens that the continuation allows.

A token is allowed in the state if it is allowed in one of its configurations, so the mask is the
union of these sets. With remembered words the continuation is a default. It is exact except for
tokens with a context-dependent suffix, and for tokens that complete an exception. Both are removed
from the sets above and checked separately by the derivative of the whole state.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.configurations import (
    MAX_PREFIX_BYTES,
    Configuration,
    LexemeSplit,
    Stack,
    all_configurations,
    joined,
    split_lexeme,
    without_exclusion,
)
from state_machines.grammar.encoding import JSON_STRING, EncodedText, encoded
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import (
    Branch,
    Literal,
    SymbolNode,
    Union,
    concatenation,
)
from state_machines.grammar.text_languages import word_language
from state_machines.grammar.tokens import begins_with_spelling
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents
from state_machines.masks.grammar_walks import LexerTokens, RecursiveWalks
from state_machines.masks.lexeme_tokens import TokensBySuffix, leaving_ends, leaving_group
from state_machines.masks.lexemes import Lexemes, texts_of
from state_machines.masks.quote_walks import QuoteMasks, is_sparse_quote
from state_machines.masks.spelled_tokens import SpelledTokens
from state_machines.masks.token_sets import Bits, TokenSet, digest_of, united, without
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated
from state_machines.masks.trie_walk import TrieWalk
from state_machines.vocabulary import Vocabulary

_ENDED_PREFIXES = 16
"""Prefixes of names for which the tokens that end the names are stored."""

_MASK_ENDINGS = 4096
"""Names, and lists of names, after one prefix for which they are stored."""

MASK_OVERHEAD = 1500
"""Approximate bytes of a mask and its key beside its ids."""

MAX_KEY_BYTES = 128
"""Length of keys of masks from which on they are digests."""

_SIMPLE_HEADS = frozenset((Branch, EncodedText, Literal, SymbolNode, Union))
"""First nodes that determine the first bytes of a state, if the nodes are not nullable."""

NO_SUFFIXES: frozenset[int] = frozenset()
NO_EXCEPTIONS: tuple[tuple[int, ...], bytes] = (), b""

_MAKER_NUMBERS = count()
"""Makes the keys of several makers different."""


_Ending: TypeAlias = tuple[bytes, int]
"""A spelling and its vertex."""


class _LexemePart(NamedTuple):
    """A lexeme, and the leaving tokens that are allowed.

    Attributes:
        inside: The tokens that stay inside the lexeme or end with it.
        leaving: The tokens that leave it; ``None`` if all of them are exceptions.
        suffixes: Numbers of the suffixes that the continuation accepts.
        excepted_vertices: Vertices of the token trie. Tokens at or below one are exceptions.
        excepted_ids: More exceptions, as the bytes of an array of ids.
    """

    inside: TokenSet
    leaving: TokensBySuffix | None
    suffixes: frozenset[int]
    excepted_vertices: tuple[int, ...]
    excepted_ids: bytes

    def key(self) -> bytes:
        """Return bytes that are equal for equal sets of tokens; no key begins another one."""
        suffixes, ids = _ascending(self.suffixes), self.excepted_ids
        vertices = self.excepted_vertices
        lengths = id(self.leaving), len(suffixes), len(vertices), len(ids)
        return self.inside.digest + array("q", (*lengths, *vertices)).tobytes() + suffixes + ids


class _Parts:
    """The parts of a mask: lexemes, a few ids, arrays of many ids, and sets of ids."""

    __slots__ = ("arrays", "few", "lexemes", "routes", "sets")

    def __init__(self) -> None:
        self.lexemes: list[_LexemePart] = []
        self.few: list[int] = []
        self.arrays: list[Ids] = []
        self.sets: list[TokenSet] = []
        self.routes: list[str] = []

    def key(self, maker: int) -> bytes:
        """Return bytes that are equal for equal sets of tokens of one maker."""
        few = sorted(set(self.few))
        lexemes = [part.key() for part in self.lexemes]
        if len(lexemes) > 1:
            lexemes = sorted(set(lexemes))
        rest: list[bytes] = []
        arrays = 0
        if self.arrays or self.sets:
            rest = sorted({digest_of(ids.tobytes()) for ids in self.arrays})
            arrays = len(rest)
            rest += sorted({each.digest for each in self.sets})
        key = array("i", (maker, len(few), len(lexemes), arrays, *few)).tobytes()
        if lexemes or rest:
            key = b"".join((key, *lexemes, *rest))
        return key if len(key) <= MAX_KEY_BYTES else digest_of(key)


class MaskMaker:
    """Makes the masks of a vocabulary. Safe to use from several threads at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._size = vocabulary.size
        self._number = next(_MAKER_NUMBERS)
        self._forms = vocabulary.token_bytes
        self.trie = TokenTrie(vocabulary)
        self._spelled = SpelledTokens.of(vocabulary)
        self._end_ids = sorted(vocabulary.end_token_ids)
        self._descents = Descents(self.trie)
        self._trie_walk = TrieWalk(self._descents)
        self.quotes = QuoteMasks(self._descents, self._trie_walk.tokens, self._size, self._end_ids)
        self._recursive = RecursiveWalks(self._descents, self._trie_walk.tokens_by_state)
        self._lexemes = Lexemes(self._descents)
        self._known_endings: WeakKeyLruCache[
            Node, dict[tuple[str, ...] | str, tuple[_Ending, ...]]
        ] = WeakKeyLruCache(_ENDED_PREFIXES)
        self._masks: LruCache[bytes, Ids | Bits] = LruCache(LIMITS.mask_bytes)
        """The masks, as :attr:`TokenSet.stored`."""
        self.dense: LruCache[bytes, npt.NDArray[np.bool_]] = LruCache(LIMITS.dense_mask_bytes)
        """The arrays that were returned, by the keys of their masks."""

    def mask(
        self, state: Node, routes: list[str] | None = None
    ) -> tuple[bytes, npt.NDArray[np.bool_]]:
        """Return the key of a state's mask, and the mask: bool, shape (size,), read-only.

        Args:
            state: The state.
            routes: Gets the names of the walks that the mask takes.
        """
        key, parts = self._parts(state, routes)
        dense = self.cached(key)
        if dense is None:
            dense = self.dense.put(key, self._assembled(key, parts).dense(self._size), self._size)
        return key, dense

    @property
    def rows(self) -> int:
        """The number of rows of automata that were computed."""
        return self._descents.rows

    @property
    def vertices(self) -> int:
        """The number of vertices of the vocabulary's trie that were visited."""
        return self._descents.vertices

    def cached(self, key: bytes) -> npt.NDArray[np.bool_] | None:
        """Return the mask of a key that :meth:`mask` returned; ``None`` if it was evicted."""
        dense = self.dense.get(key)
        if dense is None:
            mask = self._masks.get(key)
            if mask is not None:
                tokens = TokenSet.stored_as(mask)
                dense = self.dense.put(key, tokens.dense(self._size), self._size)
        return dense

    def _parts(self, state: Node, routes: list[str] | None = None) -> tuple[bytes, _Parts]:
        """Return the parts of a state's mask, and their key."""
        parts = _Parts()
        if state.nullable:
            parts.few += self._end_ids
        self._collect(state, parts)
        if begins_with_spelling(state):
            parts.arrays.append(self._spelled.ids(state))
        if routes is not None:
            routes += parts.routes
        return parts.key(self._number), parts

    def _tokens(self, state: Node) -> TokenSet:
        """Return the tokens that are allowed in a state."""
        key, parts = self._parts(state)
        mask = self._masks.get(key)
        return self._assembled(key, parts) if mask is None else TokenSet.stored_as(mask)

    def _assembled(self, key: bytes, parts: _Parts) -> TokenSet:
        mask = self._assemble(parts)
        self._masks.put(key, mask.stored, MASK_OVERHEAD + mask.nbytes)
        return mask

    def _assemble(self, parts: _Parts) -> TokenSet:
        sets = parts.sets[:]
        few = [np.array(parts.few, np.int32), *parts.arrays]
        for part in parts.lexemes:
            excepted = concatenated(
                [
                    *(self.trie.tokens_from(vertex) for vertex in part.excepted_vertices),
                    np.frombuffer(part.excepted_ids, np.int32),
                ]
            )
            sets.append(without(part.inside, excepted))
            if part.leaving is not None:
                few.append(_without(part.leaving.tokens_of(part.suffixes), excepted))
        return united(sets, concatenated(few))

    def _collect(self, state: Node, parts: _Parts) -> None:
        if state.rule_book is not None:
            parts.routes.append("rules")
            parts.sets += self._recursive.tokens(state)
            return
        configurations = all_configurations(state)
        if configurations is None:
            parts.routes.append("whole state")
            parts.few += self._trie_walk.tokens_by_state(state)
            return
        for configuration in configurations:
            self._collect_configuration(configuration, parts)

    def _collect_configuration(self, configuration: Configuration, parts: _Parts) -> None:
        head, following = configuration
        kind = type(head)
        is_simple = kind in _SIMPLE_HEADS and (kind is EncodedText or not head.nullable)
        # Tokens that write a long literal are few, whatever it begins with.
        is_long = kind is Literal and head.max_length > MAX_PREFIX_BYTES  # type: ignore[operator]
        if is_long or (is_simple and self._lexemes.begins_few_tokens(head.first_bytes)):
            parts.routes.append("vertices")
            parts.few += self._trie_walk.tokens(head, stack=following)
            return
        excluding = None if is_simple else without_exclusion(configuration)
        if excluding is not None:
            wider, exclusion = excluding
            vertices = tuple(self._trie_walk.excluded_vertices(exclusion))
            parts.lexemes.append(_LexemePart(self._tokens(wider), None, NO_SUFFIXES, vertices, b""))
            return
        if isinstance(head, Lexed):
            parts.routes.append("grammar")
            self._collect_lexed(head, following, parts)
            return
        split = None if is_sparse_quote(head) else split_lexeme(configuration)
        if split is None or self._lexemes.is_sparse(split):
            parts.routes.append("vertices")
            parts.few += self._trie_walk.tokens(head, stack=following)
            return
        parts.routes.append("lexeme")
        # Only remembered words are checked with the whole state.
        state = joined(configuration) if split.remembered else configuration[0]
        walk = self._lexemes.walk(split.prefix, split.lexeme)
        continuation = split.continuation
        leaving, suffixes = None, NO_SUFFIXES
        if continuation is not None:
            leaving = walk.leaving(continuation.first_bytes)
            suffixes = self._accepted_suffixes(state, split, continuation, leaving, parts.few)
        excepted = self._exceptions(state, split, parts.few)
        parts.lexemes.append(_LexemePart(walk.tokens, leaving, suffixes, *excepted))
        if continuation is not None and split.prefix.nullable and split.lexeme.nullable:
            self._collect_after_empty_lexeme(state, split, continuation, parts)

    def _collect_lexed(self, state: Lexed, stack: Stack, parts: _Parts) -> None:
        """Collect the tokens of a grammar over lexemes, and of what follows it."""
        tail = None if stack is None else joined(stack)
        if tail is not None and state.nullable:
            self._collect(tail, parts)
        lexicon = state.lexicon
        walks = self._trie_walk.lexer_walks
        found = walks.tokens(state) if tail is None else None
        if found is not None:
            parts.sets += found
            return
        for node in state.nested_texts:
            self._collect(node if tail is None else concatenation(node, tail), parts)
        for walk, before in walks.walks(state):
            parts.sets.append(walk.live_tokens(before, walks))
            if lexicon.nested:
                self._collect_nested(walk, before, tail, parts)
            if tail is None:
                continue
            for complete in walk.ends(walks):
                if any(after.nullable for after in before.after(complete)):
                    beyond = leaving_ends(walk, walks, complete, tail.first_bytes)
                    parts.arrays.append(beyond.tokens_of(beyond.suffixes.accepted(tail)))

    def _collect_nested(
        self, walk: LexerTokens, before: Lexed, tail: Node | None, parts: _Parts
    ) -> None:
        """Collect the tokens that begin a nested language after a lexeme."""
        for group in walk.groups:
            for after in before.after(group.complete):
                assert isinstance(after, Lexed)
                for node in after.nested_texts:
                    node = node if tail is None else concatenation(node, tail)
                    found = leaving_group(group, self.trie, node.first_bytes)
                    parts.arrays.append(found.tokens_of(found.suffixes.accepted(node)))

    def _collect_after_empty_lexeme(
        self, state: Node, split: LexemeSplit, continuation: Node, parts: _Parts
    ) -> None:
        """Collect the tokens that the continuation allows where the lexeme is empty."""
        if not split.remembered:
            self._collect(continuation, parts)
        elif split.remembered[-1].lexeme is not split.lexeme:
            # The default does not know the word.
            parts.few += self._checked(state, self._tokens(continuation).ids)
        # Else the lexeme is all that is to be remembered, and remembered words are not empty.

    def _accepted_suffixes(
        self,
        state: Node,
        split: LexemeSplit,
        continuation: Node,
        leaving: TokensBySuffix,
        few: list[int],
    ) -> frozenset[int]:
        """Return the numbers of the suffixes that are accepted without regard to remembered words.

        Tokens with context-dependent suffixes are checked; those allowed are added to ``few``.
        """
        accepted = leaving.suffixes.accepted(continuation)
        for word in split.remembered:
            dependent = accepted & leaving.suffixes.context_dependent(word.dispatch, split.distance)
            if dependent:
                few += self._checked(state, leaving.tokens_of(dependent))
                accepted -= dependent
        return accepted

    def _exceptions(
        self, state: Node, split: LexemeSplit, few: list[int]
    ) -> tuple[tuple[int, ...], bytes]:
        """Check the tokens that complete an exception, and add the allowed tokens to ``few``.

        Returns:
            The tokens that were checked: vertices at or below which all tokens are, and the bytes
            of an array of ids.
        """
        if not split.remembered:
            return NO_EXCEPTIONS
        words = None if split.continuation is None else split.remembered[-1].exceptions()
        if words is not None and not words:
            return NO_EXCEPTIONS
        endings = None if words is None else self._endings(split, words)
        if endings is None:
            ends = self._trie_walk.ends(concatenation(split.prefix, split.lexeme))
            checked = concatenated([self.trie.tokens_from(vertex) for vertex in ends])
            few += self._checked(state, checked)
            return (), checked.tobytes()
        for text, vertex in endings:
            node = state.compute_word_derivative(text)
            if node is not EMPTY:
                self.trie.add_tokens_at(vertex, few)
                few += self._trie_walk.tokens(node, vertex)
        return tuple(vertex for _, vertex in endings), b""

    def _endings(self, split: LexemeSplit, words: tuple[str, ...]) -> tuple[_Ending, ...] | None:
        """Return where tokens may complete words of the lexeme, closing quote included.

        ``None`` if the lexeme is no JSON string, or its prefix has too many words.
        """
        lexeme, prefix = split.lexeme, split.prefix
        if lexeme.spelling is not JSON_STRING or lexeme.terminator != b'"':
            return None
        known = self._known_endings.peek(prefix)
        if known is None or len(known) >= _MASK_ENDINGS:
            known = self._known_endings.put(prefix, {})
        # Most states have the words of a state before them.
        found = known.get(words)
        if found is not None:
            return found
        leads: list[bytes] | None = None
        endings_of_all: list[_Ending] = []
        for word in words:
            endings = known.get(word)
            if endings is None:
                leads = leads or texts_of(prefix)
                if leads is None:
                    return None
                endings = known[word] = self._endings_of(word, prefix, leads)
            endings_of_all += endings
        return known.setdefault(words, tuple(endings_of_all))

    def _endings_of(self, word: str, prefix: Node, leads: list[bytes]) -> tuple[_Ending, ...]:
        if not (word.isascii() and word.isprintable()) or '"' in word or "\\" in word:
            string = encoded(word_language([word]), JSON_STRING, b'"')
            ends = self._trie_walk.ends(concatenation(prefix, string))
            return tuple((self.trie.text(vertex), vertex) for vertex in ends)
        # The word has one spelling.
        texts = [lead + word.encode() + b'"' for lead in leads]
        found = [(text, self.trie.vertex(text)) for text in texts]
        return tuple((text, vertex) for text, vertex in found if vertex is not None)

    def _checked(self, state: Node, token_ids: Ids) -> list[int]:
        """Return the tokens after which a state is not empty, by its derivatives."""
        forms = self._forms
        return [
            i
            for i in token_ids.tolist()
            if state.compute_word_derivative(forms[i] or b"") is not EMPTY
        ]


@lru_cache(maxsize=64)
def _ascending(numbers: frozenset[int]) -> bytes:
    """Return the bytes of an array of numbers in ascending order."""
    return array("i", sorted(numbers)).tobytes()


def _without(ids: Ids, excepted: Ids) -> Ids:
    return np.setdiff1d(ids, excepted) if len(excepted) else ids
