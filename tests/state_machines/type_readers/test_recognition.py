"""Types that msgspec reads are recognised by their parts."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Generic, NamedTuple, NewType, TypeVar

import pytest
from typing_extensions import TypeAliasType, TypedDict

from state_machines.type_readers import uses_msgspec

attrs = pytest.importorskip("attrs")
msgspec = pytest.importorskip("msgspec")

T = TypeVar("T")


class Cat(msgspec.Struct):
    lives: int


class Box(msgspec.Struct, Generic[T]):
    content: T


@attrs.define
class Record:
    a: int


@dataclasses.dataclass
class Holder:
    cat: Cat


@dataclasses.dataclass
class Plain:
    a: int


class Movie(TypedDict):
    name: str


class Point(NamedTuple):
    x: int


class Colour(enum.Enum):
    RED = "red"


class Anything:
    def __getattr__(self, name: str) -> Anything:
        return Anything()


@pytest.mark.parametrize(
    "kind",
    [
        *(Cat, Cat | None, list[Cat], Box[int], Box, Record, list[Record], Holder, msgspec.Raw),
        *(NewType("Pet", Cat), TypeAliasType("Pets", list[Cat]), dict[str, Cat]),
        Annotated[int, msgspec.Meta(ge=1)],
    ],
)
def test_types_of_msgspec_and_attrs_are_recognised(kind: Any) -> None:
    assert uses_msgspec(kind)


@pytest.mark.parametrize(
    "kind", [int, Plain, Movie, Point, list[Any], Colour, "Cat", None, {}, Anything()]
)
def test_other_types_are_not_those_of_msgspec(kind: Any) -> None:
    assert not uses_msgspec(kind)
