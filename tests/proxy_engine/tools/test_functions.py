"""Tools from Python functions."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from type_catalogue import CATALOGUE, Entry
from type_catalogue.readers import gaps_of
from type_draws import draw_texts

from proxy_engine import InvalidToolError, ToolArgumentsError
from proxy_engine.tools import tool_from_function
from proxy_engine.tools.definitions import read_docstring
from state_machines import JsonSchemaStateMachine
from state_machines.errors import SchemaError


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


def test_exception_of_a_validator_is_an_error_of_the_arguments() -> None:
    def find(kind: Annotated[str, pydantic.AfterValidator(lambda kind: {}[kind])]) -> None:
        pass

    tool = tool_from_function(find)
    assert tool.parse({"kind": "a"}) is None
    with pytest.raises(ToolArgumentsError, match="a validator raised KeyError: 'a'"):
        tool.invoke({"kind": "a"})


@dataclass
class Span:
    start: int
    end: int


MISSING = object()


def odd_names(json: int, _hidden: str, model_config: bool, self_: int, schema: int = 1) -> Any:
    return json, _hidden, model_config, self_, schema


def typed(place: Place, span: Span | None = None, kind: Literal["a", "b"] = "a") -> Any:
    return place, span, kind


def default_in_field(
    n: int = pydantic.Field(7, ge=0), m: int = pydantic.Field(alias="count")
) -> Any:
    return n, m


def default_in_hint(
    n: Annotated[int, pydantic.Field(default=7, ge=0)],
    m: Annotated[list[int], pydantic.Field(default_factory=list)],
    k: Annotated[int, pydantic.Field(default=1)] = 2,
) -> Any:
    return n, m, k


def aliases(
    n: Annotated[int, pydantic.Field(validation_alias=pydantic.AliasPath("box", "count"))],
    m: Annotated[int, pydantic.Field(validation_alias=pydantic.AliasChoices("total", "sum"))],
    k: Annotated[int, pydantic.Field(alias="key")] = 3,
) -> Any:
    """Add.

    Args:
        n: The count.
        m: The total.
        k: The key.
    """
    return n, m, k


def default_that_is_no_json(x: Any = MISSING) -> bool:
    return x is MISSING


def without_parameters() -> str:
    return "12:00"


@pytest.mark.parametrize(
    ("function", "names", "required", "arguments", "result"),
    [
        (
            odd_names,
            ["json", "_hidden", "model_config", "self_", "schema"],
            ["json", "_hidden", "model_config", "self_"],
            {"json": 1, "_hidden": "h", "model_config": True, "self_": 2},
            (1, "h", True, 2, 1),
        ),
        (
            typed,
            ["place", "span", "kind"],
            ["place"],
            {"place": {"latitude": 1}, "span": {"start": 1, "end": 2}},
            (Place(latitude=1), Span(1, 2), "a"),
        ),
        (default_in_field, ["n", "count"], ["count"], {"count": 1}, (7, 1)),
        (default_in_hint, ["n", "m", "k"], [], {}, (7, [], 2)),
        (default_in_hint, ["n", "m", "k"], [], {"n": 1, "m": [2], "k": 3}, (1, [2], 3)),
        (
            aliases,
            ["box", "total", "key"],
            ["box", "total"],
            {"box": {"count": 1}, "total": 2, "key": 4},
            (1, 2, 4),
        ),
        (default_that_is_no_json, ["x"], [], {}, True),
        (without_parameters, [], [], {}, "12:00"),
    ],
)
def test_parameters_become_properties(
    function: Any, names: list[str], required: list[str], arguments: Any, result: Any
) -> None:
    tool = tool_from_function(function)
    assert list(tool.parameters["properties"]) == names
    assert tool.parameters.get("required", []) == required
    assert tool.parameters["additionalProperties"] is False
    assert tool.invoke(arguments) == result


def test_defaults_and_types_are_in_the_schema() -> None:
    assert tool_from_function(typed).parameters["$defs"]["Place"]["additionalProperties"] is False
    hinted = tool_from_function(default_in_hint).parameters["properties"]
    assert hinted["k"]["default"] == 2
    assert (
        "default" not in tool_from_function(default_that_is_no_json).parameters["properties"]["x"]
    )


def test_docstring_describes_the_first_alias() -> None:
    total = tool_from_function(aliases).parameters["properties"]["total"]
    assert total["description"] == "The total."


def test_parameter_that_is_no_data_is_left_out_if_it_has_a_default() -> None:
    def report(rows: int, write: Callable[[str], object] = print, kind: type[int] = int) -> int:
        return kind(rows)

    with pytest.warns(UserWarning, match="'report' leave out the property '(write|kind)'"):
        tool = tool_from_function(report)
    assert list(tool.parameters["properties"]) == ["rows"]
    assert tool.invoke({"rows": 2}) == 2

    def send(write: Callable[[str], object]) -> None: ...

    with pytest.raises(InvalidToolError, match=r"a function is no data \(at #/properties/write\)"):
        tool_from_function(send)


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


def test_prompt_may_word_it_differently() -> None:
    tool = tool_from_function(forecast, name="other", description="Text.", strict=True)
    assert (tool.name, tool.description, tool.strict) == ("other", "Text.", True)


def star(*many: int) -> None: ...
def stars(**many: int) -> None: ...
def slash(only: int, /) -> None: ...
def nowhere(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
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


# Docstrings of three styles.


GOOGLE = """Look up the weather.

    Uses: the nearest station.

    Args:
        city (str): The city, as in "Bonn": a name.
        days (Optional[int], optional): How many days
            to look ahead.

        *rest: More.
    Returns:
        forecast: not a parameter.
    """

NUMPY = """
    Look up the weather.

    Uses: the nearest station.

    Parameters
    ----------
    city : str
        The city, as in "Bonn": a name.
    days, weeks : int, optional
        How many days

        to look ahead.
    rest

    Returns
    -------
    forecast : str
        Not a parameter.
    """

REST = """Look up the weather.

    Uses: the nearest station.

    :param str city: The city, as in "Bonn": a name.
    :param days: How many days
        to look ahead.
    :type days: int
    :returns: not a parameter.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_docstring_styles(docstring: str) -> None:
    text, parameters = read_docstring(docstring)
    assert text == "Look up the weather.\n\nUses: the nearest station."
    assert parameters["city"] == 'The city, as in "Bonn": a name.'
    assert parameters["days"] == "How many days to look ahead."
    assert set(parameters) <= {"city", "days", "weeks", "rest"}


