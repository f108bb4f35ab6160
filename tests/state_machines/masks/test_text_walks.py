"""Walks over the characters of tokens agree with derivatives by the tokens' bytes."""

from __future__ import annotations

import json
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from state_machines import JsonSchemaStateMachine, Vocabulary
from state_machines.grammar.boolean import everything, intersection
from state_machines.grammar.encoding import JSON_STRING, EncodedText, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal, repetition, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.text_languages import without_words
from state_machines.masks.descent import Descents
from state_machines.masks.lexemes import Lexemes
from state_machines.masks.token_trie import TokenTrie
from state_machines.regex import compile_pattern


def vocabulary(seed: int) -> Vocabulary:
    """Return all bytes, and tokens cut out of encoded strings."""
    random = Random(seed)
    forms = {bytes((byte,)) for byte in range(256)}
    letters = 'abcxyz012 -_.é€😀\n"\\\x01'
    for _ in range(1500):
        text = "".join(random.choices(letters, k=random.randint(1, 8)))
        written = json.dumps(text, ensure_ascii=random.random() < 0.4).encode()
        written += random.choice([b"", b",", b', "', b"}", b": ", b"]}"])
        start = random.randrange(len(written))
        forms.add(written[start : start + random.randint(1, 9)])
    for run in (b"a", b"-", b"ab", b'a"'):
        forms.update((run * 80)[:length] for length in (31, 32, 33, 34, 40, 64))
        forms.update((run[:1] * length + b'",') for length in (4, 30, 31, 32, 40))
    return Vocabulary([*sorted(forms), b"\xffend"], end_token_ids=[len(forms)])


VOCABULARY = vocabulary(3)
TRIE = TokenTrie(VOCABULARY)
LEXEMES = Lexemes(Descents(TRIE))
ANY = symbols(ANY_CODE_POINT)

PATTERNS = (
    *("^a*$", "^[a-c]{2,5}$", "é", "^(ab|x.)+$", r"^\d+-\d+$", "[^a]$", r"^\S+( \S+){0,3}$"),
    *("^(..)*$|^x(..)*$", "ab1|^a$", r"^(\S+\s+){0,9}\S+$", "^(a|bc){1,7}[^x]*$"),
)
PATTERN_TEXTS = st.sampled_from(PATTERNS).map(lambda p: compile_pattern(p, search=True))
FAR_COUNTS = (
    *(
        "^[-a]{0,62}$",
        "^[ab]{0,33}x$",
        "^a{33,64}$",
        "^(a|bc){0,36}b$",
        r"^[-ab]{1,40}(\.a{1,33})*$",
    ),
    *("^(-{0,34}a){2,3}$", "^a{0,36}b{0,36}$", "^([-a]{0,33}x)?[-b]{0,90}$", "^.{0,34}é|b{0,50}$"),
)
PATTERN_WORDS = compile_pattern(r"^\S+(\s\S+){0,9}$", search=False)
GAPS = compile_pattern("^(..)*$|^x(..)*$", search=False)
"""Has no words of three characters that begin with another letter."""
NAMES = st.lists(st.sampled_from(("a", "ab", "é", "", 'x"', "b\n", "😀a")), max_size=4)


@st.composite
def texts(draw: st.DrawFn) -> Node:
    parts = [draw(st.one_of(PATTERN_TEXTS, st.just(everything(ANY_CODE_POINT))))]
    if draw(st.booleans()):
        least = draw(st.integers(0, 4))
        parts.append(repetition(ANY, least, draw(st.sampled_from((None, least, least + 3, 40)))))
    if draw(st.booleans()):
        parts = [without_words(part, draw(NAMES)) for part in parts[:1]] + parts[1:]
    node = intersection(parts)
    for character in draw(st.text("ab1é", max_size=2)):
        node = next((t for s, t in node.transitions if ord(character) in s), node)
    return node


RESTS = st.sampled_from((EPSILON, literal(b"}"), literal(b', "a": 1}'), literal(b": ")))


def brute_force(state: Node) -> set[int]:
    return {
        token_id
        for token_id, form in enumerate(VOCABULARY.token_bytes)
        if form is not None
        and token_id not in VOCABULARY.end_token_ids
        and state.compute_word_derivative(form) is not EMPTY
    }


def check_walk(text: Node, rest: Node, lead: bytes) -> None:
    """Check that the walk of a string with a text agrees with derivatives."""
    string = encoded(text, JSON_STRING, b'"')
    assert isinstance(string, EncodedText)
    walk = LEXEMES.walk(literal(lead), string)
    found = set(walk.tokens.ids.tolist())
    leaving = walk.leaving(rest.first_bytes)
    numbers = leaving.suffixes.accepted(rest)
    texts = [leaving.suffixes.texts[number] for number in numbers]
    assert all(rest.compute_word_derivative(text) is not EMPTY for text in texts)
    found.update(leaving.tokens_of(numbers).tolist())
    assert found == brute_force(concatenation(literal(lead), string, rest))


@example(intersection((PATTERN_WORDS, repetition(ANY, 0, 2))), EPSILON, b"")
@example(intersection((PATTERN_WORDS, repetition(ANY, 2, 5))), literal(b"}"), b"")
@example(repetition(ANY, 1, 2), literal(b"}"), b"")
@example(intersection((GAPS, repetition(ANY, 3, 3))), literal(b"}"), b"")
@settings(max_examples=90)
@given(texts(), RESTS, st.sampled_from((b"", b'"', b' "', b', "')))
def test_walks_of_strings_equal_brute_force(text: Node, rest: Node, lead: bytes) -> None:
    if text.is_empty:
        return
    check_walk(text, rest, lead)


@settings(max_examples=40)
@given(
    st.sampled_from(FAR_COUNTS),
    st.sampled_from((0, 1, 2, 7, 29)),
    st.sampled_from("a-b"),
    st.sampled_from((None, 35, 50)),
    st.sampled_from((b"", b' "')),
)
def test_walks_of_strings_with_counts_beyond_most_tokens_equal_brute_force(
    pattern: str, written: int, character: str, most: int | None, lead: bytes
) -> None:
    text = compile_pattern(pattern, search=True)
    if most is not None:
        text = intersection((text, repetition(ANY, 0, most)))
    for _ in range(written):
        after = text.character_derivative(ord(character))
        text = text if after.is_empty else after
    check_walk(text, literal(b"}"), lead)


def test_states_that_differ_in_a_count_beyond_most_tokens_share_a_walk() -> None:
    schema = {"type": "string", "pattern": "^[^x]{0,62}[ab]$"}
    matcher = JsonSchemaStateMachine(schema).matcher(VOCABULARY)
    rows = []
    for byte in b'"aaa':
        matcher.advance(VOCABULARY.token_bytes.index(bytes((byte,))))
        matcher.allowed_tokens()
        cost = matcher.mask_cost()
        assert cost is not None
        rows.append(cost.rows)
    assert rows[0] > 0
    assert rows[1:] == [0, 0, 0]
