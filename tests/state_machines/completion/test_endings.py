"""Texts cut into the fewest tokens, against all ways to cut them."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples
from small_vocabulary import small_vocabulary

from state_machines import Vocabulary
from state_machines.budgets import step_budget
from state_machines.completion.endings import NOTHING, Ending, joined
from state_machines.completion.segmenter import UNWRITABLE, Segmenter
from state_machines.masks.token_trie import TokenTrie

VOCABULARY = small_vocabulary()
SEGMENTER = Segmenter(TokenTrie(VOCABULARY))
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([form for form in VOCABULARY.token_bytes[256:] if form]),
        st.binary(min_size=0, max_size=3),
        st.just(b""),
    ),
    max_size=8,
)


@given(TEXTS)
@examples(300)
def test_segmentation_has_the_fewest_tokens(parts: list[bytes]) -> None:
    # The mark of special tokens is no text, nor are end tokens.
    special = (b"\xff<s>", b"\xff<tool>")
    parts = [part if part in special else part.replace(b"\xff", b"<") for part in parts]
    ending = NOTHING
    for part in reversed(parts):
        ending = Ending(part, ending, 0)
    text = b"".join(parts)
    tokens = list(SEGMENTER.tokens(ending))
    assert ending.flat == text
    assert VOCABULARY.decode(tokens) == text
    assert SEGMENTER.fewest(ending) == len(tokens) == fewest(text)


@given(TEXTS)
@examples(50)
def test_segmentation_does_not_depend_on_the_rope(parts: list[bytes]) -> None:
    ending = NOTHING
    for part in reversed(parts):
        ending = Ending(part, ending, 0)
    whole = Ending(b"".join(parts), NOTHING, 0)
    assert SEGMENTER.fewest(ending) == SEGMENTER.fewest(whole)


@st.composite
def ropes(draw: st.DrawFn) -> Ending:
    """Draw a rope whose parts occur several times."""
    pieces = [form for form in VOCABULARY.token_bytes[:256] if form and form != b"\xff"]
    found = [SEGMENTER.leaf(b"".join(draw(st.lists(st.sampled_from(pieces), max_size=5))))]
    found.append(SEGMENTER.leaf(draw(st.sampled_from([b'{"a":', b"], [", b"null, true", b"abab"]))))
    for _ in range(draw(st.integers(1, 8))):
        head, tail = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        if head.size + tail.size < 2000:
            found.append(joined(head, tail))
    return found[-1]


@given(ropes())
@examples(300)
def test_rope_is_segmented_as_its_flat_text(rope: Ending) -> None:
    text = rope.flat
    flat = Ending(text, NOTHING, 0)
    tokens = list(SEGMENTER.tokens(rope))
    assert rope.size == len(text) == len(flat.flat)
    assert VOCABULARY.decode(tokens) == text
    assert len(tokens) == SEGMENTER.fewest(rope) == SEGMENTER.fewest(flat)
    assert rope.first == text[:1]


@given(st.sampled_from([b"a", b"ab", b"a" * 200, b'{"a":[', b"ab" * 400]), st.integers(1, 3000))
@examples(60)
def test_repeated_text_is_segmented_as_its_flat_text(unit: bytes, times: int) -> None:
    times = min(times, 6000 // len(unit))
    rope = SEGMENTER.repeated(SEGMENTER.leaf(unit), times)
    assert rope.flat == unit * times
    assert SEGMENTER.fewest(rope) == SEGMENTER.fewest(Ending(unit * times, NOTHING, 0))
    assert VOCABULARY.decode(list(SEGMENTER.tokens(rope))) == unit * times


def test_tokens_of_an_astronomic_text_are_counted() -> None:
    bytewise = Segmenter(TokenTrie(Vocabulary([b"a", b"b", b"e"], end_token_ids=[2])))
    rope = bytewise.leaf(b"ab")
    for _ in range(40):
        rope = joined(rope, rope)
    with step_budget(5000):
        assert bytewise.fewest(rope) == 2**41
        for _ in range(200):
            rope = joined(rope, rope)
        assert UNWRITABLE > bytewise.fewest(rope) > 2**41
    with step_budget(5000):
        assert bytewise.fewest(bytewise.repeated(bytewise.leaf(b"a"), 10**9)) == 10**9


def test_unwritable_text_has_no_segmentation() -> None:
    segmenter = Segmenter(TokenTrie(Vocabulary([b"ab", b"b", b"e"], end_token_ids=[2])))
    assert segmenter.fewest(Ending(b"abb", NOTHING, 0)) == 2
    assert segmenter.fewest(Ending(b"aab", NOTHING, 0)) >= UNWRITABLE
    assert segmenter.fewest(Ending(b"ba", Ending(b"b", NOTHING, 0), 0)) == 2


@cache
def fewest(text: bytes) -> int:
    if not text:
        return 0
    ends = VOCABULARY.end_token_ids
    return min(
        1 + fewest(text[len(form) :])
        for token_id, form in enumerate(VOCABULARY.token_bytes)
        if form and token_id not in ends and text.startswith(form)
    )
