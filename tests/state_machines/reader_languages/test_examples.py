"""Texts that are in the languages, and texts that are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from state_machines.errors import InvalidSchemaError
from state_machines.grammar.text_languages import contains_word, list_words
from state_machines.reader_languages.table import LANGUAGES, reader_language

_FILE = Path(__file__).parents[2] / "data" / "reader_languages.json"
TABLE: list[tuple[dict[str, Any], list[str], list[str]]] = [
    *(
        (row["language"], row["inside"], row["outside"])
        for row in json.loads(_FILE.read_text(encoding="utf-8"))
    ),
    ({"language": "int"}, ["9" * 308], ["9" * 309, "1e5"]),
]


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
