"""The schema of a pydantic type: its members, what is left out, and what masks do not guarantee."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import json
import math
import pathlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.json_schema import SkipJsonSchema
from pydantic_core.core_schema import CoreSchemaType

from state_machines import JsonSchemaStateMachine
from state_machines.errors import UnsatisfiableSchemaError
from state_machines.type_readers.pydantic_reader import ROWS, pydantic_schema
from state_machines.type_readers.type_schema import TypeSchema


def described(kind: Any, *, write_defaults: bool = True) -> TypeSchema:
    return pydantic_schema(TypeAdapter(kind), write_defaults=write_defaults)


def machine(kind: Any, *, write_defaults: bool = True) -> JsonSchemaStateMachine:
    schema = described(kind, write_defaults=write_defaults).schema
    return JsonSchemaStateMachine(schema, whitespace="spaced", additional_properties="closed")


def check(
    kind: Any, admitted: list[str], refused: list[str], *, write_defaults: bool = True
) -> None:
    """Check texts that the type reads, and texts that a mask excludes."""
    made = machine(kind, write_defaults=write_defaults)
    for text in admitted:
        TypeAdapter(kind).validate_json(text)
        assert made.matches(text), text
    for text in refused:
        assert not made.matches(text), text


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog", "puppy"] = "dog"
    barks: bool


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def test_tag_with_a_default_is_written() -> None:
    check(
        Pet,
        ['{"kind": "cat"}', '{"kind": "puppy", "barks": true}'],
        ['{"lives": 9}', "{}", '{"barks": true}'],
        write_defaults=False,
    )


def test_tag_is_written_under_its_alias() -> None:
    class Square(BaseModel):
        shape: Literal["square"] = Field("square", alias="type")

    class Circle(BaseModel):
        shape: Literal["circle"] = Field("circle", alias="type")

    kind = Annotated[Square | Circle, Field(discriminator="shape")]
    check(kind, ['{"type": "square"}'], ["{}", '{"shape": "square"}'], write_defaults=False)


def test_callable_discriminator_is_a_gap() -> None:
    def tag(value: Any) -> str:
        return "cat"

    tagged = Annotated[Cat, pydantic.Tag("cat")] | Annotated[Dog, pydantic.Tag("dog")]
    kind = Annotated[tagged, pydantic.Discriminator(tag)]
    assert [str(gap) for gap in described(kind).gaps] == ["#: the discriminator tag of the union"]


def test_properties_with_defaults_are_written_unless_they_are_optional() -> None:
    class Order(BaseModel):
        due: datetime.date | None = None
        count: int = 1

    written, part = '{"due": null, "count": 2}', '{"count": 2}'
    check(Order, [written], [part, "{}"])
    check(Order, [written, part, "{}"], [], write_defaults=False)


class Link(BaseModel):
    value: int = 0
    next: Link = None  # type: ignore[assignment]


class Leaf(BaseModel):
    parent: Link | None = None


def test_default_that_would_never_end_is_optional() -> None:
    check(Link, ['{"value": 1}', '{"value": 1, "next": {"value": 2}}'], ["{}", '{"next": {}}'])
    check(Leaf, ['{"parent": {"value": 1}}', '{"parent": null}'], ["{}"])


class Pair(NamedTuple):
    left: int
    right: int = 0


def test_items_with_defaults_are_written() -> None:
    check(Pair, ["[1, 2]"], ["[1]"])


class Odd(enum.Enum):
    TUPLE = (1, 2)
    BYTES = b"x"
    DATE = datetime.date(2024, 1, 1)
    TEXT = "text"
    NUMBER = 3
    NOTHING = None


def test_members_that_no_json_becomes_are_left_out_and_named() -> None:
    check(Odd, ['"text"', "3", "null"], ["[1, 2]", '"x"', '"2024-01-01"'])

    class Holder(BaseModel):
        odd: Odd

    left_out = [str(part) for part in described(Holder).left_out]
    assert len(left_out) == 3
    assert all(part.startswith("#/$defs/Odd: ") for part in left_out)


def test_type_without_readable_members_is_an_error_with_the_pointer() -> None:
    class Plain(enum.Enum):
        A = "a"

    class Holder(BaseModel):
        choice: Literal[Plain.A]

    with pytest.raises(UnsatisfiableSchemaError, match="no JSON value is read") as raised:
        described(Holder)
    assert raised.value.pointer == "/properties/choice"
    assert raised.value.hint


def test_property_that_is_no_data_is_left_out_if_it_has_a_default() -> None:
    class Callback(BaseModel):
        call: Callable[[int], int] = abs
        name: str

    check(Callback, ['{"name": "a"}'], ['{"call": null, "name": "a"}'])
    assert [part.pointer for part in described(Callback).left_out] == [""]

    class Required(BaseModel):
        call: Callable[[int], int]

    with pytest.raises(UnsatisfiableSchemaError) as raised:
        described(Required)
    assert raised.value.pointer == "/properties/call"


def test_aliases_are_names_and_paths() -> None:
    class User(BaseModel):
        first: str = Field(validation_alias=AliasPath("names", 0))
        last: str = Field(validation_alias=AliasPath("names", 1))
        city: str = Field(validation_alias=AliasPath("address", "city"))
        age: int = Field(validation_alias=AliasChoices(AliasPath("a", 0), "years", "age"))

    text = '{"names": ["Ada", "L"], "address": {"city": "Rome"}, "years": 36}'
    check(User, [text], ['{"names": ["Ada"], "address": {"city": "Rome"}, "years": 36}'])
    assert TypeAdapter(User).validate_json(text).age == 36


def test_fields_that_are_no_argument_are_left_out() -> None:
    @pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid"))
    class Item:
        name: str
        total: int = dataclasses.field(default=3, init=False)

    check(Item, ['{"name": "a"}'], ['{"name": "a", "total": 3}'])


def test_defaults_that_are_no_json_constrain_nothing() -> None:
    class Limits(BaseModel):
        high: float = math.inf
        low: float = Field(0.5, ge=Decimal("0.25"))

    check(Limits, ['{"high": 1.5, "low": 0.25}'], ['{"high": 1.5, "low": 0.2}'])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize(
    ("keys", "admitted", "refused"),
    [
        (int, ["1", "-20", "0"], ["x", "01", "1.0", " 1 ", "-0", ""]),
        (Annotated[int, Field(gt=3, le=12)], ["4", "12"], ["3", "13", "x"]),
        (float, ["1.5", "-0.25"], ["x", "01.5", ""]),
        (bool, ["true", "false"], ["True", "1", "x"]),
        (Decimal, ["1.5", "0"], ["x", "01"]),
        (Level, ["1", "2"], ["LOW", "3", "01"]),
        (Literal["a", "b"], ["a"], ["c", ""]),
        (datetime.date, ["2024-02-29"], ["2023-02-29", "x"]),
        (Annotated[str, Field(pattern="^[ab]+$")], ["ab"], ["c", ""]),
        (int | Literal["all"], ["7", "all"], ["x"]),
    ],
)
def test_keys_are_texts_that_the_type_reads(
    keys: Any, admitted: list[str], refused: list[str]
) -> None:
    check(
        dict[keys, bool],
        [f'{{"{name}": true}}' for name in admitted],
        [f'{{"{name}": true}}' for name in refused],
    )


def test_keys_that_no_json_is_read_as_leave_the_empty_object() -> None:
    check(dict[tuple[int, int], bool], ["{}"], ['{"1": true}', '{"[1, 2]": true}'])
    assert [part.pointer for part in described(dict[tuple[int, int], bool]).left_out] == [""]


def test_keys_that_no_json_is_read_as_are_an_error_of_a_dict_with_a_minimum() -> None:
    for keys in (tuple[int, int], frozenset[int]):
        with pytest.raises(UnsatisfiableSchemaError, match="as a key") as info:
            described(list[Annotated[dict[keys, int], Field(min_length=1)]])
        assert info.value.hint


def test_items_of_sets_are_hashable() -> None:
    check(set[Any], ['["a", 1, null]'], ["[[1]]", "[{}]"])


@dataclasses.dataclass
class Spot:
    x: int


@pytest.mark.parametrize("items", [dict[str, int], set[int], list[int], Cat, Spot])
def test_items_that_are_not_hashable_are_an_error_with_the_pointer(items: Any) -> None:
    class Holder(BaseModel):
        found: set[items]

    with pytest.raises(UnsatisfiableSchemaError, match="is not hashable") as raised:
        described(Holder)
    assert raised.value.pointer == "/properties/found"
    choices = Annotated[set[items | int], Field(min_length=1)]
    check(choices, ["[1]"], ["[[]]", "[{}]", '[{"x": 1}]'])


def test_items_of_sets_with_a_minimum_are_different_values() -> None:
    pair = Annotated[set[datetime.datetime], Field(min_length=2)]
    check(
        pair,
        ['["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]'],
        ['["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+00:00"]'],
    )


def test_validators_of_the_user_are_gaps_with_pointers() -> None:
    def even(value: int) -> int:
        return value

    class Box(BaseModel):
        size: Annotated[int, pydantic.AfterValidator(even)]
        path: pydantic.FilePath

        @pydantic.model_validator(mode="after")
        def fits(self) -> Box:
            return self

    found = {gap.pointer.removeprefix("/$defs/Box"): gap.reason for gap in described(Box).gaps}
    assert found["/properties/path"] == "the file exists"
    assert "even" in found["/properties/size"]
    assert "fits" in found[""]


def test_schema_has_no_marks() -> None:
    class Model(BaseModel):
        odd: Odd = Odd.TEXT
        size: Annotated[int, pydantic.AfterValidator(abs)] = 1

    assert "x-type" not in str(described(Model).schema)


@pytest.mark.parametrize("write_defaults", [True, False])
def test_schema_of_a_type_is_the_same_each_time(write_defaults: bool) -> None:
    assert described(Pet, write_defaults=write_defaults) == described(
        Pet, write_defaults=write_defaults
    )


def test_rows_are_kinds_of_core_schemas() -> None:
    assert ROWS.keys() <= set(get_args(CoreSchemaType))


class Stay(BaseModel):
    model_config = ConfigDict(frozen=True)
    day: datetime.date
    at: datetime.datetime


def test_models_in_sets_with_a_minimum_are_different_values() -> None:
    class Trip(BaseModel):
        stays: Annotated[frozenset[Stay], Field(min_length=2)]
        first: Stay

    schema = described(Trip).schema
    assert '"canonical": true' in json.dumps(schema["properties"]["stays"])
    assert '"canonical": true' not in json.dumps(schema["$defs"])


class Amount(pydantic.RootModel[int]):
    model_config = ConfigDict(frozen=True)


@pytest.mark.parametrize(
    "keys", [Annotated[int, pydantic.AfterValidator(abs)], Amount, pydantic.ByteSize]
)
def test_keys_are_read_behind_functions_and_root_models(keys: Any) -> None:
    check(dict[keys, int], ['{"12": 1}', "{}"], ['{"x": 1}'])


def test_validators_of_keys_are_gaps() -> None:
    found = described(dict[Annotated[int, pydantic.AfterValidator(abs)], int])
    assert [str(gap) for gap in found.gaps] == ["#/propertyNames: the validator abs of the type"]


@pytest.mark.parametrize("items", [Cat, list[int], set[int], dict[str, int], pydantic.NameEmail])
def test_items_that_are_not_hashable_are_an_error_with_a_hint(items: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError, match="is not hashable") as error:
        described(set[items])
    assert error.value.hint


def test_addresses_in_sets_with_a_minimum_are_written_as_they_are_read() -> None:
    kind = Annotated[set[pydantic.IPvAnyAddress], Field(min_length=2)]
    check(kind, ['["::1", "1.2.3.4"]'], ['["::1", "0:0:0:0:0:0:0:1"]'])


def test_unions_in_sets_with_a_minimum_have_numbers_of_one_type_and_all_texts() -> None:
    kind = Annotated[set[Literal["a"] | int], Field(min_length=2)]
    check(kind, ['["a", 1]', "[1, 2]"], ['["a"]', '["a", "a"]'])


def test_aliases_that_are_read_together_are_chosen() -> None:
    class ByName(BaseModel):
        model_config = ConfigDict(validate_by_name=True)
        size: int = Field(validation_alias=AliasPath("box", "size"))
        box: int

    check(ByName, ['{"size": 1, "box": 2}'], ['{"box": {"size": 1}}', '{"box": 2}'])


def test_value_of_several_fields_is_read_by_each() -> None:
    class Shared(BaseModel):
        low: Annotated[int, Field(ge=0)] = Field(alias="value")
        high: Annotated[int, Field(le=10)] = Field(alias="value")
        counts: dict[str, int]
        total: int = Field(validation_alias=AliasPath("counts", "total"))

    check(
        Shared,
        ['{"value": 5, "counts": {"total": 1}}'],
        ['{"value": -1, "counts": {"total": 1}}', '{"value": 5, "counts": {}}'],
    )


def test_private_attributes_are_no_gap() -> None:
    class Hidden(BaseModel):
        shown: int
        _hidden: int = pydantic.PrivateAttr(3)

    class Checked(Hidden):
        def model_post_init(self, context: Any) -> None:
            raise ValueError(context)

    assert described(Hidden).gaps == ()
    assert [gap.reason for gap in described(Checked).gaps] == ["model_post_init of Checked"]


def test_constraints_in_json_schema_extra_are_gaps() -> None:
    def without_required(schema: dict[str, Any]) -> None:
        del schema["required"]

    class Described(BaseModel):
        model_config = ConfigDict(json_schema_extra={"examples": [{"count": 1}]})
        count: int = Field(json_schema_extra={"x-unit": "pieces"})

    class Changed(BaseModel):
        model_config = ConfigDict(json_schema_extra=without_required)
        count: int = Field(json_schema_extra=lambda schema: schema.update(minimum=3))

    assert described(Described).gaps == ()
    assert {gap.pointer for gap in described(Changed).gaps} == {"", "/properties/count"}


def test_values_of_enums_are_no_gap() -> None:
    class Corner(enum.Enum):
        TOP = "top"

    class Box(BaseModel):
        model_config = ConfigDict(use_enum_values=True)
        corner: Corner

    assert described(Box).gaps == ()


@pytest.mark.parametrize(
    ("kind", "bound", "refused"),
    [
        (pydantic.PastDatetime, {"lt": datetime.datetime(2999, 1, 1)}, "2998-01-01T00:00:00Z"),
        (pydantic.FutureDatetime, {"gt": datetime.datetime(1999, 1, 1)}, "2000-01-01T00:00:00Z"),
        (pydantic.PastDate, {"lt": datetime.date(2999, 1, 1)}, "2998-01-01"),
        (pydantic.FutureDate, {"gt": datetime.date(1999, 1, 1)}, "2000-01-01"),
    ],
)
def test_now_limits_times_beside_a_bound(kind: Any, bound: dict[str, Any], refused: str) -> None:
    bounded = Annotated[kind, Field(**bound)]
    with pytest.raises(pydantic.ValidationError):
        TypeAdapter(bounded).validate_json(f'"{refused}"')
    assert not machine(bounded).matches(f'"{refused}"')


class Sized(pydantic.RootModel[list[int]]):
    def __len__(self) -> int:
        return len(self.root)


class AnyCase(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyCase) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


@dataclasses.dataclass(frozen=True)
class Noted:
    value: int
    note: str = dataclasses.field(default="", compare=False)


class Shade(enum.Enum):
    DARK = "dark"


@pytest.mark.parametrize(
    ("kind", "constraint"),
    [
        (pydantic.Secret[str], {"min_length": 8}),
        (pydantic.Secret[int], {"ge": 1}),
        (pydantic.NameEmail, {"max_length": 20}),
        (pydantic.RootModel[int], {"multiple_of": 2}),
        (pathlib.Path, {"max_length": 3}),
        (complex, {"min_length": 1}),
        (Shade, {"max_length": 2}),
    ],
)
def test_constraint_that_no_value_can_satisfy_is_an_error(
    kind: Any, constraint: dict[str, Any]
) -> None:
    limited = Annotated[kind, Field(**constraint)]
    with pytest.raises(UnsatisfiableSchemaError, match="applies to no value") as info:
        described(tuple[int, limited])
    assert next(iter(constraint)) in info.value.what


@pytest.mark.parametrize(
    ("kind", "constraint"),
    [
        (datetime.date | datetime.datetime, {"ge": datetime.date(2020, 1, 1)}),
        (str, {"gt": "b"}),
        (list[int], {"gt": [1]}),
        (uuid.UUID, {"ge": uuid.UUID(int=5)}),
        (datetime.timedelta, {"multiple_of": datetime.timedelta(days=1)}),
        (ipaddress.IPv4Address, {"le": ipaddress.IPv4Address("10.0.0.0")}),
        (Sized, {"max_length": 2}),
        (str | list[int], {"min_length": 2}),
    ],
)
def test_constraint_that_json_schema_does_not_describe_is_a_gap(
    kind: Any, constraint: dict[str, Any]
) -> None:
    found = described(Annotated[kind, Field(**constraint)])
    assert [next(iter(constraint)) in gap.reason for gap in found.gaps] == [True]
    JsonSchemaStateMachine(found.schema)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [(tuple[int, int], {"min_length": 3}), (tuple[int, int], {"max_length": 1})],
)
def test_length_that_no_tuple_has_is_an_error(kind: Any, sizes: dict[str, Any]) -> None:
    with pytest.raises(UnsatisfiableSchemaError, match="no tuple has"):
        described(Annotated[kind, Field(**sizes)])


class Hiding(BaseModel):
    shown: int | SkipJsonSchema[None]
    hidden: SkipJsonSchema[int] = 3


class HidingRequired(BaseModel):
    hidden: SkipJsonSchema[int]


def test_hidden_part_of_a_type_is_left_out_unless_every_value_needs_it() -> None:
    check(Hiding, ['{"shown": 1}'], ['{"shown": null}', '{"shown": 1, "hidden": 3}'])
    with pytest.raises(UnsatisfiableSchemaError) as info:
        described(list[HidingRequired])
    assert "SkipJsonSchema" in str(info.value)
    assert info.value.pointer == "/properties/hidden"
    for kind in (list[SkipJsonSchema[int]], dict[str, SkipJsonSchema[int]], SkipJsonSchema[int]):
        with pytest.raises(UnsatisfiableSchemaError, match="hides"):
            described(kind)


def at_least_two(kind: Any) -> Any:
    return Annotated[set[kind], Field(min_length=2)]


@pytest.mark.parametrize(
    ("kind", "word"), [(AnyCase, "__eq__ of AnyCase"), (Noted, "note of Noted")]
)
def test_equality_that_ignores_fields_is_a_gap_of_sets_with_a_minimum(kind: Any, word: str) -> None:
    assert [word in gap.reason for gap in described(at_least_two(kind)).gaps] == [True]
    assert described(set[kind]).gaps == ()


class Spread(NamedTuple):
    low: int
    high: int = 0


class FrozenSpread(BaseModel):
    model_config = ConfigDict(frozen=True)
    low: int
    high: int = 0


@dataclasses.dataclass(frozen=True)
class SpreadData:
    low: int
    high: int = 0


@pytest.mark.parametrize("kind", [Spread, FrozenSpread, SpreadData])
def test_defaults_are_written_in_sets_with_a_minimum(kind: Any) -> None:
    """The item without the default equals the one with it."""
    short, long = ("[1]", "[1, 0]") if kind is Spread else ('{"low": 1}', '{"low": 1, "high": 0}')
    other = long.replace("1", "2")
    check(at_least_two(kind), [f"[{long}, {other}]"], [f"[{short}, {long}]"], write_defaults=False)
    check(set[kind], [f"[{short}]"], [], write_defaults=False)


def test_choice_that_a_set_cannot_contain_is_a_gap_beside_one_of_equal_json() -> None:
    """A union reads the array of a tuple as a list, if that choice is the first."""
    found = described(set[list[int] | tuple[int, ...]])
    assert ["a list is not hashable" in gap.reason for gap in found.gaps] == [True]
    assert described(set[list[int] | int]).gaps == ()


class Lowered(BaseModel):
    model_config = ConfigDict(str_to_lower=True)
    email: pydantic.EmailStr
    size: pydantic.ByteSize
    data: list[pydantic.Base64Str]
    emails: set[pydantic.EmailStr]
    two: Annotated[set[pydantic.EmailStr], Field(min_length=2)]


def test_case_that_is_converted_before_a_text_is_read_is_a_gap() -> None:
    found = {gap.pointer: gap.reason for gap in described(Lowered).gaps}
    assert set(found) == {"/properties/data/items", "/properties/two/items"}
    assert all("the case is converted" in reason for reason in found.values())
    assert described(pydantic.Base64Str).gaps == ()


class ValidatedDefaults(BaseModel):
    model_config = ConfigDict(validate_default=True)
    right: int = 1
    wrong: int = None  # type: ignore[assignment]
    made: list[int] = Field(default_factory=list)


def test_default_that_the_type_validates_and_refuses_is_written() -> None:
    check(
        ValidatedDefaults,
        ['{"right": 2, "wrong": 3, "made": []}', '{"wrong": 3, "made": []}'],
        ["{}", '{"right": 2}'],
        write_defaults=False,
    )
