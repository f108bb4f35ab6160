"""Unions of pydantic: with discriminators, and by the best match."""

# ruff: noqa: UP045 - these spellings of types are tested

from __future__ import annotations

import enum
from datetime import date
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag
from typing_extensions import TypedDict

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


class Cat(BaseModel):
    """A tag with a default."""

    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    """Two tags, of which one is the default."""

    kind: Literal["dog", "puppy"] = "dog"
    barks: float = 0.5


class Fish(BaseModel):
    """A required tag."""

    kind: Literal["fish"]
    wet: bool = True


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
AnyPet = Annotated[Pet | Fish, Field(discriminator="kind")]


class Kind(enum.Enum):
    """Tags."""

    CIRCLE = "circle"
    SQUARE = "square"


class Shade(enum.StrEnum):
    """Tags of a StrEnum."""

    DARK = "dark"
    LIGHT = "light"


class Circle(BaseModel):
    kind: Literal[Kind.CIRCLE] = Kind.CIRCLE
    radius: float = 1.0


class Square(BaseModel):
    kind: Literal[Kind.SQUARE]
    side: float


class Dark(BaseModel):
    shade: Literal[Shade.DARK] = Shade.DARK
    depth: int = 0


class Light(BaseModel):
    shade: Literal[Shade.LIGHT] = Shade.LIGHT


class First(BaseModel):
    version: Literal[1] = 1
    a: str = ""


class Second(BaseModel):
    version: Literal[2, 3] = 2
    b: str = ""


class On(BaseModel):
    active: Literal[True] = True


class Off(BaseModel):
    active: Literal[False] = False
    reason: str = ""


class AliasedLeft(BaseModel):
    kind: Literal["left"] = Field("left", alias="type")
    x: int = 0


class AliasedRight(BaseModel):
    kind: Literal["right"] = Field("right", alias="type")


class BlackCat(BaseModel):
    kind: Literal["cat"] = "cat"
    colour: Literal["black"] = "black"


class WhiteCat(BaseModel):
    kind: Literal["cat"] = "cat"
    colour: Literal["white"] = "white"


AnyCat = Annotated[BlackCat | WhiteCat, Field(discriminator="colour")]


class TaggedDict(TypedDict):
    type: Literal["text"]
    text: str


class OtherDict(TypedDict, total=False):
    type: Literal["image"]
    url: str


def kind_of(value: Any) -> str:
    """Return the tag of a value that has or has not the member ``crust``."""
    if isinstance(value, dict):
        return "pie" if "crust" in value else "cake"
    return "cake"


class Pie(BaseModel):
    crust: str


class Cake(BaseModel):
    layers: int = 1


class Owner(BaseModel):
    pet: Pet = Cat()
    other: Pet | None = None
    names: list[str] = []


class Zoo(BaseModel):
    pets: dict[str, AnyPet]


class PetRoot(RootModel[Pet]):
    """A root model of a tagged union."""


class Folder(BaseModel):
    kind: Literal["folder"] = "folder"
    children: list[Annotated[Folder | File, Field(discriminator="kind")]] = []


class File(BaseModel):
    kind: Literal["file"] = "file"
    size: int = 0


T = TypeVar("T")


class Success(BaseModel, Generic[T]):
    status: Literal["ok"] = "ok"
    data: T


class Failure(BaseModel):
    status: Literal["error"] = "error"
    message: str


