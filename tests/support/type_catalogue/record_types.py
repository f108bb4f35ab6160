"""Dataclasses, TypedDicts, generics, and recursive types of pydantic."""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required

import pydantic
from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel, with_config
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import ReadOnly, TypeAliasType, TypedDict, TypeVar

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


@dataclass
class Plain:
    a: int
    b: list[str] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Slotted:
    a: int
    b: Annotated[str, Field(max_length=2)] = ""


@dataclass(kw_only=True)
class KeywordOnly:
    a: int = 1
    b: str


@dataclass
class NotInit:
    a: int
    b: int = field(default=2, init=False)


@with_config(ConfigDict(extra="forbid"))
@dataclass
class ClosedNotInit:
    a: int
    b: int = field(default=2, init=False)


@pydantic_dataclass(config=ConfigDict(extra="forbid"))
class ClosedFieldNotInit:
    a: int
    b: int = Field(default=2, init=False)


@pydantic_dataclass
class Checked:
    a: Annotated[int, Field(gt=0)]
    b: Checked | None = None


@pydantic_dataclass(config=ConfigDict(extra="allow"))
class OpenDataclass:
    a: int


@pydantic_dataclass
class WithInitVar:
    a: int
    b: InitVar[int] = 0
    c: int = 0

    def __post_init__(self, b: int) -> None:
        self.c = self.a + b


@pydantic_dataclass
class PostInit:
    a: int

    def __post_init__(self) -> None:
        if self.a > 10:
            raise ValueError("too large")


@pydantic_dataclass
class AliasedDataclass:
    a: int = Field(alias="the a")
    b: Annotated[str, Field(validation_alias="the b")] = ""


class InnerModel(BaseModel):
    plain: Plain
    checked: Checked | None = None


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


class PartialMovie(TypedDict, total=False):
    name: Required[str]
    year: int


