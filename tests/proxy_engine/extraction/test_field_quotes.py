"""``extract(…, quotes=True)``: a quote of the text for each property."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import (
    InferenceEngine,
    InvalidOptionError,
    OutputValidationError,
    QuoteFrom,
)
from proxy_engine.answers.response_format import ResponseFormatCompiler
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.results.parts import CutShort
from state_machines import JsonSchemaStateMachine

TEXT = "Ana, 31, has a cat; Ben has two dogs."
QUOTES = ["", "Ana", "31", "a cat", "two dogs."]
OPTIONS: dict[str, Any] = {"quotes": True, "max_tokens": 400, "seed": 3, "progress": False}


class Pet(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: Literal[1, 2] = pydantic.Field(alias="age in years")
    note: Literal["x"] | None = None


class Node(pydantic.BaseModel):
    """Its schema is a reference to a definition."""

    leaf: Literal[1, 2]
    below: Annotated[list[Node], pydantic.Field(max_length=1)]


@dataclasses.dataclass
class Data:
    kind: Literal["cat", "dog"]


KIND = {"enum": ["cat", "dog"]}
KIND_LIST = {"type": "array", "items": KIND, "maxItems": 2}
OPEN: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"a/b": KIND, "kind": {"$ref": "#/properties/a~1b"}},
    "required": ["kind"],
}
WRAPPED = {"type": "json_schema", "json_schema": {"name": "n", "schema": OPEN}}


@given(st.data())
def test_outputs_are_the_answers_with_a_quote_behind_each_value(data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4, unique=True)
    )
    required = data.draw(st.lists(st.sampled_from(names), unique=True))
    answer = {
        name: data.draw(st.sampled_from([True, 1, "Ana"]))
        for name in names
        if name in required or data.draw(st.booleans())
    }
    quotes = {name: data.draw(st.sampled_from(QUOTES)) for name in answer}
    properties = {name: {"enum": [True, 1, "Ana"]} for name in names}
    schema = {"type": "object", "properties": properties, "required": required}
    answers = AnswerFormat.of(schema, quotes=True)
    response = ResponseFormatCompiler().compile(
        answers.response_format, sources=lambda: {"input": TEXT}
    )
    assert response.machine is not None
    assert response.quotes is not None
    members = [
        (name, value)
        for key in answer
        for name, value in ((key, answer[key]), (f"{key}_quote", quotes[key]))
    ]
    text = json.dumps(dict(members))
    assert response.machine.matches(text)
    assert response.parse(text) == answer
    assert {one.pointer: TEXT[one.start : one.end] for one in response.quotes(text)} == {
        "/" + name.replace("~", "~0").replace("/", "~1"): quote
        for name, quote in quotes.items()
        if quote
    }
    for missing, _ in members:
        others = json.dumps({name: value for name, value in members if name != missing})
        assert not response.machine.matches(others)
    for name in answer:
        assert not response.machine.matches(json.dumps({**dict(members), f"{name}_quote": "Ann"}))


@pytest.mark.parametrize("response_format", [Pet, Node, Data, OPEN, WRAPPED])
def test_values_are_without_the_quotes_of_the_text(
    roomy_engine: InferenceEngine, response_format: Any
) -> None:
    texts = [TEXT, "Four words of text."]
    results = roomy_engine.extract(texts, response_format, temperature=1.0, **OPTIONS)
    assert not results.errors
    for text, record in zip(texts, results, strict=True):
        value: Any = record.value
        if not isinstance(value, Mapping):
            assert isinstance(value, response_format)
            value = pydantic.TypeAdapter[Any](response_format).dump_python(value, by_alias=True)
        assert not any(name.endswith("_quote") for name in value)
        found = {one.pointer: text[one.start : one.end] for one in record.quotes}
        columns = {
            "/" + name.removesuffix("_quote").replace("/", "~1"): quote
            for name, quote in record.details.items()
            if quote and name != "below_quote"
        }
        columns |= json.loads(record.details.get("below_quote", "{}"))
        assert found == {at: quote for at, quote in columns.items() if quote}
    assert any(record.quotes for record in results)
    assert "<mark" in results.to_html()


class House(pydantic.BaseModel):
    """Its lists have items of three kinds: values, objects, values that are quotes."""

    ages: Annotated[list[Literal[1, 2]], pydantic.Field(min_length=1, max_length=3)]
    pets: Annotated[list[Pet], pydantic.Field(min_length=2, max_length=2)]
    words: Annotated[list[Annotated[str, QuoteFrom("input")]], pydantic.Field(max_length=1)]


def _values_at(value: Any, pointer: str = "") -> dict[str, Any]:
    """Return the parts of a JSON value by pointer."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = {} if not isinstance(value, dict | list) else dict(inner)
    parts = {f"{pointer}/{name}": part for name, part in found.items()}
    for at, part in dict(parts).items():
        if isinstance(part, dict | list):
            parts |= _values_at(part, at)
    return parts


