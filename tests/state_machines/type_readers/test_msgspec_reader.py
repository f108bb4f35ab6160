"""The schema of a msgspec type, for each kind of type: what ``msgspec.json.decode`` reads."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from state_machines import JsonSchemaStateMachine
from state_machines.errors import UnsatisfiableSchemaError

attrs = pytest.importorskip("attrs")
msgspec = pytest.importorskip("msgspec")

from msgspec import UNSET, Meta, Struct, UnsetType, inspect  # noqa: E402
from type_draws import draw_texts  # noqa: E402

from state_machines.type_readers.msgspec_reader import ROWS, msgspec_schema  # noqa: E402

T = TypeVar("T")


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 2


class Cat(Struct, tag="cat"):
    """A cat."""

    lives: Annotated[int, Meta(ge=0, le=9, description="Lives that are left.")] = 9


class Dog(Struct, tag="dog", rename="camel", forbid_unknown_fields=True):
    bark_volume: float
    colour: Colour = Colour.RED


class Triangle(Struct, tag=3, array_like=True):
    a: int
    b: Colour = Colour.RED


class Alone(Struct, tag=True, tag_field="kind"):
    a: int


class Tree(Struct):
    value: int
    children: list[Tree] = []


class Link(Struct):
    value: int
    following: Link = msgspec.field(default_factory=lambda: Link(0))


class Partial(Struct):
    a: int | UnsetType = UNSET
    b: str | UnsetType | None = UNSET


class Box(Struct, Generic[T]):
    content: T
    more: list[T] = []


class Checked(Struct):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")


class Frozen(Struct, frozen=True):
    a: int
    b: tuple[Any, ...] = ()


class Defaults(Struct):
    """Defaults of several types."""

    a: float = float("inf")
    b: datetime.date = datetime.date(2024, 1, 2)
    c: complex = 1j
    d: dict[Colour, int] = {}


class Broken(Struct):
    inner: Inner
    value: complex


class Inner(Struct):
    outer: Broken | None = None


class Movie(TypedDict):
    year: NotRequired[int]
    name: str


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Plain:
    a: int
    b: list[str] = dataclasses.field(default_factory=list)
    c: int = dataclasses.field(default=0, init=False)


@attrs.define
class Record:
    a: int
    b: str = attrs.field(default="x", alias="other", converter=str.upper)


@attrs.frozen
class Validated:
    a: int = attrs.field(validator=attrs.validators.ge(0))


@attrs.define
class CheckedRecord:
    a: int

    def __attrs_post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")


def meta(kind: Any, **constraints: Any) -> Any:
    return Annotated[kind, Meta(**constraints)]


def machine(kind: Any, *, write_defaults: bool = True) -> JsonSchemaStateMachine:
    schema = msgspec_schema(kind, write_defaults=write_defaults).schema
    return JsonSchemaStateMachine(schema, whitespace="spaced", additional_properties="closed")


def is_read(kind: Any, text: str) -> bool:
    try:
        msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        return False
    except TypeError as error:
        # Items of sets that are not hashable.
        assert "unhashable" in str(error)
        return False
    return True


CASES: dict[str, tuple[Any, list[str], list[str]]] = {
    "int, bounds": (meta(int, gt=-3, le=9), ["-2", "9"], ["-3", "10", "1.0"]),
    "float, multiple": (meta(float, multiple_of=0.25), ["0.5", "-1.75"], ["0.1", "0.3"]),
    "str, lengths": (meta(str, min_length=1, max_length=2), ['"\U0001f600b"'], ['""', '"abc"']),
    "str, pattern": (meta(str, pattern=r"^\d$"), ['"1"', '"\u0661"', '"1\\n"'], ['"12"', '"a"']),
    "str, searched": (meta(str, pattern="b", max_length=3), ['"abc"'], ['"a"', '"abcd"']),
    "bytes, lengths": (meta(bytes, min_length=2, max_length=2), ['"YWI="'], ['"YQ=="', '"YWJj"']),
    "Enum": (Colour, ['"red"'], ['"RED"', "1"]),
    "IntEnum": (Level, ["-1", "2"], ["1", '"2"', "2.0"]),
    "abstract class": (Iterable[int], ['"a"', "[1, null]", "{}"], ["1", "null"]),
    "hashable": (Hashable, ['"a"', "1", "null"], ["[]", "{}"]),
    "union": (int | str | list[int] | None, ["1", '"a"', "[1]", "null"], ["1.5", '["a"]']),
    "tuple of any length": (meta(tuple[int, ...], max_length=1), ["[]", "[1]"], ["[1, 2]"]),
    "set with True": (meta(set[int | bool], min_length=2), ["[true, 2]"], ["[1, true]"]),
    "set of any": (set, ['[1, "a", null]'], ["[[]]", "[{}]"]),
    "set of Structs": (set[Frozen], ['[{"a": 1, "b": [1]}]'], ['[{"a": 1, "b": [[]]}]']),
    "set of choices": (set[int | tuple[Any, ...]], ["[1, [null]]"], ["[[[]]]"]),
    "dict": (meta(dict[str, int], min_length=1), ['{"a": 1}'], ["{}", '{"a": "b"}']),
    "keys, bounds": (dict[meta(int, ge=0, lt=9), int], ['{"8": 1}'], ['{"9": 1}', '{"-1": 1}']),
    "keys, float": (dict[meta(float, lt=1), int], ['{"0.5": 1}'], ['{"1.5": 1}', '{"a": 1}']),
    "keys, multiple": (dict[meta(float, multiple_of=0.1, lt=1), int], ['{"0.2": 1}'], ['{"0.3": 1}', '{"1.6": 1}']),
    "keys, exact multiple": (dict[meta(float, multiple_of=0.5, ge=1), int], ['{"1.5": 1}'], ['{"1.25": 1}', '{"0.5": 1}']),
    "keys, enums": (dict[Colour | Level, int], ['{"red": 1, "2": 2}'], ['{"1": 1, "RED": 1}']),
    "keys, Literal": (dict[Literal["a", 1, None], int], ['{"a": 1, "1": 2}'], ['{"null": 1}']),
    "keys, pattern": (dict[meta(str, pattern="^a+$"), int], ['{"aa": 1}'], ['{"b": 1}']),
    "tagged union": (
        Cat | Dog,
        ['{"type": "cat", "lives": 9}', '{"type": "dog", "barkVolume": 1.5, "colour": "blue"}'],
        ['{"lives": 9}', '{"type": "dog", "lives": 9}', '{"type": "dog", "bark_volume": 1}'],
    ),
    "tagged array": (Triangle, ['[3, 1, "red"]'], ["[1]", '[4, 1, "red"]', "[3.0, 1]"]),
    "generic": (Box[Box[int]], ['{"content": {"content": 1, "more": []}, "more": []}'], ["{}"]),
    "UNSET": (Partial, ["{}", '{"a": 1}', '{"b": null}'], ['{"a": null}', '{"b": 1}']),
    "attrs": (Record, ['{"a": 1, "b": "x"}'], ["{}", '{"a": 1, "b": 2}']),
}  # fmt: skip
"""Types that the catalogue lacks, with texts that are read and written, and texts that are not."""

READ_BUT_NOT_WRITTEN: dict[str, tuple[Any, list[str]]] = {
    "members that msgspec ignores": (Tree, ['{"value": 1, "children": [], "x": 1}']),
    "members that msgspec overwrites": (Tree, ['{"value": 1, "value": 2, "children": []}']),
    "defaults that are left out": (Cat, ['{"type": "cat"}']),
    "a tag that is left out outside of a union": (Alone, ['{"a": 1}']),
    "fields that are not initialised": (Plain, ['{"a": 1, "b": [], "c": 2}']),
    "items behind those of an array": (Triangle, ['[3, 1, "red", 9]', "[3, 1]"]),
    "decimals that are not finite": (Decimal, ['"NaN"', '" 1"', '"1_0"']),
    "unused bits of base64": (bytes, ['"YR=="']),
    "equal items of a set": (set[int], ["[1, 1]"]),
}


@pytest.mark.parametrize("name", CASES)
def test_masks_admit_what_msgspec_reads(name: str) -> None:
    kind, read, refused = CASES[name]
    made = machine(kind)
    for text in read:
        assert is_read(kind, text), text
        assert made.matches(text), text
    for text in refused:
        assert not made.matches(text), text
        try:
            assert not is_read(kind, text), text
        except msgspec.DecodeError:
            # No JSON, or a lone surrogate.
            continue


@pytest.mark.parametrize("name", READ_BUT_NOT_WRITTEN)
def test_texts_that_msgspec_reads_but_does_not_write_are_not_generated(name: str) -> None:
    kind, texts = READ_BUT_NOT_WRITTEN[name]
    made = machine(kind)
    for text in texts:
        assert is_read(kind, text), text
        assert not made.matches(text), text


@pytest.mark.parametrize("name", CASES)
def test_drawn_texts_are_read(name: str) -> None:
    kind = CASES[name][0]
    for text in draw_texts(machine(kind), name, 24):
        msgspec.json.decode(text, type=kind)


def test_every_kind_of_type_has_a_row() -> None:
    abstract = {inspect.Type, inspect.CollectionType, inspect.Metadata}
    kinds = {
        kind
        for kind in vars(inspect).values()
        if isinstance(kind, type) and issubclass(kind, inspect.Type)
    }
    assert kinds - abstract == set(ROWS)


STEPS = st.floats(min_value=1e-6, max_value=1e6) | st.sampled_from([0.1, 0.01, 0.25, 3.0, 1e-5])


@settings(max_examples=30, deadline=None)
@given(step=STEPS, seed=st.integers(0, 99))
def test_multiples_of_a_float_have_no_remainder(step: float, seed: int) -> None:
    kind = meta(float, multiple_of=step)
    for text in draw_texts(machine(kind), str(seed), 6):
        msgspec.json.decode(text, type=kind)


@settings(max_examples=30, deadline=None)
@given(low=st.integers(-(2**63), 2**63 - 1), size=st.integers(0, 2**20), step=st.integers(1, 9))
def test_bounded_integers_are_read(low: int, size: int, step: int) -> None:
    kind = meta(int, ge=low, le=min(low + size + step, 2**63 - 1), multiple_of=step)
    if (low + step - 1) // step * step > min(low + size + step, 2**63 - 1):
        return
    for text in draw_texts(machine(kind), f"{low}", 3):
        msgspec.json.decode(text, type=kind)


def test_defaults_may_be_optional() -> None:
    made = machine(Cat | Dog, write_defaults=False)
    assert made.matches('{"type": "cat"}')
    assert made.matches('{"type": "dog", "barkVolume": 1.5}')
    assert not made.matches("{}")
    assert machine(Triangle, write_defaults=False).matches("[3, 1]")


def test_default_that_contains_its_own_class_is_optional() -> None:
    made = machine(Link)
    assert made.matches('{"value": 1}')
    assert made.matches('{"value": 1, "following": {"value": 2}}')


def test_schema_has_titles_descriptions_and_defaults() -> None:
    schema = msgspec_schema(list[Cat | Dog]).schema
    assert schema["$defs"]["Cat"] == {
        "title": "Cat",
        "description": "A cat.",
        "type": "object",
        "properties": {
            "type": {"const": "cat"},
            "lives": {
                "description": "Lives that are left.",
                "type": "integer",
                "minimum": 0,
                "maximum": 9,
                "default": 9,
            },
        },
        "additionalProperties": False,
        "required": ["type", "lives"],
    }
    assert schema["$defs"]["Dog"]["properties"]["colour"] == {
        "$ref": "#/$defs/Colour",
        "default": "red",
    }
    assert schema["$defs"]["Colour"]["description"] == "A colour."


def test_default_that_is_no_json_constrains_nothing() -> None:
    found = msgspec_schema(Defaults)
    assert found.schema["properties"]["a"] == {"type": "number"}
    assert found.schema["properties"]["b"]["default"] == "2024-01-02"
    # No JSON is read as a complex number.
    assert "c" not in found.schema["properties"]
    assert [(gap.pointer, "'c'" in gap.reason) for gap in found.left_out] == [("", True)]


def test_keywords_of_extra_json_schema_restrict_a_type() -> None:
    kind = meta(int, ge=0, extra_json_schema={"maximum": 5, "minimum": -5, "x-unit": "m"})
    assert msgspec_schema(kind).schema == {
        "maximum": 5,
        "minimum": 0,
        "x-unit": "m",
        "type": "integer",
    }


def test_classes_of_one_name_have_separate_definitions() -> None:
    def other() -> Any:
        return msgspec.defstruct("Cat", [("name", str)], tag="other")

    schema = msgspec_schema(tuple[Cat, other(), other()]).schema
    assert len(schema["$defs"]) == 3
    assert len({item["$ref"] for item in schema["prefixItems"]}) == 3


@pytest.mark.parametrize(
    ("kind", "pointer", "word"),
    [
        (complex, "", "dec_hook"),
        (list[complex], "/items", "Struct"),
        (msgspec.defstruct("Outer", [("a", int), ("b", complex)]), "/properties/b", "complex"),
        (tuple[int, msgspec.msgpack.Ext], "/prefixItems/1", "bytes"),
        (set[list[int]], "/items", "tuple"),
        (set[Cat], "/items", "frozen"),
        (set[bytearray], "/items", "bytes"),
        (set[msgspec.Raw], "/items", "Any"),
        (set[Movie], "/items", "frozen"),
        (list[dict[bool, int]], "/items", "keys"),
        (dict[tuple[int, int], int], "", "keys"),
    ],
)
def test_type_that_no_json_is_read_as_is_an_error(kind: Any, pointer: str, word: str) -> None:
    with pytest.raises(UnsatisfiableSchemaError) as caught:
        msgspec_schema(kind)
    assert caught.value.pointer == pointer
    assert word in str(caught.value)


def test_choice_that_no_json_is_read_as_is_left_out() -> None:
    found = msgspec_schema(list[int | msgspec.msgpack.Ext])
    assert found.schema == {"type": "array", "items": {"type": "integer"}}
    assert [gap.pointer for gap in found.left_out] == ["/items"]


def test_failed_definition_leaves_no_reference() -> None:
    kind = msgspec.defstruct("Whole", [("a", int), ("b", Broken, None), ("c", dict[str, int], {})])
    found = msgspec_schema(kind)
    assert "$defs" not in found.schema
    assert set(found.schema["properties"]) == {"a", "c"}


@pytest.mark.parametrize(
    ("kind", "pointer"),
    [
        (Checked, ""),
        (list[Checked], "/$defs/Checked"),
        (CheckedRecord, ""),
        (Validated, "/properties/a"),
    ],
)
def test_code_of_a_class_is_a_gap(kind: Any, pointer: str) -> None:
    assert [gap.pointer for gap in msgspec_schema(kind).gaps] == [pointer]


def test_class_without_code_has_no_gap() -> None:
    for kind in (Cat | Dog, Plain, Point, Movie, Record):
        assert msgspec_schema(kind).gaps == ()


@pytest.mark.parametrize("kind", [list[int] | set[int], dict[str, int] | Cat, meta(str, ge=1)])
def test_type_that_msgspec_does_not_support_is_an_error(kind: Any) -> None:
    with pytest.raises(TypeError):
        msgspec_schema(kind)


def test_every_draw_of_a_whole_record_is_decoded_and_written_back() -> None:
    kind = dict[Level, list[Cat | Dog]] | None
    for text in draw_texts(machine(kind), "record", 60):
        value = msgspec.json.decode(text, type=kind)
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


@attrs.define(frozen=True)
class NotedAttrs:
    value: int
    note: str = attrs.field(default="", eq=False)


@attrs.define(frozen=True)
class AnyCaseAttrs:
    name: str = attrs.field(eq=str.lower)


@pytest.mark.parametrize(("kind", "word"), [(NotedAttrs, "note"), (AnyCaseAttrs, "name")])
def test_equality_that_ignores_fields_is_a_gap_of_sets_with_a_minimum(kind: Any, word: str) -> None:
    found = msgspec_schema(meta(set[kind], min_length=2))
    assert [word in gap.reason for gap in found.gaps] == [True]
    assert msgspec_schema(set[kind]).gaps == ()


class Spread(NamedTuple):
    low: int
    high: int = 0


FrozenSpread = msgspec.defstruct("FrozenSpread", [("low", int), ("high", int, 0)], frozen=True)


@pytest.mark.parametrize("kind", [Spread, FrozenSpread])
def test_defaults_are_written_in_sets_with_a_minimum(kind: Any) -> None:
    """The item without the default equals the one with it."""
    short, long = ("[1]", "[1, 0]") if kind is Spread else ('{"low": 1}', '{"low": 1, "high": 0}')
    made = JsonSchemaStateMachine(
        msgspec_schema(meta(set[kind], min_length=2), write_defaults=False).schema
    )
    assert made.matches(f"[{long}, {long.replace('1', '2')}]")
    assert not made.matches(f"[{short}, {long}]")
