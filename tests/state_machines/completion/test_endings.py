"""Texts cut into the fewest tokens, against all ways to cut them."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples
from small_vocabulary import small_vocabulary

from state_machines.completion.endings import NOTHING, Ending, joined
from state_machines.completion.segmenter import Segmenter
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
