"""Types of columns by the schema."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.column_types import ListOf, Struct, answer_types, fit, schema_type
from proxy_engine.extraction.frames import arrow_type


class Address(BaseModel):
    street: str
    number: int | None = None


class Person(BaseModel):
    name: str
    day: datetime.date
    kind: Literal["a", "b"]
    weight: float | int
    share: Decimal
    either: int | str
    address: Address | None
    addresses: list[Address]
    pair: tuple[int, int]
    counts: dict[str, int]
    friends: Pair


class Pair(BaseModel):
    left: Pair | None
    right: Pair | None


PAIR = Struct((("left", "json"), ("right", "json")))
ADDRESS = Struct((("street", "string"), ("number", "integer")))


def test_types_follow_from_the_schema() -> None:
    types = answer_types(AnswerFormat.of(Person, "p_"))
    assert types == {
        "p_name": "string",
        "p_day": "string",
        "p_kind": "string",
        "p_weight": "number",
        "p_share": "json",
        "p_either": "json",
        "p_address": ADDRESS,
        "p_addresses": ListOf(ADDRESS),
        "p_pair": ListOf("integer"),
        "p_counts": "json",
        "p_friends": PAIR,
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, "json"),
        ({"type": "object"}, "json"),
        ({"type": ["integer", "null"]}, "integer"),
        ({"enum": [1, 2.5]}, "number"),
        ({"enum": [1, "a"]}, "json"),
        ({"const": {"a": 1}}, Struct((("a", "integer"),))),
        ({"type": "array", "items": {"type": "string"}}, ListOf("string")),
        ({"type": "array"}, ListOf("json")),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, ListOf("json")),
        ({"$ref": "#/definitions/x", "definitions": {"x": {"type": "string"}}}, "string"),
        ({"$ref": "https://example.com"}, "json"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "json"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": False,
            },
            Struct((("a", "string"),)),
        ),
    ],
)
def test_type_of_a_schema(schema: Any, expected: Any) -> None:
    assert schema_type(schema, schema) == expected


def test_open_answers_have_a_column_of_other_properties() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert answer_types(AnswerFormat.of(schema)) == {"a": "integer"}
    options = {"additional_properties": "schema"}
    assert answer_types(AnswerFormat.of(schema, options=options)) == {
        "a": "integer",
        "additional_properties": "json",
    }
    assert answer_types(AnswerFormat.of(Literal["yes", "no"])) == {"result": "string"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KINDS: list[Any] = [
    "boolean",
    "integer",
    "number",
    "string",
    "json",
    "null",
    ListOf("integer"),
    ListOf("json"),
    ADDRESS,
]


@given(JSON, st.sampled_from(KINDS))
def test_fitted_values_can_be_stored_unchanged(value: Any, kind: Any) -> None:
    try:
        fitted = fit(value, kind)
    except ValueError:
        return
    stored = pyarrow.array([fitted], arrow_type(pyarrow, kind)).to_pylist()[0]
    assert stored == fitted
    if kind != "json" and not isinstance(value, dict | str):
        assert stored == value or kind == ListOf("json")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1 << 63, "integer"),
        (2.5, "integer"),
        (True, "integer"),
        (True, "number"),
        (1, "boolean"),
        (1, "string"),
        ("1", "integer"),
        ([1], "string"),
        ({"street": "x", "more": 1}, ADDRESS),
        ([1, "x"], ListOf("integer")),
        (10**400, "number"),
    ],
)
def test_values_of_other_types_are_refused(value: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match="it is"):
        fit(value, kind)


def test_values_are_written_as_in_json() -> None:
    assert fit(datetime.date(2024, 2, 3), "string") == "2024-02-03"
    assert fit("\ud800", "string") == "\\ud800"
    assert fit(2.0, "integer") == 2
    assert fit({"street": "x"}, ADDRESS) == {"street": "x", "number": None}
    assert fit(None, "integer") is None
