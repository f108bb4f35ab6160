"""Patterns of ECMA-262 in the last check."""

from __future__ import annotations

import pytest

from proxy_engine.validation import json_validator


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (r"^\d+$", ["12"], ["", "1\n", "٣"]),
        (r"^\D$", ["x", "٣"], ["1"]),
        (r"^[\d\-]+$", ["1-2"], ["٣"]),
        (r"^\w$", ["a", "_"], ["ä"]),
        (r"^\W$", ["ä", " "], ["a"]),
        (r"^\s$", [" ", "\u00a0", "\ufeff"], ["a"]),
        (r"^\S$", ["a"], [" ", "\ufeff"]),
        (r"^\p{Lu}$", ["Ä"], ["ä"]),
        (r"b", ["abc"], ["ac"]),
        (r"^[[a]$", ["[", "a"], ["b"]),
        (r"^\$$", ["$"], [""]),
        (r"^a$|b", ["a", "xb"], ["a\n"]),
    ],
)
def test_patterns_mean_what_ecma_says(
    pattern: str, accepted: list[str], refused: list[str]
) -> None:
    validator = json_validator({"pattern": pattern})
    assert [text for text in accepted if not validator.is_valid(text)] == []
    assert [text for text in refused if validator.is_valid(text)] == []
    assert validator.is_valid(1)


def test_a_pattern_that_python_cannot_compile_is_left_to_the_grammar() -> None:
    assert json_validator({"pattern": r"^\cJ[^]$"}).is_valid("x") in (True, False)


def test_the_schema_chooses_its_draft() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1}
    assert not json_validator({**schema, "exclusiveMinimum": True}).is_valid(1)
    assert json_validator(schema).is_valid(1)
    assert not json_validator({"exclusiveMinimum": 1}).is_valid(1)
