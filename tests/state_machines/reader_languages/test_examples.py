"""Texts that are in the languages, and texts that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_machines.errors import InvalidSchemaError
from state_machines.grammar.text_languages import contains_word, list_words
from state_machines.reader_languages import LANGUAGES, reader_language

TABLE: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (
        {"language": "date"},
        ["2024-02-29", "0001-01-01", "9999-12-31"],
        ["2023-02-29", "0000-01-01", "2024-1-1", "2024-01-01T00:00:00", "20240101", "1704067200"],
    ),
    (
        {"language": "date", "ge": "2024-01-31", "lt": "2024-03-01"},
        ["2024-01-31", "2024-02-29"],
        ["2024-01-30", "2024-03-01", "2023-12-31", "2025-02-01"],
    ),
    (
        {"language": "datetime"},
        [
            *("2024-01-01T10:00:00", "2024-01-01T10:00:00Z", "2024-01-01t10:00:00z"),
            *("2024-01-01 10:00", "2024-01-01T10:00+02:00", "2024-01-01T10:00:00.123456789"),
            *("2024-01-01T10:00:00-0530", "2024-01-01"),
        ],
        [
            *("2024-01-01T23:59:60Z", "2024-01-01T24:00:00", "2024-01-01T10:00:00+24:00"),
            *("2024-01-01T10:00:00.", "2024-01-01T10:00:00 Z", "2024-01-01Z"),
        ],
    ),
    (
        {"language": "datetime", "reader": "msgspec"},
        ["2024-01-01T10:00:00", "2024-01-01 10:00:00.123456Z"],
        ["2024-01-01T10:00", "2024-01-01", "9999-12-31T23:59:59.9999999"],
    ),
    (
        {"language": "datetime", "ge": "2024-01-01T10:30:00Z"},
        [
            *("2024-01-01T10:30", "2024-01-01T10:30Z", "2024-01-01T10:30:00.0Z", "2024-01-02"),
            *("2024-01-02T10:29:00+23:59", "2024-01-01T10:30-01:00"),
        ],
        ["2024-01-01T10:29:59.999999Z", "2024-01-01T11:00+01:00", "2024-01-01", "2023-12-31"],
    ),
    (
        {"language": "datetime", "le": "2024-01-01T00:00:00.500"},
        ["2024-01-01T00:00:00.5", "2024-01-01T00:00:00.500000", "2024-01-01", "2024-01-01T00:00"],
        ["2024-01-01T00:00:00.500001", "2024-01-01T00:00:01", "2024-01-02"],
    ),
    ({"language": "time", "tz": "aware"}, ["10:00Z", "10:00:00.5+01:00"], ["10:00", "10:00:60Z", "24:00Z"]),
    (
        {"language": "duration"},
        ["P1D", "PT1H30M", "P1Y2M3DT4H5M6S", "-PT1.5S", "+P1W", "PT0S", "P999999999D", "PT1.5H"],
        ["P", "PT", "P1DT", "P1000000000D", "1 day, 2:00:00", "PT1D", "p1d"],
    ),
    ({"language": "duration", "gt": 0}, ["PT1S", "P1Y2M3DT4H5M6S", "PT0.000001S"], ["PT0S", "P0D", "-PT1S"]),
    (
        {"language": "duration", "ge": 60, "le": 3600},
        ["PT1M", "PT60S", "PT1H", "PT60M", "PT59M59.5S", "PT0H5M"],
        ["PT59S", "PT1H1S", "P1D", "PT61M"],
    ),
    (
        {"language": "int", "ge": -5, "multiple_of": 5},
        ["-5", "0", "5", "1000000"],
        ["-10", "-0", "05", "+5", "5.0", " 5", "7"],
    ),
    ({"language": "int"}, ["9" * 308], ["9" * 309, "1e5"]),
    (
        {"language": "float", "lt": 0.1},
        ["0.0", "-1.5", "0.09", "-100000.0"],
        ["0.1", "0.10", "-0.0", "1", "0.09999999999999999999", "1e-5"],
    ),
    (
        {"language": "decimal", "max_digits": 4, "decimal_places": 2},
        ["0", "12.34", "12.30", "-99.99", "0.5"],
        ["123", "1.234", "012", "1e1", "NaN"],
    ),
    ({"language": "decimal", "multiple_of": "0.05"}, ["0.05", "1", "2.10"], ["0.07", "0.051"]),
    ({"language": "decimal", "canonical": True}, ["1.5", "0"], ["1.50", "-0", "0.0000001"]),
    (
        {"language": "text", "strip": True, "min_length": 2, "pattern": "^[a-z]+$"},
        ["ab", " \u00a0ab\n"],
        ["a ", "  ", "a b", ""],
    ),
    ({"language": "text", "strip": True, "canonical": True}, ["", "a b", "\x1fa"], [" a", "a\u3000"]),
    (
        {"language": "text", "pattern": "(?x) ^ [[:alpha:]] \\d $ # a digit", "dialect": "rust"},
        ["a1", "Z٣"],
        ["1a", "a1 ", ":1"],
    ),
    (
        {"language": "text", "pattern": "^[a-z] $ # end", "dialect": "python", "flags": "xi"},
        ["a", "Z", "a\n"],
        ["a ", "1"],
    ),
    (
        {
            "language": "text",
            "pattern": "a | b # one",
            "dialect": "python",
            "flags": "x",
            "max_length": 2,
        },
        ["a", "bx", "xa"],
        ["abc", "x"],
    ),
    ({"language": "bytes", "max_length": 2}, ["ab", "é", ""], ["abc", "éa", "€"]),
    ({"language": "bytes", "encoding": "base64"}, ["YQ==", "YQ", "+/+/", "-_-_", ""], ["YR==", "a", "+_+/", "YQ==\n"]),
    ({"language": "bytes", "encoding": "hex"}, ["6a", "6A", ""], ["6", "0x", "6g"]),
    ({"language": "base64", "is_text": True}, ["YQ==", "w6k=", "8J+YgA==", ""], ["/w==", "A===", "wAA=", "YQ"]),
    (
        {"language": "email"},
        ["jane.doe+x@sub.example.com", "a@a--b.co", "a@x.tests", "jürgen@bücher.de"],
        [
            *("a@localhost", "a@x.test", "a@x.TEST", "a@ab--c.co", '"a b"@b.co', "a@[1.2.3.4]"),
            *("a..b@b.co", "a@b.1", "a@-b.co", "a@xn--a.co", f"{'a' * 65}@b.co"),
        ],
    ),
    (
        {"language": "name_email"},
        ["Jane Doe <a@b.co>", '"Doe, Jane" <a@b.co>', "a@b.co"],
        ["Doe, Jane <a@b.co>", "Jane <a@localhost>"],
    ),
    (
        {"language": "url"},
        [
            *(
                "http://a.b",
                "https://example.com:8080/a?b=c#d",
                "http://127.0.0.1",
                "http://[::1]/",
            ),
            *("mailto:a@b.co", "urn:isbn:1", "file:///a/b", "ftp://u:p@h/x", "http://localhost"),
        ],
        ["http://", "http://1.2.3", "http://a.1", "http://a:65536", "http://xn--a", "a.b", "/x"],
    ),
    (
        {"language": "url", "allowed_schemes": ["postgres"], "multi_host": True},
        ["postgres://u:p@h1:1,h2:2/db", "postgres://h"],
        ["postgres://h,", "http://h", "postgres://,h"],
    ),
    ({"language": "url", "max_length": 20}, ["http://a.b/123456789"], ["http://a.b/1234567890"]),
    (
        {"language": "uuid", "version": 4},
        ["12345678-1234-4234-8234-123456789ABC", "12345678123442348234123456789abc"],
        ["12345678-1234-1234-8234-123456789abc", "12345678-1234-4234-c234-123456789abc"],
    ),
    (
        {"language": "ip", "version": 6, "canonical": True},
        ["::1", "::", "1::", "1:2:3:4:5:6:7:8", "fe80::1"],
        ["::0001", "A::", "1::2:0:3", "::ffff:102:304", "1:2:3:4:5:6:7::"],
    ),
    ({"language": "bytesize"}, ["1", "1.5 MB", "10KiB", "3k"], ["1.5", "-1", "1 XB"]),
    ({"language": "zoneinfo"}, ["Europe/Berlin", "UTC"], ["europe/berlin", "Mars"]),
    (
        {"language": "python_pattern"},
        [r"^[a-f_-]{2,10}\d{3}$", "(?:a|b)*?", r"\(x\)"],
        ["(", "[", "a{2,1}", "[b-a]", "a**"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "inside", "outside"), TABLE, ids=[str(row[0]) for row in TABLE])
def test_language_has_ordinary_spellings_and_no_refused_ones(
    spec: dict[str, Any], inside: list[str], outside: list[str]
) -> None:
    language = reader_language(spec)
    assert [text for text in inside if not contains_word(language, text)] == []
    assert [text for text in outside if contains_word(language, text)] == []


@pytest.mark.parametrize(
    "spec",
    [
        {"language": "date", "gt": "9999-12-31"},
        {"language": "date", "ge": "2024-01-02", "lt": "2024-01-02"},
        {"language": "time", "gt": "23:59:59.999999"},
        {"language": "datetime", "tz": 30},
        {"language": "duration", "ge": 2, "lt": 1},
        {"language": "bytes", "min_length": 2, "max_length": 1},
        {"language": "int", "ge": 1, "lt": 1},
        {"language": "url", "allowed_schemes": ["HTTP"]},
    ],
)
def test_contradictory_arguments_give_the_empty_language(spec: dict[str, Any]) -> None:
    language = reader_language(spec)
    assert list_words(language, 1000) == []
    assert language.is_empty


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "None is not a reader language"),
        ({"language": "dates"}, "'dates' is not a reader language (at #). The languages are text"),
        ({"language": "date", "min": 1}, "the language 'date' has no argument 'min'"),
        ({"language": "bool", "ge": 1}, "It has no arguments"),
        ({"language": "date", "ge": "yesterday"}, "wrong argument of the language 'date'"),
        ({"language": "date", "ge": 5}, "wrong argument of the language 'date'"),
        ({"language": "int", "ge": "five"}, "'five' is not a number"),
        ({"language": "int", "ge": "1e999999"}, "is not finite, or too large"),
        ({"language": "bytes", "encoding": "rot13"}, "not one of utf8, base64, hex"),
        ({"language": "base64", "alphabet": "x"}, "not one of standard, url"),
        ({"language": "duration", "reader": "zod"}, "not one of pydantic, msgspec"),
        ({"language": "datetime", "tz": "utc"}, "neither 'aware', 'naive' nor a number"),
        ({"language": "uuid", "version": 2}, "there is no version 2 of UUIDs"),
        ({"language": "ip", "kind": "x"}, "no kind of address is 'x'"),
    ],
)
def test_wrong_specification_is_an_error(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        reader_language(spec)
    assert message in str(caught.value)


def test_languages_are_cached() -> None:
    spec = {"language": "datetime", "ge": "2024-01-01T00:00:00Z"}
    assert reader_language(spec) is reader_language(json.loads(json.dumps(spec)))


@pytest.mark.parametrize("name", LANGUAGES)
def test_all_arguments_are_optional(name: str) -> None:
    assert not reader_language({"language": name}).is_empty
