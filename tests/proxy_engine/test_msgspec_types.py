"""Types of msgspec and attrs as response formats, in extraction, and as tools."""

from __future__ import annotations

import dataclasses
import datetime
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest

from proxy_engine import (
    InferenceEngine,
    InvalidResponseFormatError,
    InvalidToolError,
    MissingExtraError,
    OutputValidationError,
    ToolArgumentsError,
)
from proxy_engine.runtime import extras
from proxy_engine.tools import resolve_tool
from proxy_engine.type_reader import type_reader
from state_machines import JsonSchemaStateMachine
from state_machines.errors import UnsatisfiableSchemaError
from state_machines.processors.arguments import machine_of

attrs = pytest.importorskip("attrs")
msgspec = pytest.importorskip("msgspec")

from msgspec import Meta, Struct  # noqa: E402

OPTIONS: dict[str, Any] = {"max_tokens": 200, "seed": 3}


class Cat(Struct, tag="cat"):
    """A cat.

    Attributes:
        lives: how many are left
    """

    lives: Annotated[int, Meta(ge=0, le=9)] = 9


class Dog(Struct, tag="dog", rename="camel"):
    bark_volume: Literal["low", "high"]


class Partly(Struct):
    a: int
    b: complex = 1j


class Never(Struct):
    a: bool

    def __post_init__(self) -> None:
        raise ValueError("refused by its author")


class Event(Struct):
    on: datetime.date
    price: Decimal
    raw: msgspec.Raw = msgspec.Raw(b"null")


@attrs.define
class Record:
    kind: Literal["a", "b"]
    count: Annotated[int, Meta(ge=0, le=9)] = 0


@dataclasses.dataclass
class Wrapper:
    pet: Cat


class Model(pydantic.BaseModel):
    a: int


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    cat: Cat


class Mixed(Struct):
    model: Model


@pytest.mark.parametrize("kind", [Cat | Dog, Record, list[Cat], Wrapper, Cat | None])
def test_answer_is_a_value_of_the_type(tiny_engine: InferenceEngine, kind: Any) -> None:
    result = tiny_engine.generate("x", kind, **OPTIONS)
    assert result.parsed == msgspec.json.decode(result.text, type=kind)
    assert json.loads(result.text) == msgspec.to_builtins(result.parsed)


def test_stream_ends_with_a_value_of_the_type(tiny_engine: InferenceEngine) -> None:
    stream = tiny_engine.stream("x", Cat | Dog, **OPTIONS)
    assert isinstance(stream.result().parsed, Cat | Dog)


def test_answer_that_the_class_refuses_is_an_error(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(OutputValidationError, match="refused by its author") as caught:
        tiny_engine.generate("x", Never, max_retries=1, **OPTIONS)
    assert len(caught.value.attempts) == 2


def test_extraction_has_properties_of_a_struct_as_columns(tiny_engine: InferenceEngine) -> None:
    results = tiny_engine.extract(["a", "b"], Dog, **OPTIONS)
    assert all(isinstance(value, Dog) for value in results.values)
    values = list(results.to_pandas()["barkVolume"])
    assert values == [value.bark_volume for value in results.values]


def test_extraction_writes_defaults(tiny_engine: InferenceEngine) -> None:
    (value,) = tiny_engine.extract(["a"], Record, **OPTIONS).values
    assert isinstance(value, Record)


def test_reader_writes_values_as_json_and_as_objects() -> None:
    reader = type_reader(Event)
    event = reader.read('{"on": "2024-01-02", "price": "1.5", "raw": [1, null]}')
    assert event.on == datetime.date(2024, 1, 2)
    assert reader.dump(event, "json") == {"on": "2024-01-02", "price": "1.5", "raw": [1, None]}
    assert reader.dump(event, "python") == {
        "on": datetime.date(2024, 1, 2),
        "price": Decimal("1.5"),
        "raw": [1, None],
    }


def test_failure_of_a_class_is_a_value_error() -> None:
    class Failing(Struct):
        a: int

        def __post_init__(self) -> None:
            raise KeyError("a")

    with pytest.raises(ValueError, match="KeyError"):
        type_reader(Failing).read('{"a": 1}')


@pytest.mark.parametrize("kind", [Open, list[Open]])
def test_struct_in_a_pydantic_model_is_an_error(kind: Any) -> None:
    with pytest.raises(InvalidResponseFormatError, match="with pydantic, or with msgspec"):
        type_reader(kind)


def test_pydantic_model_in_a_struct_is_an_error() -> None:
    with pytest.raises(UnsatisfiableSchemaError, match="Model") as caught:
        type_reader(Mixed)
    assert caught.value.pointer == "/properties/model"


def test_property_that_no_json_is_read_as_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="the property 'b'"):
        reader = type_reader(Partly)
    assert reader.read('{"a": 1}') == Partly(1)


