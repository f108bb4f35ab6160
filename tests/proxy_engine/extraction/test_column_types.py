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
from proxy_engine.extraction.column_types import Column, answer_types, fit, schema_type
from proxy_engine.extraction.tables import make_table


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


INTEGER, NUMBER, STRING = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
ADDRESS = pyarrow.struct([("street", STRING), ("number", INTEGER)])


def test_types_follow_from_the_schema() -> None:
    types = answer_types(AnswerFormat.of(Person, "p_"))
    assert types == {
        "p_name": STRING,
        "p_day": STRING,
        "p_kind": STRING,
        "p_weight": NUMBER,
        "p_share": None,
        "p_either": None,
        "p_address": ADDRESS,
        "p_addresses": pyarrow.list_(ADDRESS),
        "p_pair": pyarrow.list_(INTEGER),
        "p_counts": None,
        "p_friends": None,
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, None),
        ({"type": "object"}, None),
        ({"type": ["integer", "null"]}, INTEGER),
        ({"enum": [1, 2.5]}, NUMBER),
        ({"enum": [1, "a"]}, None),
        ({"const": {"a": 1}}, pyarrow.struct([("a", INTEGER)])),
        ({"type": "array", "items": {"type": "string"}}, pyarrow.list_(STRING)),
        ({"type": "array"}, None),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, None),
        ({"$ref": "#/definitions/x", "definitions": {"x": {"type": "string"}}}, STRING),
        ({"$ref": "https://example.com"}, None),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, None),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": False,
            },
            pyarrow.struct([("a", STRING)]),
        ),
    ],
)
def test_type_of_a_schema(schema: Any, expected: Any) -> None:
    assert schema_type(schema, schema) == expected


def test_open_answers_have_a_column_of_other_properties() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert answer_types(AnswerFormat.of(schema)) == {"a": INTEGER}
    options = {"additional_properties": "schema"}
    assert answer_types(AnswerFormat.of(schema, options=options)) == {
        "a": INTEGER,
        "additional_properties": None,
    }
    assert answer_types(AnswerFormat.of(Literal["yes", "no"])) == {"result": STRING}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KINDS: list[Any] = [
    pyarrow.bool_(),
    INTEGER,
    NUMBER,
    STRING,
    None,
    pyarrow.list_(INTEGER),
    ADDRESS,
]


@given(JSON, st.sampled_from(KINDS))
def test_fitted_values_can_be_stored_unchanged(value: Any, kind: Any) -> None:
    try:
        fitted = fit(value, kind)
    except ValueError:
        return
    (stored,) = pyarrow.array([fitted], STRING if kind is None else kind).to_pylist()
    if not isinstance(fitted, dict):
        assert stored == fitted
    if kind is not None and not isinstance(value, dict | str):
        assert stored == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1 << 63, INTEGER),
        (2.5, INTEGER),
        (True, INTEGER),
        (True, NUMBER),
        (1, pyarrow.bool_()),
        (1, STRING),
        ("1", INTEGER),
        ([1], STRING),
        ({"street": "x", "more": 1}, ADDRESS),
        ([1, "x"], pyarrow.list_(INTEGER)),
        (10**400, NUMBER),
    ],
)
def test_values_of_other_types_are_refused(value: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match="it is"):
        fit(value, kind)


def test_values_are_written_as_in_json() -> None:
    assert fit(datetime.date(2024, 2, 3), STRING) == "2024-02-03"
    assert fit("\ud800", STRING) == "\\ud800"
    assert fit(2.0, INTEGER) == 2
    assert fit({"street": "x"}, ADDRESS) == {"street": "x"}
    assert fit(None, INTEGER) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 2.5], NUMBER),
        ([1, True], None),
        ([2**60, 0.5], NUMBER),
        ([2**63], None),
        ([{}], None),
        ([{"a": 1}, {"b": "x"}], pyarrow.struct([("a", INTEGER), ("b", STRING)])),
        ([{str(number): 1 for number in range(300)}], None),
        ([[None], []], pyarrow.list_(STRING)),
        ([None], STRING),
        # A time is not cut off, and a text is no bytes.
        ([datetime.date(2024, 2, 3), datetime.datetime(2024, 2, 3, 4)], None),
        (["x", b"x"], None),
        ([[datetime.date(2024, 2, 3)]], pyarrow.list_(STRING)),
        ([{"a": False}, {"a": 0.5}], None),
        ([[True, 0.5]], None),
    ],
)
def test_type_of_all_values(values: list[Any], expected: Any) -> None:
    for parts in ([values], [[value] for value in values]):
        column = Column()
        for part in parts:
            column.learn(part)
        array = column.array(values)
        assert column.type == (STRING if expected is None else expected)
        assert [value.as_py() is None for value in array] == [value is None for value in values]
        if expected is None:
            assert all(isinstance(value, str) for value in array.to_pylist())


@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=4))
def test_type_does_not_depend_on_how_values_are_divided(first: Any, second: Any) -> None:
    column = Column()
    column.learn(first)
    column.learn(second)
    assert column.array([*first, *second]).equals(
        make_table({"x": [*first, *second]})["x"].combine_chunks()
    )
