"""Texts no line of which begins with a heading, against enumerations of their words."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples
from small_vocabulary import walk_masks

from state_machines import Matcher, Vocabulary
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.line_starts import ending_with_line, without_headings
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.text_languages import word_language
from state_machines.grammar.until import text_until, text_without

LONGEST = 6
LETTERS = "ab\n"
words = st.sets(
    st.text(LETTERS, min_size=1, max_size=4).filter(lambda word: word[0] != "\n"),
    min_size=1,
    max_size=3,
)
strings = st.text(LETTERS, min_size=1, max_size=3)
bounds = st.tuples(st.integers(0, 2), st.none() | st.integers(0, 3)).map(
    lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
)


def line_of(text: str, headings: set[str]) -> str | None:
    """Return the beginning of a heading that a text ends with, and ``None`` if it is no heading's.

    Raises ``ValueError`` if the text has a heading.
    """
    line: str | None = ""
    for letter in text:
        if line is not None:
            line += letter
            if line in headings:
                raise ValueError
            if not any(word.startswith(line) for word in headings):
                line = None
        if line is None and letter == "\n":
            line = ""
    return line


def has_no_heading(text: str, headings: set[str]) -> bool:
    try:
        line_of(text, headings)
    except ValueError:
        return False
    return True


def language(node: Node) -> set[str]:
    """Return the words of up to ``LONGEST`` bytes."""
    found = set()
    layer = [("", node)]
    for _ in range(LONGEST + 1):
        found |= {word for word, state in layer if state.nullable}
        layer = [
            (word + letter, target)
            for word, state in layer
            for letter in LETTERS
            if (target := state.derivative(ord(letter))) is not EMPTY
        ]
    return found


@examples(60)
@given(words, st.sets(strings, max_size=2), bounds)
def test_text_has_no_heading(
    headings: set[str], without: set[str], bound: tuple[int, int | None]
) -> None:
    text = text_without(without, *bound)
    node = encoded(without_headings(text, word_language(headings)), RAW)
    expected = {each for each in language(encoded(text, RAW)) if has_no_heading(each, headings)}
    assert language(node) == expected
    assert language(ending_with_line(node)) == {
        each for each in expected if line_of(each, headings) == ""
    }


@examples(60)
@given(words, strings, st.sets(strings, max_size=2))
def test_string_ends_a_text_before_a_heading_is_complete(
    headings: set[str], wanted: str, others: set[str]
) -> None:
    until = text_until(wanted, others)
    node = encoded(without_headings(until, word_language(headings)), RAW)
    expected = {each for each in language(encoded(until, RAW)) if has_no_heading(each, headings)}
    assert language(node) == expected


@examples(60)
@given(words, st.sets(strings, max_size=2), bounds, st.text(LETTERS, max_size=5))
def test_no_state_is_a_dead_end(
    headings: set[str], without: set[str], bound: tuple[int, int | None], text: str
) -> None:
    whole = encoded(without_headings(text_without(without, *bound), word_language(headings)), RAW)
    for node in (whole, ending_with_line(whole)):
        for letter in text:
            node = node.derivative(ord(letter))
            assert node is EMPTY or has_word(node)


def has_word(node: Node) -> bool:
    layer = [node]
    for _ in range(LONGEST + 4):
        if any(state.nullable for state in layer):
            return True
        following = [state.derivative(ord(letter)) for state in layer for letter in "ab\nx"]
        layer = list(dict.fromkeys(state for state in following if state is not EMPTY))
    return False


FORMS = [
    *(bytes([byte]) for byte in range(256)),
    *(b"ab", b"a\n", b"\nab", b"\na", b"\n\n", b"b\nab\n", b"aba", b"x\nba", b"ab\nab", b"\n\nb"),
    *(b"\nabx", b"bx\nb", b"\nbax", b"abx", b"bax", b"aab", "é\n".encode(), b"\xa9\na", b"\xc3"),
    b"<end>",
]
VOCABULARY = Vocabulary(FORMS, end_token_ids=[len(FORMS) - 1])


@examples(60)
@given(words, st.none() | strings, st.sets(strings, max_size=2), st.integers(0, 2**32))
def test_masks_equal_brute_force(
    headings: set[str], wanted: str | None, without: set[str], seed: int
) -> None:
    language = word_language(headings)
    free = encoded(without_headings(text_without({*without, "<"}), language), RAW)
    states = [free, concatenation(ending_with_line(free), literal(b"aba<>"))]
    if wanted is not None:
        until = encoded(without_headings(text_until(wanted, {*without, "<"}), language), RAW)
        states.append(concatenation(until, literal(b"ab<>")))
    letters = set(b"ab\n")
    walk_masks(
        Matcher(union(states), VOCABULARY),
        VOCABULARY,
        Random(seed),
        10,
        preferred=lambda form: set(form) <= letters,
    )
