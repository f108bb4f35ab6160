"""Texts cut into the fewest tokens, against all ways to cut them."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples
from small_vocabulary import small_vocabulary

from state_machines import Vocabulary
from state_machines.completion.cutter import UNWRITABLE, Cutter
from state_machines.completion.endings import NOTHING, Ending
from state_machines.masks.token_trie import TokenTrie

VOCABULARY = small_vocabulary()
CUTTER = Cutter(TokenTrie(VOCABULARY))
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
def test_no_way_to_cut_a_text_has_fewer_tokens(parts: list[bytes]) -> None:
    # The mark of special tokens is no text, nor are end tokens.
    special = (b"\xff<s>", b"\xff<tool>")
    parts = [part if part in special else part.replace(b"\xff", b"<") for part in parts]
    ending = NOTHING
    for part in reversed(parts):
        ending = Ending(part, ending, 0)
    text = b"".join(parts)
    tokens = list(CUTTER.tokens(ending))
    assert ending.flat == text
    assert VOCABULARY.decode(tokens) == text
    assert CUTTER.fewest(ending) == len(tokens) == fewest(text)


@given(TEXTS)
@examples(50)
def test_how_a_text_is_put_together_does_not_matter(parts: list[bytes]) -> None:
    ending = NOTHING
    for part in reversed(parts):
        ending = Ending(part, ending, 0)
    whole = Ending(b"".join(parts), NOTHING, 0)
    assert CUTTER.fewest(ending) == CUTTER.fewest(whole)


def test_a_text_that_cannot_be_written() -> None:
    cutter = Cutter(TokenTrie(Vocabulary([b"ab", b"b", b"e"], end_token_ids=[2])))
    assert cutter.fewest(Ending(b"abb", NOTHING, 0)) == 2
    assert cutter.fewest(Ending(b"aab", NOTHING, 0)) >= UNWRITABLE
    assert cutter.fewest(Ending(b"ba", Ending(b"b", NOTHING, 0), 0)) == 2


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
