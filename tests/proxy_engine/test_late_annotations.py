"""Annotations that Python 3.14 evaluates when they are read (PEP 649), in every kind of type.

The names in them are defined after the types. The sources are texts: earlier versions of Python
evaluate annotations at the definition, and fail there.
"""

from __future__ import annotations

import sys
import textwrap
import types
from typing import Any

import pytest

from proxy_engine import InferenceEngine, InvalidResponseFormatError, InvalidToolError
from proxy_engine.tools import resolve_tool
from proxy_engine.type_reader import type_reader

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 14), reason="annotations are evaluated at the definition"
)

LATER = """
class Unit(enum.Enum):
    METRE = "m"
    FOOT = "ft"
"""
HEAD = """
import dataclasses, enum, typing
import pydantic
"""
KINDS = {
    "pydantic": "class Size(pydantic.BaseModel):\n    value: int\n    unit: Unit",
    "dataclass": "@dataclasses.dataclass\nclass Size:\n    value: int\n    unit: Unit",
    "typed dict": "class Size(typing.TypedDict):\n    value: int\n    unit: Unit",
    "named tuple": "class Size(typing.NamedTuple):\n    value: int\n    unit: Unit",
    "msgspec": "import msgspec\nclass Size(msgspec.Struct):\n    value: int\n    unit: Unit",
    "dataclass of msgspec": "import msgspec\n@dataclasses.dataclass\nclass Size:\n"
    "    value: typing.Annotated[int, msgspec.Meta(ge=0)]\n    unit: Unit",
    "typed dict of msgspec": "import msgspec\nclass Size(typing.TypedDict):\n"
    "    value: typing.Annotated[int, msgspec.Meta(ge=0)]\n    unit: Unit",
}
TOOL = """
def measure(unit: Unit, times: int = 1) -> Missing:
    \"\"\"Measure.\"\"\"
    return None
"""


def _module(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType("late_annotations")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(textwrap.dedent(source), "late", "exec", dont_inherit=True), vars(module))
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_type_may_name_a_later_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "msgspec" in kind:
        pytest.importorskip("msgspec")
    module = _module(HEAD + KINDS[kind] + "\n" + LATER, monkeypatch)
    reader = type_reader(module.Size)
    text = '[1, "m"]' if kind == "named tuple" else '{"value": 1, "unit": "m"}'
    value = reader.read(text)
    unit = value["unit"] if isinstance(value, dict) else value.unit
    assert unit is module.Unit.METRE
    assert set(str(reader.schema).split("'")) >= {"m", "ft"}


@pytest.mark.parametrize("kind", KINDS)
def test_undefined_name_is_an_error_of_the_format(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "msgspec" in kind:
        pytest.importorskip("msgspec")
    module = _module(HEAD + KINDS[kind], monkeypatch)
    with pytest.raises(InvalidResponseFormatError, match=r"Unit|not defined"):
        type_reader(module.Size)


def test_parameter_of_a_tool_may_name_a_later_type(
    roomy_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _module(HEAD + TOOL.replace("Missing", "None") + LATER, monkeypatch)
    tool = resolve_tool(module.measure)
    assert tool.parse({"unit": "ft"}) == {"unit": module.Unit.FOOT, "times": 1}
    result = roomy_engine.generate(
        "x", tools=[module.measure], tool_choice="required", max_tokens=90
    )
    (call,) = result.tool_calls
    assert call.arguments["unit"] in ("m", "ft")


def test_undefined_name_of_a_tool_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(HEAD + TOOL, monkeypatch)
    with pytest.raises(InvalidToolError, match=r"'(Unit|Missing)' is not defined"):
        resolve_tool(module.measure)
