"""Byte spellings of text, raw and inside JSON strings."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.encoding import JSON_STRING, RAW, encode_set, encoded
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, repetition, symbols
from state_machines.grammar.symbols import (
    ANY_CODE_POINT,
    MAX_CODE_POINT,
    CodePointSet,
    bytes_in,
    code_points,
)
from state_machines.grammar.word_lists import literals

BORDERS = [
    *range(0x24),
    *(ord(c) for c in '"/\\abfnrtu0AF'),
    *(0x5B, 0x5D, 0x7E, 0x7F, 0x80, 0xBF, 0xC0, 0xFF, 0x100, 0x7FF, 0x800, 0xFFF, 0x1000),
    *(0x2028, 0x2029, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xEFFF, 0xFEFF, 0xFFFE, 0xFFFF, 0x10000),
    *(0x103FF, 0x10400, 0x1F600, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FBFF, 0x10FC00),
    MAX_CODE_POINT,
]
ANY_TEXT = everything(ANY_CODE_POINT)
texts = st.text(
    st.one_of(st.sampled_from([chr(p) for p in BORDERS]), st.characters(exclude_categories=["Cs"])),
    max_size=6,
)


def word(text: str) -> Node:
    """Return the language of one text."""
    return literals([text])


def spellings(node: Node, written: bytes = b"") -> Iterator[bytes]:
    """Yield all words of a finite language of bytes."""
    if node.nullable:
        yield written
    for members, target in node.transitions:
        for byte in bytes_in(members):
            yield from spellings(target, written + bytes([byte]))


def inside(text: str, *, ascii_only: bool) -> bytes:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode()


@pytest.mark.parametrize("point", BORDERS)
def test_every_spelling_of_a_character_decodes_to_it(point: int) -> None:
    character = chr(point)
    assert list(spellings(encode_set(code_points(point), RAW))) == [character.encode()]
    written = list(spellings(encode_set(code_points(point), JSON_STRING)))
    assert len(written) == len(set(written))
    for form in written:
        assert json.loads(b'"' + form + b'"') == character
    assert inside(character, ascii_only=True) in written
    # json.dumps leaves DEL raw in both ways, as it does the rest of printable ASCII.
    assert inside(character, ascii_only=False) in written
    if 0x20 <= point < 0x7F:
        assert len(written) == 1


@given(texts)
def test_output_of_json_dumps_is_accepted(text: str) -> None:
    assert encoded(ANY_TEXT, RAW).matches(text.encode())
    for node in (ANY_TEXT, word(text)):
        closed = encoded(node, JSON_STRING, b'"')
        for ascii_only in (True, False):
            form = inside(text, ascii_only=ascii_only)
            assert encoded(node, JSON_STRING).matches(form)
            assert closed.matches(form + b'"')
            assert not closed.matches(form)


@settings(max_examples=100)
@given(texts, texts)
def test_other_texts_are_refused(text: str, other: str) -> None:
    assert encoded(word(text), RAW).matches(other.encode()) == (text == other)
    node = encoded(word(text), JSON_STRING)
    assert node.matches(inside(other, ascii_only=True)) == (text == other)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([RAW, JSON_STRING]))
def test_random_walks_spell_words(data: st.DataObject, spelling: object) -> None:
    """Any bytes that the node allows decode to a word of the language."""
    allowed = CodePointSet((p, p + 1) for p in BORDERS if p not in (0xD7FF, MAX_CODE_POINT))
    node = encoded(repetition(symbols(allowed), 0, 4), spelling)  # type: ignore[arg-type]
    written = bytearray()
    while node.transitions:
        if node.nullable and data.draw(st.booleans()):
            break
        members, _ = data.draw(st.sampled_from(node.transitions))
        byte = data.draw(st.sampled_from(bytes_in(members)))
        written.append(byte)
        node = node.derivative(byte)
    assert node.nullable
    text = written.decode() if spelling is RAW else json.loads(b'"' + written + b'"')
    assert len(text) <= 4
    assert all(ord(character) in allowed for character in text)


@given(st.binary(max_size=5))
def test_raw_spelling_accepts_exactly_utf8(text: bytes) -> None:
    try:
        text.decode("utf-8", errors="strict")
        valid = True
    except UnicodeDecodeError:
        valid = False
    assert encoded(ANY_TEXT, RAW).matches(text) == valid


def test_terminator_ends_the_text() -> None:
    node = encoded(repetition(symbols(code_points("a")), 0, None), JSON_STRING, b'"')
    assert node.matches(b'aa"')
    assert not node.nullable
    assert node.compute_word_derivative(b'a"') is EPSILON
    assert encoded(EPSILON, JSON_STRING, b'"').matches(b'"')


def test_encoding_of_the_empty_language_is_empty() -> None:
    a = symbols(code_points("a"))
    none = intersection([concatenation(a, a), complement(repetition(a, 2, 2), ANY_CODE_POINT)])
    assert encoded(none, RAW) is EMPTY
    assert encoded(EMPTY, JSON_STRING, b'"') is EMPTY


def test_equal_encodings_are_one_node() -> None:
    assert encoded(word("ab"), RAW) is encoded(word("ab"), RAW)
    node = encoded(repetition(symbols(ANY_CODE_POINT), 0, None), JSON_STRING, b'"')
    assert (
        node.compute_word_derivative(b"abc")
        is node.compute_word_derivative("é😀".encode())
        is node.compute_word_derivative(b"\\n")
    )