class ClosedA(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = 0


class ClosedB(BaseModel):
    model_config = ConfigDict(extra="forbid")
    b: int = 0


class TagsInText(BaseModel):
    field: Annotated[
        Annotated[int, Tag("int")] | Annotated[str, Tag("str")],
        Discriminator(lambda value: "int" if isinstance(value, int) else "str"),
    ]


ENTRIES = (
    entry(
        "tagged, default tags",
        Pet,
        ['{"kind": "cat", "lives": 9}', '{"kind": "puppy", "barks": 1.5}'],
        ['{"lives": 9}', "{}"],
    ),
    entry(
        "tagged, nested union",
        AnyPet,
        ['{"kind": "fish", "wet": true}', '{"kind": "dog", "barks": 0.5}'],
        ['{"kind": "bird"}'],
    ),
    entry(
        "tagged, Enum tags",
        Annotated[Circle | Square, Field(discriminator="kind")],
        [],
        ['{"kind": "circle", "radius": 1.5}', '{"radius": 1}'],
        "no text is a plain Enum member",
    ),
    entry(
        "tagged, StrEnum tags",
        Annotated[Dark | Light, Field(discriminator="shade")],
        ['{"shade": "light"}', '{"shade": "dark", "depth": 1}'],
        ["{}"],
    ),
    entry(
        "tagged, int tags",
        Annotated[First | Second, Field(discriminator="version")],
        ['{"version": 1, "a": "x"}', '{"version": 3, "b": ""}'],
        ["{}", '{"version": 4}'],
    ),
    entry("tagged, bool tags", Annotated[On | Off, Field(discriminator="active")], ['{"active": true}'], ["{}"]),
    entry(
        "tagged, aliased tags",
        Annotated[AliasedLeft | AliasedRight, Field(discriminator="kind")],
        ['{"type": "left", "x": 1}', '{"type": "right"}'],
        ['{"x": 1}'],
    ),
    entry(
        "tagged, two levels",
        Annotated[AnyCat | Dog, Field(discriminator="kind")],
        ['{"kind": "cat", "colour": "black"}', '{"kind": "dog", "barks": 1.0}'],
        ['{"kind": "cat"}', '{"colour": "white"}'],
    ),
    entry(
        "tagged, TypedDicts",
        Annotated[TaggedDict | OtherDict, Field(discriminator="type")],
        ['{"type": "text", "text": "a"}', '{"type": "image", "url": "b"}'],
        ['{"url": "b"}'],
    ),
    entry(
        "tagged, callable",
        Annotated[
            Annotated[Pie, Tag("pie")] | Annotated[Cake, Tag("cake")], Discriminator(kind_of)
        ],
        ['{"crust": "thin"}', '{"layers": 2}'],
        ['{"crust": 1}'],
    ),
    entry("tagged, callable on scalars", TagsInText, ['{"field": 1}', '{"field": "a"}'], ['{"field": null}']),
    entry("tagged, Discriminator object", Annotated[Cat | Fish, Discriminator("kind")], ['{"kind": "cat", "lives": 1}'], ["{}"]),
    entry("tagged, in a list", list[Pet], ['[{"kind": "cat", "lives": 9}, {"kind": "dog", "barks": 1.0}]', "[]"], ["[{}]"]),
    entry("tagged, in a dict", dict[str, Pet], ['{"a": {"kind": "cat", "lives": 9}}'], ['{"a": {}}']),
    entry("tagged, Optional", Optional[Pet], ["null", '{"kind": "cat", "lives": 9}'], ["{}"]),
    entry("tagged, root model", PetRoot, ['{"kind": "cat", "lives": 9}'], ["{}"]),
    entry(
        "tagged, field with a default",
        Owner,
        ['{"pet": {"kind": "cat", "lives": 9}, "other": null, "names": []}'],
        ['{"pet": {}}'],
    ),
    entry("tagged, dict in a model", Zoo, ['{"pets": {"a": {"kind": "fish", "wet": false}}}'], ['{"pets": {"a": {}}}']),
    entry(
        "tagged, recursive",
        Folder,
        [
            '{"kind": "folder", "children": [{"kind": "file", "size": 1}, {"kind": "folder", "children": []}]}'
        ],
        ['{"kind": "folder", "children": [{}]}'],
    ),
    entry(
        "tagged, generic",
        Annotated[Success[int] | Failure, Field(discriminator="status")],
        ['{"status": "ok", "data": 1}', '{"status": "error", "message": "a"}'],
        ['{"data": 1}'],
    ),
    entry("tagged, in a tuple", tuple[Pet, ...], ['[{"kind": "cat", "lives": 9}]'], ["[{}]"]),
    entry("untagged models", Cat | Dog, ['{"kind": "cat", "lives": 9}'], ['{"kind": "x"}']),
    entry("untagged closed models", ClosedA | ClosedB, ['{"a": 1}', '{"b": 1}'], ['{"a": 1, "b": 1}']),
    entry("int | str", int | str, ["1", '"a"'], ["null"]),
    entry("str | int | float | bool", str | int | float | bool, ['"a"', "1", "1.5", "true"], ["null"]),
    entry("int | float", int | float, ["1", "1.5"], ['"a"']),
    entry("bool | int", bool | int, ["true", "3"], ['"a"']),
    entry("left to right", Annotated[int | str, Field(union_mode="left_to_right")], ["1", '"a"'], ["null"]),
    entry(
        "left to right of models",
        Annotated[ClosedA | ClosedB | str, Field(union_mode="left_to_right")],
        ['{"b": 1}', '"a"'],
        ["1"],
    ),
    entry("Optional of int", Optional[int], ["null", "1"], ['"a"']),
    entry("date | int", date | int, ['"2024-01-02"', "5"], ['"a"']),
    entry("list or scalar", int | list[int], ["1", "[1, 2]"], ['["a"]']),
    entry("bounded int or Literal", Annotated[int, Field(ge=0)] | Literal["none"], ["3", '"none"'], ["-1"]),
    entry("patterns", Annotated[str, Field(pattern="^a+$")] | Annotated[str, Field(pattern=r"^\d+$")], ['"aa"', '"12"'], ['"b"']),
    entry("list of unions", list[int | str | None], ['[1, "a", null]'], ["[[]]"]),
    entry("dict of unions", dict[str, int | list[str]], ['{"a": 1, "b": ["c"]}'], ['{"a": "b"}']),
)  # fmt: skip