def test_unsupported_union_is_an_error() -> None:
    with pytest.raises(InvalidResponseFormatError, match="array-like"):
        type_reader(list[Cat] | set[int])


def test_class_of_attrs_needs_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda extra: False)
    with pytest.raises(MissingExtraError, match=r"proxy-engine\[msgspec\]"):
        type_reader(Record)


def test_msgspec_is_imported_for_its_types_alone(tmp_path: Path) -> None:
    program = (
        "import sys, pydantic\n"
        "from proxy_engine.type_reader import type_reader\n"
        "class Model(pydantic.BaseModel):\n    a: int\n"
        "type_reader(Model), type_reader(list[int])\n"
        "sys.exit('msgspec' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 0


def test_logits_processor_takes_a_struct() -> None:
    machine = machine_of(Cat)
    assert isinstance(machine, JsonSchemaStateMachine)
    assert machine.matches('{"type": "cat", "lives": 3}')


def weather(place: Cat, unit: Literal["C", "F"] = "C", *, tags: list[str] = ["x"]) -> Any:  # noqa: B006
    """Look up the weather.

    Args:
        place: where
        unit: of the temperature
        tags: of the report
    """
    return place, unit, tags


def test_function_has_structs_as_parameters() -> None:
    tool = resolve_tool(weather)
    assert tool.parameters["required"] == ["place"]
    assert tool.parameters["properties"]["place"]["description"] == "where"
    assert tool.parameters["properties"]["unit"]["default"] == "C"
    assert tool.invoke({"place": {"type": "cat", "lives": 1}}) == (Cat(1), "C", ["x"])
    with pytest.raises(ToolArgumentsError, match="lives"):
        tool.validate({"place": {"type": "cat", "lives": 10}})


@pytest.mark.parametrize(
    ("kind", "arguments"), [(Cat, {"type": "cat", "lives": 2}), (Record, {"kind": "a"})]
)
def test_class_is_a_tool(kind: Any, arguments: dict[str, Any]) -> None:
    tool = resolve_tool(kind)
    assert tool.name == kind.__name__
    assert tool.parse(arguments) == msgspec.convert(arguments, kind)


def test_descriptions_of_a_struct_come_from_its_docstring() -> None:
    tool = resolve_tool(Cat)
    assert tool.description == "A cat."
    assert tool.parameters["properties"]["lives"]["description"] == "how many are left"


def test_constraint_of_pydantic_beside_a_struct_is_an_error() -> None:
    def function(cat: Cat, count: Annotated[int, pydantic.Field(ge=0)]) -> None:
        """Count."""

    with pytest.raises(InvalidToolError, match="'count' has a constraint of pydantic"):
        resolve_tool(function)


def test_tool_call_has_a_struct_as_parsed_value(tiny_engine: InferenceEngine) -> None:
    result = tiny_engine.generate("x", tools=[Dog], tool_choice="required", **OPTIONS)
    assert isinstance(result.tool_calls[0].parsed, Dog)
