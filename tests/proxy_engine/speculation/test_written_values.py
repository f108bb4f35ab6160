"""Complete and open values are read out of an answer that grows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.speculation.written_values import ValueReader, escape, open_value, unescape

ANY_BYTE = (1 << 256) - 1
CONTROL_BYTES = (1 << 32) - 1
IN_STRING = ANY_BYTE & ~CONTROL_BYTES
DIGITS = sum(1 << byte for byte in b"0123456789")

VALUES = st.one_of(st.text(min_size=1), st.integers())


def read(answer: str) -> list[tuple[bytes, bytes]]:
    return [(value.key, value.text) for value in ValueReader().read(answer.encode())]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"a": "x", "b": 12, "c": true}', [(b"a", b"x"), (b"b", b"12")]),
        ('{"a": {"b": "x"}, "c": ["y", "z"]}', [(b"b", b"x"), (b"c", b"y"), (b"c", b"z")]),
        ('{"a": "x 1, 2, 3', []),
        ('{"a": "x"', []),
        (r'{"a": "x \"y\" \u00e9", "b', [(b"a", 'x "y" é'.encode())]),
        ("<parameter=a>\nx\n</parameter>\n<parameter=b>", [(b"a", b"x")]),
        ("<arg_key>a</arg_key>\n<arg_value>x</arg_value>", [(b"a", b"x")]),
        ('[call(a="x", b="y")]', [(b"a", b"x"), (b"b", b"y")]),
    ],
)
def test_complete_values_have_the_key_before_them(
    answer: str, expected: list[tuple[bytes, bytes]]
) -> None:
    assert read(answer) == expected


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 7))
def test_reading_in_pieces_is_reading_at_once(values: list[str | int], size: int) -> None:
    answer = json.dumps({f"k{n}": value for n, value in enumerate(values)})
    reader, found = ValueReader(), []
    for end in range(0, len(answer) + size, size):
        found += [(one.key, one.text) for one in reader.read(answer[:end].encode())]
    assert found == read(answer)


@pytest.mark.parametrize(
    ("answer", "first", "kind", "key", "text"),
    [
        ('{"a": "x', IN_STRING, "string", b"a", b"x"),
        (r'{"a": "x \"y', IN_STRING, "string", b"a", b'x "y'),
        ('{"a": "', IN_STRING, "string", b"a", b""),
        ('{"a": "20', DIGITS, "string", b"a", b"20"),
        ('{"a": 12', DIGITS, "number", b"a", b"12"),
        ('{"a": ', DIGITS, "number", b"a", b""),
        ('{"a": ', 1 << ord('"') | 1 << ord("n"), "other", b"a", b""),
        ("<parameter=a>\nx y", ANY_BYTE, "raw", b"", b"x y"),
        ('{a:<|"|>x', ANY_BYTE, "raw", b"a", b"x"),
    ],
)
def test_open_value_is_read_by_what_may_follow(
    answer: str, first: int, kind: str, key: bytes, text: bytes
) -> None:
    value = open_value(answer.encode(), first, b"")
    assert value is not None
    assert (value.kind, value.key, value.text) == (kind, key, text)


@pytest.mark.parametrize("answer", ['{"a": "x', r'{"a": "\u00', '{"a": "x\\'])
def test_value_within_an_escape_is_not_read(answer: str) -> None:
    assert (open_value(answer.encode(), IN_STRING, b"") is None) == (not answer.endswith("x"))
    assert open_value(answer.encode() + b'", "b": "y"', 1 << ord("}"), b"") is None


@given(st.text())
def test_escaped_text_is_read_back(text: str) -> None:
    assert unescape(escape(text.encode())) == text.encode()
