"""Records of msgspec: structs, dataclasses, attrs classes, TypedDicts, NamedTuples."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    TypedDict,
)

import attrs
import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from typing_extensions import TypeVar

from type_catalogue.entry import in_msgspec as entry

__all__ = ["ENTRIES"]


class Simple(Struct):
    a: int
    b: str


class Defaults(Struct):
    a: int = 1
    b: list[int] = []
    c: str | None = None
    d: dict[str, int] = msgspec.field(default_factory=dict)
    e: float = float("inf")


class OmitDefaults(Struct, omit_defaults=True):
    a: int = 1
    b: str = ""


class Closed(Struct, forbid_unknown_fields=True):
    a: int
    b: str = ""


class Renamed(Struct, rename="camel"):
    first_name: str
    last_name: str = ""


class RenamedField(Struct):
    a: int = msgspec.field(name="the a")
    b: int = msgspec.field(name="$é", default=0)


class RenamedByFunction(Struct, rename=str.upper):
    a: int


class KeywordOnly(Struct, kw_only=True):
    a: int = 1
    b: str


class Frozen(Struct, frozen=True, order=True):
    a: int


class Array(Struct, array_like=True):
    a: int
    b: str = "x"


class ClosedArray(Struct, array_like=True, forbid_unknown_fields=True):
    a: int
    b: int | None = None


class TaggedArray(Struct, array_like=True, tag=True):
    a: int


class Unset(Struct):
    a: int | UnsetType = UNSET
    b: str | UnsetType | None = UNSET


class Cat(Struct, tag=True):
    lives: int = 9


class Dog(Struct, tag=True):
    barks: float


class Lower(Struct, tag=str.lower):
    a: int = 0


class Circle(Struct, tag_field="kind", tag="circle"):
    radius: float


class Square(Struct, tag_field="kind", tag="square"):
    side: float = 1.0


class One(Struct, tag=1):
    a: int


class Two(Struct, tag=2):
    b: int = 0


class ArrayOne(Struct, tag="one", array_like=True):
    a: int


class ArrayTwo(Struct, tag="two", array_like=True):
    b: str
    c: int = 0


class Base(Struct):
    a: int


class Child(Base):
    b: Annotated[str, Meta(min_length=1)] = "x"


class Constrained(Struct):
    a: Annotated[int, Meta(ge=0, le=9)]
    b: Annotated[str, Meta(pattern="^[a-z]+$", max_length=3)] = "a"
    c: Annotated[list[Annotated[float, Meta(gt=0)]], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: [1.0]
    )


class Described(Struct):
    """A struct with annotations."""

    a: Annotated[
        int, Meta(title="A", description="d", examples=[1], extra_json_schema={"x-unit": "m"})
    ]


class Nested(Struct):
    inner: Simple
    more: list[Constrained] = []
    pet: Cat | Dog | None = None


class Tree(Struct):
    value: int
    children: list[Tree] = []


class Chain(Struct):
    head: str
    tail: Chain | None


class PostInit(Struct):
    a: int

    def __post_init__(self) -> None:
        if self.a > 10:
            raise ValueError("too large")


class ClassMembers(Struct):
    kind: ClassVar[str] = "x"
    a: int = 0


class NoFields(Struct):
    """No fields."""


class Event(Struct, tag_field="type", tag="event", forbid_unknown_fields=True):
    on: date
    raw: msgspec.Raw = msgspec.Raw(b"null")


T = TypeVar("T")


class Box(Struct, Generic[T]):
    content: T
    more: list[T] = []


class GenericBase(Struct, Generic[T]):
    value: T


class IntChild(GenericBase[int]):
    other: str = ""


@dataclass
class Plain:
    a: int
    b: list[str] = field(default_factory=list)


@dataclass
class NotInit:
    a: int
    b: int = field(default=2, init=False)


@attrs.define
class Attrs:
    a: int
    b: str = "x"
    c: list[int] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class FrozenAttrs:
    a: Annotated[int, Meta(gt=0)]


@attrs.define
class CheckedAttrs:
    a: int = attrs.field(validator=attrs.validators.le(5))


@attrs.define
class ConvertedAttrs:
    a: int = attrs.field(converter=int)
    b: int = attrs.field(default=3, init=False)


@attrs.define
class AliasedAttrs:
    _a: int = attrs.field(alias="the_a")


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


class PartialMovie(TypedDict, total=False):
    name: str


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class WithEnums(Struct):
    colour: Colour = Colour.RED
    by_colour: dict[Colour, int] = {}
    mode: Literal["a", 1] = "a"


Defined = msgspec.defstruct("Defined", [("a", int), ("b", str, "x")])

ENTRIES = (
    entry("Struct", Simple, ['{"a": 1, "b": "x"}'], ["{}", '{"a": "x", "b": ""}']),
    entry("Struct, defaults", Defaults, ['{"a": 1, "b": [1], "c": null, "d": {"x": 1}, "e": 1.5}'], ['{"a": "x"}']),
    entry("Struct, omit_defaults", OmitDefaults, ['{"a": 2, "b": "x"}'], ['{"a": "x"}']),
    entry("Struct, forbid_unknown_fields", Closed, ['{"a": 1, "b": "x"}'], ['{"a": 1, "c": 2}']),
    entry("Struct, rename", Renamed, ['{"firstName": "a", "lastName": "b"}'], ['{"first_name": "a"}']),
    entry("Struct, renamed field", RenamedField, ['{"the a": 1, "$é": 2}'], ['{"a": 1}']),
    entry("Struct, rename by a function", RenamedByFunction, ['{"A": 1}'], ['{"a": 1}']),
    entry("Struct, kw_only", KeywordOnly, ['{"a": 1, "b": "x"}'], ['{"a": 1}']),
    entry("Struct, frozen", Frozen, ['{"a": 1}'], ["{}"]),
    entry("Struct, array_like", Array, ['[1, "a"]'], ["[]", '{"a": 1}']),
    entry("Struct, array_like and closed", ClosedArray, ["[1, null]", "[1, 2]"], ["[1, 2, 3]"]),
    entry("Struct, array_like with a tag", TaggedArray, ['["TaggedArray", 1]'], ["[1]"]),
    entry("Struct, UNSET", Unset, ['{"a": 1, "b": null}'], ['{"a": null}']),
    entry("Struct, tag", Dog, ['{"type": "Dog", "barks": 1.5}'], ['{"type": "Cat", "barks": 1.5}']),
    entry("Struct, tag by a function", Lower, ['{"type": "lower", "a": 1}'], ['{"type": "Lower"}']),
    entry("Struct, inherited", Child, ['{"a": 1, "b": "x"}'], ['{"a": 1, "b": ""}']),
    entry(
        "Struct, constraints",
        Constrained,
        ['{"a": 1, "b": "abc", "c": [0.5]}'],
        ['{"a": 10}', '{"a": 1, "c": []}', '{"a": 1, "c": [0]}'],
    ),
    entry("Struct, described", Described, ['{"a": 1}'], ["{}"]),
    entry(
        "Struct, nested",
        Nested,
        ['{"inner": {"a": 1, "b": "x"}, "more": [], "pet": {"type": "Dog", "barks": 1.0}}'],
        ['{"inner": {}}'],
    ),
    entry(
        "Struct, recursive",
        Tree,
        ['{"value": 1, "children": [{"value": 2, "children": []}]}'],
        ['{"value": 1, "children": [1]}'],
    ),
    entry("Struct, required recursion", Chain, ['{"head": "a", "tail": {"head": "b", "tail": null}}'], ['{"head": "a"}']),
    entry("Struct, __post_init__", PostInit, ['{"a": 1}'], ['{"a": 11}'], "code"),
    entry("Struct, class members", ClassMembers, ['{"a": 1}'], ['{"a": "x"}']),
    entry("Struct, no fields", NoFields, ["{}"], ["[]"]),
    entry(
        "Struct, tag_field and Raw",
        Event,
        ['{"type": "event", "on": "2024-01-02", "raw": [1]}'],
        ['{"type": "x", "on": "2024-01-02"}'],
    ),
    entry("Struct, enums", WithEnums, ['{"colour": "blue", "by_colour": {"red": 1}, "mode": 1}'], ['{"colour": "x"}']),
    entry("defstruct", Defined, ['{"a": 1, "b": "y"}'], ["{}"]),
    entry(
        "union of tagged structs",
        Cat | Dog,
        ['{"type": "Cat", "lives": 9}', '{"type": "Dog", "barks": 0.5}'],
        ['{"lives": 9}', "{}"],
    ),
    entry(
        "union with a tag_field",
        Circle | Square,
        ['{"kind": "circle", "radius": 1.5}', '{"kind": "square", "side": 2.0}'],
        ['{"radius": 1}'],
    ),
    entry("union of int tags", One | Two, ['{"type": 1, "a": 1}', '{"type": 2, "b": 0}'], ["{}"]),
    entry("union of tagged arrays", ArrayOne | ArrayTwo, ['["one", 1]', '["two", "a", 1]'], ['["three"]']),
    entry("union of structs or None", Cat | Dog | None, ["null", '{"type": "Cat", "lives": 9}'], ["{}"]),
    entry("list of tagged structs", list[Cat | Dog], ['[{"type": "Dog", "barks": 0.5}]'], ["[{}]"]),
    entry("dict of structs", dict[int, Simple], ['{"1": {"a": 1, "b": "x"}}'], ['{"1": {}}']),
    entry("struct or scalar", Simple | int, ["1", '{"a": 1, "b": "x"}'], ["{}"]),
    entry("generic Struct", Box[int], ['{"content": 1, "more": [2]}'], ['{"content": "x"}']),
    entry("generic of generic", Box[Box[str]], ['{"content": {"content": "a", "more": []}, "more": []}'], ['{"content": 1}']),
    entry("generic, not parametrised", Box, ['{"content": null, "more": []}'], ["{}"]),
    entry("child of a generic Struct", IntChild, ['{"value": 1, "other": "a"}'], ['{"value": "x"}']),
    entry("dataclass", Plain, ['{"a": 1, "b": ["x"]}'], ["{}", '{"a": "1"}']),
    entry("dataclass, init=False", NotInit, ['{"a": 1}'], ["{}"]),
    entry("attrs", Attrs, ['{"a": 1, "b": "x", "c": [1]}'], ["{}"]),
    entry("attrs, frozen", FrozenAttrs, ['{"a": 1}'], ['{"a": 0}']),
    entry("attrs, validator", CheckedAttrs, ['{"a": 1}'], ['{"a": 6}'], "code"),
    entry("attrs, converter", ConvertedAttrs, ['{"a": 1}'], ['{"a": "x"}']),
    entry("attrs, alias", AliasedAttrs, ['{"_a": 1}'], ["{}"]),
    entry("TypedDict", Movie, ['{"name": "a", "year": 1}', '{"name": "a"}'], ["{}", '{"year": 1}']),
    entry("TypedDict, not total", PartialMovie, ['{"name": "a"}', "{}"], ['{"name": 1}']),
    entry("NamedTuple", Point, ["[1, 2.5]"], ["[]", '["a"]', "[1, 2, 3]", '{"x": 1}']),
    entry("list of NamedTuples", list[Point], ["[[1, 2.5]]"], ["[1]"]),
    entry("tuple of structs", tuple[Simple, Any], ['[{"a": 1, "b": "x"}, null]'], ["[1, 2]"]),
)  # fmt: skip