@pytest.mark.parametrize("form", [House, list[Pet], list[Literal[1, 2]]])
def test_items_of_lists_have_quotes(
    roomy_engine: InferenceEngine, tmp_path: Path, form: Any
) -> None:
    options = {**OPTIONS, "output": tmp_path / "out.jsonl", "max_tokens": 1500}
    if form is not House:
        form = Annotated[form, pydantic.Field(min_length=2, max_length=4)]
    adapter = pydantic.TypeAdapter[Any](form)
    results = roomy_engine.extract([TEXT, TEXT[5:]], adapter, temperature=1.0, **options)
    assert not results.errors
    pointers: set[str] = set()
    for record in results:
        text = record.record
        values = _values_at(adapter.dump_python(record.value, by_alias=True))
        assert not any("quote" in pointer for pointer in values)
        for one in record.quotes:
            value = values[one.pointer]
            assert not isinstance(value, dict | list)
            assert one.pointer.startswith("/words") <= (value == text[one.start : one.end])
        pointers |= {one.pointer for one in record.quotes}
    assert pointers
    assert all("/" in pointer[1:] or pointer[1:].isdigit() for pointer in pointers)
    again = roomy_engine.extract([TEXT, TEXT[5:]], adapter, **options, resume=True)
    assert [one.value for one in again] == [one.value for one in results]
    assert [set(one.quotes) for one in again] == [set(one.quotes) for one in results]


SCHEMA_OF_ITEMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a/b": {"type": "array", "items": {"type": "number"}},
        "pets": {"type": "array", "items": {"$ref": "#/$defs/pet"}},
    },
    "required": ["a/b", "pets"],
    "$defs": {
        "pet": {"type": "object", "properties": {"name": {"const": "Ana"}, "own": KIND_LIST}}
    },
}


def test_quotes_stand_behind_items() -> None:
    answers = AnswerFormat.of(SCHEMA_OF_ITEMS, quotes=True)
    response = ResponseFormatCompiler().compile(
        answers.response_format, sources=lambda: {"input": TEXT}
    )
    assert response.machine is not None
    assert response.quotes is not None
    text = (
        '{"a/b": [{"value": 1.50, "quote": "31"}, {"value": 2, "quote": ""}], "pets": '
        '[{}, {"name": "Ana", "name_quote": "Ana", "own": [{"value": "cat", "quote": "a cat"}]}]}'
    )
    answer = '{"a/b": [1.50, 2], "pets": [{}, {"name": "Ana", "own": ["cat"]}]}'
    assert response.machine.matches(text)
    assert not response.machine.matches(text.replace('"31"', '"32"'))
    assert not response.machine.matches(answer)
    assert answers.field_quotes is not None
    assert answers.field_quotes.answer_text(text) == answer
    assert response.parse(text) == json.loads(answer)
    assert {one.pointer: TEXT[one.start : one.end] for one in response.quotes(text)} == {
        "/a~1b/0": "31",
        "/pets/1/name": "Ana",
        "/pets/1/own/0": "a cat",
    }


def test_constraints_beside_references_hold_with_quotes() -> None:
    lists = {"$ref": "#/$defs/list", "maxItems": 1}
    schema = {
        "type": "object",
        "properties": {"bookingRef": {"$ref": "#/$defs/short"}, "ages": {"$ref": "#/$defs/list"}},
        "required": ["bookingRef", "ages"],
        "$defs": {"short": lists, "list": {"type": "array", "items": {"enum": [1, 2]}}},
    }
    answers = AnswerFormat.of(schema, quotes=True)
    response = ResponseFormatCompiler().compile(
        answers.response_format, sources=lambda: {"input": TEXT}
    )
    assert response.machine is not None
    text = (
        '{"bookingRef": [1], "bookingRef_quote": "", "ages": [{"value": 1, "quote": "31"}, '
        '{"value": 2, "quote": ""}]}'
    )
    assert response.machine.matches(text)
    assert not response.machine.matches(text.replace("[1]", "[1, 2]"))
    assert response.parse(text) == {"bookingRef": [1], "ages": [1, 2]}


def test_schema_of_nested_lists_grows_linearly() -> None:
    names = range(12)
    definitions: dict[str, Any] = {
        f"d{name}": {
            "type": "object",
            "properties": {
                member: {"type": "array", "items": {"$ref": f"#/$defs/d{name + 1}"}}
                for member in ("a", "b")
            },
        }
        for name in names
    }
    definitions["d12"] = {"type": "object", "properties": {"kind": KIND}}
    schema = {"$ref": "#/$defs/d0", "$defs": definitions}
    answers = AnswerFormat.of(schema, quotes=True)
    assert answers.field_quotes is not None
    size = len(json.dumps(answers.field_quotes.response_format))
    assert size < 4 * len(json.dumps(schema))