def test_numpy_describes_several_at_once() -> None:
    assert read_docstring(NUMPY)[1]["weeks"] == "How many days to look ahead."


def test_sections_that_are_none() -> None:
    text = "A list:\n- one\n\nNote:\n    Mind the step."
    assert read_docstring(text) == (text, {})


@pytest.mark.parametrize("docstring", [None, "", "   \n  "])
def test_empty_docstrings(docstring: str | None) -> None:
    assert read_docstring(docstring) == ("", {})


PIECES = """\
Args:|Returns:|Parameters|----------|Returns|:param x: y|:type x: int|x: text|x, y : int|*args: all|
    x (int): text|        more|  ||text"""
pieces = st.sampled_from(PIECES.split("|"))


@given(st.lists(pieces | st.text(), max_size=12))
def test_any_text_can_be_read(lines: list[str]) -> None:
    text, parameters = read_docstring("\n".join(lines))
    assert all(parameters.values())
    assert text == text.strip()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", range(6))
def test_arguments_under_the_masks_are_read(part: int) -> None:
    """Types of the catalogue as types of a parameter, without the properties that have defaults."""
    refused = []
    for entry in CATALOGUE[part::6]:
        refused += _refused_arguments(entry)
    assert refused == []


def _refused_arguments(entry: Entry) -> Iterator[str]:
    def call(value: Any) -> None: ...

    call.__annotations__ = {"value": entry.type}
    try:
        if gaps_of(entry):
            return
        tool = tool_from_function(call)
        machine = JsonSchemaStateMachine(
            tool.arguments_schema, whitespace="spaced", additional_properties="closed"
        )
    except (InvalidToolError, SchemaError):
        # Another law judges which types are refused; some are read by the other library alone.
        return
    for text in draw_texts(machine, entry.key, 6):
        try:
            tool.validate(json.loads(text))
        except ToolArgumentsError as error:
            yield f"{entry.key}: {text}: {error}"