class ClosedMovie(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    name: str
    year: int


@with_config(ConfigDict(extra="allow"))
class OpenMovie(TypedDict):
    name: str


@with_config(ConfigDict(str_min_length=1, strict=True))
class StrictMovie(TypedDict):
    name: str
    year: int


class FrozenMovie(TypedDict):
    name: ReadOnly[str]
    rating: Annotated[float, Field(ge=0, le=5)]


class ExtraItems(TypedDict, extra_items=int):
    name: str


class ClosedItems(TypedDict, closed=True):
    name: str


class ChildMovie(Movie, total=False):
    length: datetime.timedelta


class Pair(NamedTuple):
    left: int
    right: str = "x"


class PairOfModels(NamedTuple):
    first: Plain
    rest: list[Pair] = []  # noqa: RUF012


T = TypeVar("T")
Bounded = TypeVar("Bounded", bound=int)
Constrained = TypeVar("Constrained", int, str)
Defaulted = TypeVar("Defaulted", default=bool)


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


class BoundedBox(BaseModel, Generic[Bounded]):
    content: Bounded


class ConstrainedBox(BaseModel, Generic[Constrained]):
    content: Constrained


class DefaultedBox(BaseModel, Generic[Defaulted]):
    content: Defaulted


class GenericDict(TypedDict, Generic[T]):
    value: T


@dataclass
class GenericData(Generic[T]):
    value: T


class GenericRoot(RootModel[dict[str, T]], Generic[T]):
    """A generic root model."""


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Chain(BaseModel):
    model_config = ConfigDict(extra="forbid")
    head: str
    tail: Chain | None


class Left(BaseModel):
    right: Right | None = None


class Right(BaseModel):
    left: Left | None = None


class Forest(RootModel[dict[str, "Forest"]]):
    """A recursive root model."""


class RecursiveDict(TypedDict):
    name: str
    parts: list[RecursiveDict]


@dataclass
class RecursiveData:
    value: int
    next: RecursiveData | None = None


class RecursiveTuple(NamedTuple):
    value: int
    rest: RecursiveTuple | None = None


class Expression(BaseModel):
    op: Literal["+", "-"]
    left: Expression | int
    right: Expression | int


class RecursiveKeys(BaseModel):
    by_id: dict[int, RecursiveKeys] = {}


Json = TypeAliasType("Json", "list[Json] | dict[str, Json] | str | int | float | bool | None")
Numbers = TypeAliasType("Numbers", "list[Numbers] | Annotated[int, Field(ge=0, le=9)]")
Pairs = TypeAliasType("Pairs", list[tuple[T, T]], type_params=(T,))
UserId = NewType("UserId", int)
Name = NewType("Name", Annotated[str, Field(min_length=1)])  # type: ignore[valid-newtype]
Score = Annotated[int, Field(ge=0, le=100)]


class Player(BaseModel):
    id: UserId
    name: Name
    scores: dict[UserId, Score] = {}


ENTRIES = (
    entry("dataclass", Plain, ['{"a": 1, "b": ["x"]}'], ["{}"]),
    entry("dataclass, slots", Slotted, ['{"a": 1, "b": "ab"}'], ['{"a": 1, "b": "abc"}']),
    entry("dataclass, kw_only", KeywordOnly, ['{"a": 1, "b": "x"}'], ['{"a": 1}']),
    entry("dataclass, init=False", NotInit, ['{"a": 1}'], ["{}"]),
    entry("dataclass, init=False and closed", ClosedNotInit, ['{"a": 1}'], ['{"a": 1, "b": 2}']),
    entry("dataclass, Field with init=False and closed", ClosedFieldNotInit, ['{"a": 1}'], ['{"a": 1, "b": 2}']),
    entry("pydantic dataclass", Checked, ['{"a": 1, "b": {"a": 2, "b": null}}'], ['{"a": 0}']),
    entry("pydantic dataclass, extra allowed", OpenDataclass, ['{"a": 1, "b": 2}'], ["{}"]),
    entry("pydantic dataclass, InitVar", WithInitVar, ['{"a": 1, "b": 2, "c": 3}'], ["{}"]),
    entry("pydantic dataclass, __post_init__", PostInit, ['{"a": 1}'], ['{"a": 11}'], "code"),
    entry("pydantic dataclass, aliases", AliasedDataclass, ['{"the a": 1, "the b": "x"}'], ['{"a": 1}']),
    entry("model of dataclasses", InnerModel, ['{"plain": {"a": 1, "b": []}, "checked": null}'], ['{"plain": {}}']),
    entry("list of dataclasses", list[Plain], ['[{"a": 1, "b": []}]'], ["[{}]"]),
    entry("TypedDict", Movie, ['{"name": "a", "year": 1}', '{"name": "a"}'], ["{}"]),
    entry("TypedDict, not total", PartialMovie, ['{"name": "a", "year": 1}'], ["{}"]),
    entry("TypedDict, closed", ClosedMovie, ['{"name": "a", "year": 1}', "{}"], ['{"x": 1}']),
    entry("TypedDict, extra allowed", OpenMovie, ['{"name": "a", "x": 1}'], ["{}"]),
    entry("TypedDict, strict", StrictMovie, ['{"name": "a", "year": 1}'], ['{"name": "", "year": 1}']),
    entry("TypedDict, ReadOnly", FrozenMovie, ['{"name": "a", "rating": 4.5}'], ['{"name": "a", "rating": 6}']),
    entry("TypedDict, extra_items", ExtraItems, ['{"name": "a", "x": 1}'], ['{"name": "a", "x": "y"}']),
    entry("TypedDict, closed=True", ClosedItems, ['{"name": "a"}'], ['{"name": "a", "x": 1}']),
    entry("TypedDict, inherited", ChildMovie, ['{"name": "a", "year": 1, "length": "PT1H"}'], ['{"name": "a", "length": "x"}']),
    entry("NamedTuple with a default", Pair, ['[1, "a"]'], ["[]"]),
    entry("NamedTuple of records", PairOfModels, ['[{"a": 1, "b": []}, [[1, "x"]]]'], ["[{}]"]),
    entry("generic model", Box[int], ['{"content": 1, "more": [2]}'], ['{"content": "x"}']),
    entry(
        "generic of generic",
        Box[Box[bool | None]],
        ['{"content": {"content": null, "more": []}, "more": []}'],
        ['{"content": 1}'],
    ),
    entry("generic, not parametrised", Box, ['{"content": null, "more": []}'], ["{}"]),
    entry("generic, bound", BoundedBox, ['{"content": 1}'], ['{"content": "x"}']),
    entry("generic, constraints", ConstrainedBox, ['{"content": 1}', '{"content": "a"}'], ['{"content": null}']),
    entry("generic, default", DefaultedBox, ['{"content": true}'], ['{"content": "x"}']),
    entry("generic TypedDict", GenericDict[int], ['{"value": 1}'], ['{"value": "x"}']),
    entry("generic dataclass", GenericData[list[int]], ['{"value": [1]}'], ['{"value": 1}']),
    entry("generic root model", GenericRoot[int], ['{"a": 1}'], ['{"a": "x"}']),
    entry("generic alias", Pairs[int], ["[[1, 2]]"], ["[[1]]"]),
    entry(
        "recursive model",
        Tree,
        ['{"value": 1, "children": [{"value": 2, "children": []}]}'],
        ['{"value": 1, "children": [1]}'],
    ),
    entry("recursive model, required", Chain, ['{"head": "a", "tail": {"head": "b", "tail": null}}'], ['{"head": "a"}']),
    entry("mutual recursion", Left, ['{"right": {"left": null}}', '{"right": null}'], ['{"right": 1}']),
    entry("recursive root model", Forest, ['{"a": {"b": {}}}'], ['{"a": 1}']),
    entry("recursive TypedDict", RecursiveDict, ['{"name": "a", "parts": [{"name": "b", "parts": []}]}'], ['{"name": "a"}']),
    entry("recursive dataclass", RecursiveData, ['{"value": 1, "next": {"value": 2, "next": null}}'], ['{"next": null}']),
    entry("recursive NamedTuple", RecursiveTuple, ["[1, [2, null]]"], ["[[]]"]),
    entry(
        "recursive union",
        Expression,
        ['{"op": "+", "left": {"op": "-", "left": 1, "right": 2}, "right": 3}'],
        ['{"op": "*", "left": 1, "right": 2}'],
    ),
    entry("recursive keys", RecursiveKeys, ['{"by_id": {"1": {"by_id": {}}}}'], ['{"by_id": {"x": {}}}']),
    entry("recursive alias", Json, ['[1, {"a": null}]'], []),
    entry("recursive alias of numbers", Numbers, ["[1, [2]]", "3"], ["10"]),
    entry("JsonValue", JsonValue, ['{"a": [1, null]}'], []),
    entry("NewType", UserId, ["1"], ['"a"']),
    entry("NewType with a constraint", Name, ['"a"'], ['""']),
    entry(
        "player",
        Player,
        ['{"id": 1, "name": "a", "scores": {"1": 50}}'],
        [
            '{"id": 1, "name": "a", "scores": {"1": 101}}',
            '{"id": 1, "name": "a", "scores": {"x": 1}}',
        ],
    ),
    entry(
        "dataclasses.make_dataclass",
        dataclasses.make_dataclass("Made", [("a", int), ("b", Any, 1)]),
        ['{"a": 1, "b": null}'],
        ["{}"],
    ),
    entry("pydantic dataclass of a dataclass", pydantic_dataclass(Plain), ['{"a": 1, "b": ["x"]}'], ['{"a": "x"}']),
    entry("TypeVar", T, ["1"], []),
    entry("Optional of a recursive model", pydantic.RootModel[Tree | None], ["null", '{"value": 1, "children": []}'], ["1"]),
)  # fmt: skip
