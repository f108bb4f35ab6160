"""Tools from Python functions."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest

from proxy_engine import InvalidToolError, ToolArgumentsError
from proxy_engine.tools import tool_from_function


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(pydantic.BaseModel):
    """Where."""

    latitude: float
    longitude: float = 0.0


def forecast(
    city: str,
    days: Annotated[int, pydantic.Field(ge=1, le=7, description="how far ahead")] = 3,
    *,
    unit: Unit = Unit.C,
    on: date | None = None,
    tags: set[str] = frozenset(),  # type: ignore[assignment]
) -> tuple[Any, ...]:
    """The weather to come.

    Args:
        city: Where to look.
        days: not told, the field says it better
        unit: Of temperatures.
        on: The day.
        tags: What else.
    """
    return (city, days, unit, on, tags)


def test_schema_says_what_the_signature_says() -> None:
    tool = tool_from_function(forecast)
    assert (tool.name, tool.description) == ("forecast", "The weather to come.")
    schema = tool.parameters
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["city"]
    properties = schema["properties"]
    assert list(properties) == ["city", "days", "unit", "on", "tags"]
    assert properties["city"] == {"type": "string", "description": "Where to look."}
    assert properties["days"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 7,
        "default": 3,
        "description": "how far ahead",
    }
    assert properties["unit"]["description"] == "Of temperatures."
    assert "title" not in schema


def test_arguments_have_the_types_of_the_hints() -> None:
    tool = tool_from_function(forecast)
    assert tool.invoke({"city": "Bonn"}) == ("Bonn", 3, Unit.C, None, frozenset())
    arguments = {"city": "B", "unit": "fahrenheit", "on": "2026-01-02", "tags": ["a", "a"]}
    assert tool.invoke(arguments) == ("B", 3, Unit.F, date(2026, 1, 2), {"a"})
    assert tool.validate(arguments)["on"] == date(2026, 1, 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "city"),
        ({"city": "x", "days": 9}, "days"),
        ({"city": "x", "more": 1}, "more"),
        ({"city": {1, 2}}, "not JSON"),
        ([], "object"),
    ],
)
def test_invalid_arguments_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(ToolArgumentsError, match=said) as caught:
        tool_from_function(forecast).invoke(arguments)
    assert caught.value.tool == "forecast"
    assert caught.value.arguments is arguments


def test_names_that_mean_something_to_pydantic() -> None:
    def odd(json: int, _hidden: str, model_config: bool, self_: int, schema: int = 1) -> Any:
        return json, _hidden, model_config, self_, schema

    tool = tool_from_function(odd)
    assert list(tool.parameters["properties"]) == [
        "json",
        "_hidden",
        "model_config",
        "self_",
        "schema",
    ]
    arguments = {"json": 1, "_hidden": "h", "model_config": True, "self_": 2}
    assert tool.invoke(arguments) == (1, "h", True, 2, 1)


def test_models_dataclasses_and_literals_as_parameters() -> None:
    @dataclass
    class Span:
        start: int
        end: int

    def find(place: Place, kind: Literal["a", "b"] = "a") -> Any:
        return place, kind

    tool = tool_from_function(find)
    assert tool.parameters["$defs"]["Place"]["additionalProperties"] is False
    assert tool.invoke({"place": {"latitude": 1}}) == (Place(latitude=1), "a")


def test_a_default_in_a_field_reaches_the_function() -> None:
    def f(n: int = pydantic.Field(7, ge=0), m: int = pydantic.Field(alias="count")) -> Any:
        return n, m

    tool = tool_from_function(f)
    assert set(tool.parameters["properties"]) == {"n", "count"}
    assert tool.parameters["required"] == ["count"]
    assert tool.invoke({"count": 1}) == (7, 1)


def test_a_default_in_a_hint_reaches_the_function() -> None:
    def f(
        n: Annotated[int, pydantic.Field(default=7, ge=0)],
        m: Annotated[list[int], pydantic.Field(default_factory=list)],
        k: Annotated[int, pydantic.Field(default=1)] = 2,
    ) -> Any:
        return n, m, k

    tool = tool_from_function(f)
    assert "required" not in tool.parameters
    assert tool.parameters["properties"]["k"]["default"] == 2
    assert tool.invoke({}) == (7, [], 2)
    assert tool.invoke({"n": 1, "m": [2], "k": 3}) == (1, [2], 3)


def test_defaults_stay_the_objects_they_are() -> None:
    missing = object()

    def f(x: Any = missing) -> bool:
        return x is missing

    tool = tool_from_function(f)
    assert "default" not in tool.parameters["properties"]["x"]
    assert tool.invoke({}) is True


def test_a_string_in_annotated_describes() -> None:
    def f(x: Annotated[int, "how many"]) -> int:
        return x

    assert tool_from_function(f).parameters["properties"]["x"]["description"] == "how many"


def test_callables_become_tools() -> None:
    class Scale:
        """Scales."""

        def __call__(self, x: int) -> int:
            return 2 * x

        def method(self, x: int, factor: int = 3) -> int:
            """Multiply."""
            return factor * x

    assert tool_from_function(Scale()).name == "Scale"
    assert tool_from_function(Scale()).description == "Scales."
    assert tool_from_function(Scale()).invoke({"x": 2}) == 4
    assert tool_from_function(Scale().method).invoke({"x": 2}) == 6
    bound = tool_from_function(functools.partial(Scale().method, factor=5))
    assert (bound.name, bound.description) == ("method", "Multiply.")
    assert set(bound.parameters["properties"]) == {"x"}
    assert bound.invoke({"x": 2}) == 10


def test_decorated_functions_keep_their_signature() -> None:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return "decorated", function(*args, **kwargs)

        return inner

    @decorate
    def f(x: int) -> int:
        """Text."""
        return x

    assert tool_from_function(f).invoke({"x": 1}) == ("decorated", 1)


def test_without_parameters() -> None:
    def now() -> str:
        return "12:00"

    tool = tool_from_function(now)
    assert tool.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.invoke({}) == "12:00"


def test_prompt_may_word_it_differently() -> None:
    tool = tool_from_function(forecast, name="other", description="Text.", strict=True)
    assert (tool.name, tool.description, tool.strict) == ("other", "Text.", True)


def star(*many: int) -> None: ...
def stars(**many: int) -> None: ...
def slash(only: int, /) -> None: ...
def nowhere(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def opaque(x: object, y: int) -> None: ...
def unknown(lock: Opaque) -> None: ...


class Opaque: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (star, r"parameter \*many"),
        (stars, r"parameter \*\*many"),
        (slash, "parameter only"),
        (nowhere, "Missing"),
        (unknown, "Opaque"),
        (lambda x: x, "<lambda>"),
    ],
)
def test_unsuitable_functions_are_refused(function: Any, said: str) -> None:
    with pytest.raises(InvalidToolError, match=said):
        tool_from_function(function)
