"""Tokens to text, one at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.decoding import TokenDecoder
from state_machines import Vocabulary

END = 256
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(255)), None, b"</s>"], end_token_ids=[END]
)


@given(st.text())
def test_text_comes_back_whole_however_its_characters_are_cut(text: str) -> None:
    decoder = TokenDecoder(VOCABULARY)
    pieces = [decoder.add(byte) for byte in text.encode()]
    assert "".join(pieces) + decoder.finish() == text


def test_special_and_unused_tokens_have_no_text() -> None:
    decoder = TokenDecoder(VOCABULARY)
    assert [decoder.add(token) for token in (97, END, 255, 98)] == ["a", "", "", "b"]


def test_a_character_that_is_never_completed_is_replaced() -> None:
    decoder = TokenDecoder(VOCABULARY)
    assert decoder.add("é".encode()[0]) == ""
    assert decoder.finish() == "\ufffd"
