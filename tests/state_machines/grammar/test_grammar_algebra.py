"""Laws of the grammar algebra, against a naive definition of the languages."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patched_limits import patch_limits
from schema_strategies import examples

from state_machines.errors import GrammarBudgetError
from state_machines.grammar import boolean
from state_machines.grammar.boolean import (
    SymbolProofs,
    complement,
    difference,
    everything,
    intersection,
)
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node, leading_bytes
from state_machines.grammar.nodes import (
    branch,
    concatenation,
    literal,
    optional,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import ANY_BYTE, byte_set, bytes_in
from state_machines.grammar.word_lists import literals, word_list

# Three letters stand for the alphabet: c is one of all the bytes that are neither a nor b.
A, B = byte_set(b"a"), byte_set(b"b")
SETS = {"a": A, "b": B, "c": ANY_BYTE & ~A & ~B}
WORDS = ["".join(word) for size in range(6) for word in product("abc", repeat=size)]

Expr: TypeAlias = tuple  # type: ignore[type-arg]


def build(expr: Expr) -> Node:
    """Return the node of an expression."""
    kind, *parts = expr
    match kind:
        case "symbols":
            members = 0
            for letter in parts[0]:
                members |= SETS[letter]
            return symbols(members)
        case "words":
            return literals(word.encode() for word in parts[0])
        case "sequence":
            return concatenation(*map(build, parts))
        case "choice":
            return union(map(build, parts))
        case "optional":
            return optional(build(parts[0]))
        case "repetition":
            return repetition(build(parts[0]), parts[1], parts[2])
        case "intersection":
            return intersection(map(build, parts))
        case "complement":
            return complement(build(parts[0]), ANY_BYTE)
        case "difference":
            return difference(build(parts[0]), build(parts[1]), ANY_BYTE)
        case "branch":
            nullable, *targets = parts
            row = [(SETS[letter], build(t)) for letter, t in zip("abc", targets, strict=False)]
            return branch(row, nullable=nullable)
        case "trie":
            return word_list((word.encode(), build(then)) for word, then in parts)
    raise AssertionError(kind)


@lru_cache(maxsize=200_000)
def holds(expr: Expr, word: str) -> bool:
    """Whether the word is in the language, by the definition of each constructor."""
    kind, *parts = expr
    match kind:
        case "symbols":
            return len(word) == 1 and word in parts[0]
        case "words":
            return word in parts[0]
        case "sequence":
            if not parts:
                return word == ""
            rest = ("sequence", *parts[1:])
            return any(holds(parts[0], u) and holds(rest, v) for u, v in cuts(word))
        case "choice":
            return any(holds(part, word) for part in parts)
        case "optional":
            return word == "" or holds(parts[0], word)
        case "repetition":
            return repeats(parts[0], parts[1], parts[2], word)
        case "intersection":
            return all(holds(part, word) for part in parts)
        case "complement":
            return not holds(parts[0], word)
        case "difference":
            return holds(parts[0], word) and not holds(parts[1], word)
        case "branch":
            nullable, *targets = parts
            if not word:
                return bool(nullable)
            index = "abc".index(word[0])
            return index < len(targets) and holds(targets[index], word[1:])
        case "trie":
            return any(
                word.startswith(start) and holds(then, word[len(start) :]) for start, then in parts
            )
    raise AssertionError(kind)


def cuts(word: str) -> list[tuple[str, str]]:
    return [(word[:index], word[index:]) for index in range(len(word) + 1)]


def repeats(body: Expr, least: int, most: int | None, word: str) -> bool:
    """Whether the word is a concatenation of ``min_count`` to ``max_count`` words of ``body``."""
    if most is None:
        most = least + len(word)
    ends = {0}  # where the rounds so far can have ended
    for done in range(most + 1):
        if done >= least and len(word) in ends:
            return True
        ends = {
            stop
            for start in ends
            for stop in range(start, len(word) + 1)
            if holds(body, word[start:stop])
        }
    return False


def expressions(*, booleans: bool = True) -> st.SearchStrategy[Expr]:
    word = st.text("abc", max_size=3)
    leaves = st.one_of(
        st.sets(st.sampled_from("abc")).map(lambda s: ("symbols", "".join(sorted(s)))),
        st.lists(word, max_size=3).map(lambda ws: ("words", tuple(ws))),
    )

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        some = st.lists(inner, min_size=1, max_size=3)
        bounds = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)))
        ways = [
            some.map(lambda es: ("sequence", *es)),
            some.map(lambda es: ("choice", *es)),
            inner.map(lambda e: ("optional", e)),
            st.builds(
                lambda e, b: ("repetition", e, b[0], None if b[1] is None else b[0] + b[1]),
                inner,
                bounds,
            ),
            st.builds(lambda es, n: ("branch", n, *es), some, st.booleans()),
            st.lists(st.tuples(word, inner), max_size=3).map(lambda es: ("trie", *es)),
        ]
        if booleans:
            ways += [
                some.map(lambda es: ("intersection", *es)),
                inner.map(lambda e: ("complement", e)),
                st.builds(lambda e, f: ("difference", e, f), inner, inner),
            ]
        return st.one_of(ways)

    return st.recursive(leaves, extend, max_leaves=6)


def shortest_word(node: Node) -> str | None:
    """Return a shortest word over the letters a, b and c; ``None`` if there is none."""
    queue = deque([(node, "")])
    seen = {node}
    while queue:
        state, word = queue.popleft()
        if state.nullable:
            return word
        for letter in "abc":
            target = state.derivative(ord(letter))
            if target is not EMPTY and target not in seen:
                seen.add(target)
                queue.append((target, word + letter))
    return None


@examples(250)
@given(expressions())
def test_words_and_their_lengths_match_the_definition(expr: Expr) -> None:
    node = build(expr)
    for word in WORDS:
        is_word = holds(expr, word)
        assert node.matches(word.encode()) == is_word, word
        if is_word:
            assert node.min_length <= len(word)
            assert node.max_length is None or len(word) <= node.max_length


@examples(100)
@given(expressions(), expressions(), st.text("abc", min_size=1, max_size=3))
def test_stored_derivative_of_a_head_leaves_out_no_word(head: Expr, tail: Expr, path: str) -> None:
    first, written = build(head), path.encode()
    first.word_derivative(written)
    both = concatenation(first, build(tail))
    after = both.known_word_derivative(written) or both.word_derivative(written)
    for rest in (word for word in WORDS if len(word) <= 2):
        assert after.matches(rest.encode()) == holds(("sequence", head, tail), path + rest)


@examples(100)
@given(expressions(), st.booleans())
def test_nullable_and_empty_are_exact(expr: Expr, symbols_first: bool) -> None:
    node = build(expr)
    assert node.nullable == holds(expr, "")
    word = shortest_word(node)
    with pytest.MonkeyPatch.context() as patch:
        if symbols_first:
            patch.setattr(boolean, "_FEW_STATES", -1)
        assert node.is_empty == (word is None)
    if word is None:
        assert not any(holds(expr, other) for other in WORDS)
    else:
        assert holds(expr, word)


@examples(100)
@given(expressions(), st.text("abc", max_size=5))
def test_transitions_derivatives_and_first_bytes_agree(expr: Expr, path: str) -> None:
    node = build(expr)
    for letter in ["", *path]:
        if letter:
            node = node.derivative(ord(letter))
        covered = 0
        for members, target in node.transitions:
            assert members
            assert not covered & members, "the sets of a row are disjoint"
            covered |= members
            assert not target.is_empty
            for byte in bytes_in(members)[:5]:
                # Both derivatives have the same language, but may be different nodes.
                other = node.derivative(byte)
                for word in WORDS[:40]:
                    assert other.matches(word.encode()) == target.matches(word.encode())
        assert covered == node.first_bytes
        assert leading_bytes(node) == bytes_in(covered)
        for byte in b"abcz\x00\xff":
            assert (node.derivative(byte) is EMPTY) == (not covered >> byte & 1)


@examples(80)
@given(expressions(), expressions(), expressions())
def test_constructors_apply_the_laws_of_the_algebra(x: Expr, y: Expr, z: Expr) -> None:
    a, b, c = build(x), build(y), build(z)
    anything = everything(ANY_BYTE)
    if SymbolProofs().refute((a, b)):
        assert not any(holds(x, word) and holds(y, word) for word in WORDS)
    assert build(x) is a
    assert union([a, b]) is union([b, a, b, EMPTY])
    assert union([a]) is a
    assert union([a, anything]) is anything
    assert concatenation(a, concatenation(b, c)) is concatenation(concatenation(a, b), c)
    assert concatenation(a, EPSILON) is a is concatenation(EPSILON, a)
    assert concatenation(a, EMPTY) is EMPTY is concatenation(EMPTY, a)
    assert intersection([a, b]) is intersection([b, a, b])
    assert intersection([a, anything]) is a
    assert intersection([a, EMPTY]) is EMPTY
    assert complement(complement(a, ANY_BYTE), ANY_BYTE) is a
    assert difference(a, a, ANY_BYTE).is_empty
    assert repetition(a, 0, 0) is EPSILON
    if not a.is_empty:
        assert repetition(a, 1, 1) is a


def test_constructors_without_members_return_constants() -> None:
    assert EMPTY.is_empty
    assert not EPSILON.is_empty
    assert EPSILON.matches(b"")
    assert not EMPTY.matches(b"")
    assert symbols(0) is EMPTY
    assert literal(b"") is EPSILON
    assert literals([]) is EMPTY
    assert union([]) is EMPTY
    assert concatenation() is EPSILON
    assert branch([]) is EMPTY
    assert branch([], nullable=True) is EPSILON
    assert complement(EMPTY, ANY_BYTE) is everything(ANY_BYTE)
    assert complement(everything(ANY_BYTE), ANY_BYTE) is EMPTY


def test_counters_are_not_unrolled() -> None:
    letter = symbols(A)
    node = repetition(letter, 10**6, 10**9)
    assert (node.min_length, node.max_length) == (10**6, 10**9)
    assert node.derivative(ord("a")) is repetition(letter, 10**6 - 1, 10**9 - 1)
    assert intersection([node, repetition(letter, 0, 10**6 - 1)]) is EMPTY
    assert not intersection(
        [repetition(letter, 900, None), repetition(symbols(A | B), 0, 999)]
    ).is_empty
    assert union([repetition(letter, 0, 3), repetition(letter, 4, 9)]) is repetition(letter, 0, 9)


def test_trie_shares_suffixes_and_is_built_without_recursion() -> None:
    node = literals([b"x" * 5000 + b"end", b"y" * 5000 + b"end"])
    assert node.compute_word_derivative(b"x" * 5000) is node.compute_word_derivative(b"y" * 5000)
    assert node.matches(b"y" * 5000 + b"end")
    assert not node.matches(b"y" * 5000)


def test_many_optional_parts_do_not_recurse() -> None:
    parts = [optional(literal(f"{index:04}".encode())) for index in range(2000)]
    node = concatenation(*parts)
    assert node.nullable
    assert node.transitions
    assert node.matches(b"00011999")
    assert not node.matches(b"19990001")


def test_emptiness_search_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_limits(monkeypatch, emptiness_states=20)
    fives = concatenation(literal(b"a"), repetition(literal(b"a" * 5), 0, None))
    elevens = concatenation(literal(b"aa"), repetition(literal(b"a" * 11), 0, None))
    with pytest.raises(GrammarBudgetError) as caught:
        _ = intersection([fives, elevens]).is_empty  # the shortest shared word has 46 letters
    assert caught.value.budget == 20


# Recursion

BALANCED: tuple[str, ...] = ("", "ab", "aabb", "abab", "aaabbb", "aababb", "abaabb", "ababab")


def balanced(key: object) -> Node:
    """Return balanced brackets, a opening and b closing."""

    def make() -> Node:
        return optional(concatenation(literal(b"a"), again, literal(b"b"), again))

    again = reference(key, make, nullable=True)
    return again


def is_balanced(word: str) -> bool:
    depth = 0
    for letter in word:
        depth += 1 if letter == "a" else -1
        if depth < 0:
            return False
    return depth == 0


def test_recursive_references_match_balanced_brackets() -> None:
    node = balanced("brackets")
    for size in range(9):
        for letters in product("ab", repeat=size):
            word = "".join(letters)
            assert node.matches(word.encode()) == is_balanced(word), word
    deep = b"a" * 2000 + b"b" * 2000
    assert node.matches(deep)
    assert not node.matches(deep[:-1])
    assert not node.is_empty


def test_recursion_inside_intersections_is_matched() -> None:
    node = balanced("brackets inside booleans")
    short = intersection([node, repetition(symbols(A | B), 3, 5)])
    found = {word for word in WORDS if short.matches(word.encode())}
    assert found == {word for word in BALANCED if 3 <= len(word) <= 5}
    assert intersection([node, literals([b"aab", b"ba"])]).is_empty
    other = complement(node, ANY_BYTE)
    for word in WORDS:
        assert other.matches(word.encode()) == (
            set(word) > {"a", "b", "c"} or "c" in word or not is_balanced(word)
        )
