"""Texts cut into the fewest tokens, against all ways to cut them."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patched_limits import patch_limits
from schema_strategies import examples
from small_vocabulary import small_vocabulary

from state_machines.completion.texts import NOTHING, CompletionText, Segmenter, joined
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
    content = b"".join(parts)
    text = NOTHING
    for part in reversed(parts):
        text = CompletionText(part, text, 0)
    tokens = list(SEGMENTER.tokens(text))
    assert text.flat == content
    assert VOCABULARY.decode(tokens) == content
    assert SEGMENTER.fewest(text) == len(tokens) == fewest(content)


@st.composite
def texts(draw: st.DrawFn) -> CompletionText:
    """Draw a text whose parts occur several times."""
    pieces = [form for form in VOCABULARY.token_bytes[:256] if form and form != b"\xff"]
    found = [SEGMENTER.text(b"".join(draw(st.lists(st.sampled_from(pieces), max_size=5))))]
    found.append(SEGMENTER.text(draw(st.sampled_from([b'{"a":', b"], [", b"null, true", b"abab"]))))
    for _ in range(draw(st.integers(1, 8))):
        head, tail = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        times = draw(st.integers(0, 90))
        if times * head.size + tail.size < 3000:
            repeated = SEGMENTER.repeated(head, times)
            assert repeated is not None
            whole = joined(repeated, tail)
            assert whole.flat == head.flat * times + tail.flat
            found.append(whole)
    return found[-1]


@given(texts())
@examples(300)
def test_pieces_are_segmented_as_the_whole_text(text: CompletionText) -> None:
    content = text.flat
    whole = CompletionText(content, NOTHING, 0)
    tokens = list(SEGMENTER.tokens(text))
    assert text.size == len(content)
    assert VOCABULARY.decode(tokens) == content
    assert len(tokens) == SEGMENTER.fewest(text) == SEGMENTER.fewest(whole)


def test_text_that_is_too_long_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = SEGMENTER.text(b"abc, ")
    patch_limits(monkeypatch, completion_bytes=5000)
    assert SEGMENTER.repeated(unit, 1000) is not None
    assert SEGMENTER.repeated(unit, 1001) is None


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