@pytest.mark.parametrize(
    ("form", "in_output", "in_answer"),
    [
        (Annotated[list[Literal[1, 2]], pydantic.Field(max_length=2)], "/0/value", "/0"),
        (Data, "/kind_quote", "/kind"),
    ],
)
def test_details_name_the_open_value_of_the_answer(
    roomy_engine: InferenceEngine, form: Any, in_output: str, in_answer: str
) -> None:
    answers = AnswerFormat.of(form, columns=["cut_short"], quotes=True)
    result = roomy_engine.generate("a", answers.response_format, sources={"input": TEXT})
    result = replace(result, cut_short=CutShort(in_output, "max_tokens"))
    assert answers.details.cells(result)["cut_short_at"] == in_answer


@pytest.mark.parametrize("form", [list[Pet], list[Literal[1, 2]]])
def test_quotes_of_long_texts_move_with_their_items(
    roomy_engine: InferenceEngine, form: Any
) -> None:
    text = " ".join(f"Line {number}: {TEXT}" for number in range(4))
    (record,) = roomy_engine.extract([text], form, chunk_tokens=40, temperature=1.0, **OPTIONS)
    assert record.error is None
    values = _values_at(pydantic.TypeAdapter(form).dump_python(record.value, by_alias=True))
    quoted = json.loads(record.details["result_quote"])
    assert record.quotes
    for one in record.quotes:
        assert one.pointer in values
        assert text[one.start : one.end] == quoted[one.pointer]
    assert len({one.start for one in record.quotes}) > 1


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_resumed_rows_have_their_quotes(
    roomy_engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    options = {**OPTIONS, "output": tmp_path / f"out.{suffix}", "prefix": "p_", "confidence": True}
    first = roomy_engine.extract([TEXT, "", "Two"], Pet, **options)
    again = roomy_engine.extract([TEXT, "", "Two"], Pet, **options, resume=True)
    assert [one.value for one in again] == [one.value for one in first]
    assert [one.quotes for one in again] == [one.quotes for one in first]
    assert [one.details for one in again] == [one.details for one in first]
    assert {"p_kind_quote", "p_kind_confidence"} <= first[0].details.keys()
    assert first[0].details["p_kind_confidence"] > 0
    assert list(again.to_pandas().columns)[4:7] == [
        "p_kind_quote",
        "p_age in years_quote",
        "p_note_quote",
    ]


def test_property_that_is_a_quote_gets_no_other(roomy_engine: InferenceEngine) -> None:
    class Line(pydantic.BaseModel):
        words: Annotated[str, QuoteFrom("input")] = pydantic.Field(max_length=10)
        kind: Literal["cat", "dog"]

    (record,) = roomy_engine.extract([TEXT], Line, **OPTIONS)
    assert record.value is not None
    assert list(record.details) == ["kind_quote", "cut_short", "cut_short_at"]
    quotes = {one.pointer: TEXT[one.start : one.end] for one in record.quotes}
    assert quotes["/words"] == record.value.words


def test_validators_reject_answers_and_are_asked_again(roomy_engine: InferenceEngine) -> None:
    class Strict(pydantic.BaseModel):
        kind: Literal["cat", "dog", "fish"]

        @pydantic.field_validator("kind")
        @classmethod
        def never(cls, kind: str) -> str:
            raise ValueError(f"no {kind}")

    (record,) = roomy_engine.extract([TEXT], Strict, max_retries=1, **OPTIONS)
    assert isinstance(record.error, OutputValidationError)
    assert len(record.error.attempts) == 2


@pytest.mark.parametrize(
    ("response_format", "options", "message"),
    [
        (Pet | Data, {}, "no object with properties"),
        (dict[str, int], {}, "no object with properties"),
        ({"type": "json_object"}, {}, "no object with properties"),
        ({**OPEN, "maxProperties": 1}, {}, "'maxProperties' could hold"),
        ({**OPEN, "properties": {"a": {}, "a_quote": {}}}, {}, "'a' and 'a_quote'"),
        ({**OPEN, "properties": {"a": {"$ref": "#"}}, "required": []}, {}, "schema itself"),
        (JsonSchemaStateMachine(OPEN), {}, "compiled state machine"),
        (Pet, {"chunk_tokens": 20}, "other properties than one list"),
        (Node, {"chunk_tokens": 20}, "other properties than one list"),
        (Pet, {"sources": {"input": "-"}}, "gives another 'input'"),
    ],
)
def test_formats_that_cannot_have_quotes_are_refused(
    roomy_engine: InferenceEngine, response_format: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        roomy_engine.extract([TEXT], response_format, quotes=True, **options)
