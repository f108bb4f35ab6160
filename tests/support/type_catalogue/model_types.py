"""Models of pydantic: aliases, defaults, extra properties, configuration."""

from __future__ import annotations

import enum
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

import pydantic
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
)

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


class Colour(enum.Enum):
    """Strings."""

    RED = "red"
    BLUE = "blue"


class Simple(BaseModel):
    a: int
    b: str


class Nested(BaseModel):
    inner: Simple
    more: list[Simple] = []


class Forbidden(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Ignored(BaseModel):
    model_config = ConfigDict(extra="ignore")
    a: int


class Allowed(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class TypedExtra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    a: str


class KeyedExtra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Annotated[str, Field(pattern="^x_")], int]
    a: str = ""


class OnlyExtra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[int, Field(ge=0)]]


class Defaults(BaseModel):
    a: list[int] = [1, 2]
    b: Simple = Simple(a=1, b="x")
    c: Colour = Colour.RED
    d: date = date(2024, 1, 2)
    e: dict[str, list[int]] = {"x": [1]}
    f: int | None = Field(default=None, description="f", examples=[3], deprecated=True)


class Factories(BaseModel):
    a: list[int] = Field(default_factory=list)
    b: dict[str, int] = Field(default_factory=lambda: {"a": 1})
    c: int = Field(default_factory=lambda data: len(data))


class InvalidDefaults(BaseModel):
    """Defaults that the types refuse."""

    a: int = "none"  # type: ignore[assignment]
    b: Annotated[str, Field(max_length=2)] = "abcdef"


class ValidatedDefaults(BaseModel):
    model_config = ConfigDict(validate_default=True)
    a: Annotated[int, Field(ge=0)] = 1
    b: Decimal = Decimal("1.5")


class ObjectDefault(BaseModel):
    """A default that no serializer knows."""

    a: Any = object()
    b: int = 0


class DecimalDefaults(BaseModel):
    a: Decimal = Decimal("Infinity")
    b: complex = 1 + 2j
    c: bytes = b"\xff"
    d: timedelta = timedelta(days=1)


class OptionalDates(BaseModel):
    """Optional fields, with and without a default."""

    start: date | None
    end: date | None = None
    paid: date | None = None
    note: str = "-"


class Excluded(BaseModel):
    a: int
    b: int = Field(default=0, exclude=True)


class NotInit(BaseModel):
    a: int
    b: int = Field(default=1, init=False)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int = Field(frozen=True)


class Described(BaseModel):
    """A model with annotations of the schema."""

    model_config = ConfigDict(
        title="T",
        json_schema_extra={"examples": [{"a": 1}], "x-note": "n"},
        use_attribute_docstrings=True,
    )
    a: int = Field(title="A", description="d", examples=[1, 2], json_schema_extra={"x-unit": "m"})
    """The attribute a."""


class ChangedSchema(BaseModel):
    """A model whose schema is changed by a function."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("title", None))
    a: int


class ClassMembers(BaseModel):
    kind: ClassVar[str] = "x"
    a: int
    _private: int = PrivateAttr(default=0)


class RequiredFinal(BaseModel):
    a: Final[int]


class Computed(BaseModel):
    width: int

    @pydantic.computed_field
    @property
    def area(self) -> int:
        """The area."""
        return self.width**2


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True, str_max_length=5, str_min_length=1)
    a: str
    b: int
    c: float | None = None


class PartlyStrict(BaseModel):
    a: int = Field(strict=True)
    b: bool
    c: Annotated[date, Field(strict=True)]


class LaxInStrict(BaseModel):
    model_config = ConfigDict(strict=True)
    a: int = Field(strict=False)
    b: list[int]


class Hidden(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, cache_strings="none")
    a: int


class Deferred(BaseModel):
    model_config = ConfigDict(defer_build=True)
    a: int


class Parent(BaseModel):
    a: int


class Child(Parent):
    b: str = ""
    a: Annotated[int, Field(ge=0)]


class Empty(BaseModel):
    """No fields."""


class ClosedEmpty(BaseModel):
    """No fields, and no others."""

    model_config = ConfigDict(extra="forbid")


class Keywords(BaseModel):
    """Names that other notations cannot write."""

    class_: int = Field(alias="class")
    dollar: int = Field(alias="$ref")
    empty: int = Field(alias="")
    quoted: int = Field(default=0, alias='"\\\n')


class Numbers(RootModel[list[Annotated[str, Field(max_length=3)]]]):
    """A root model of a list."""


class IntRoot(RootModel[int]):
    """A root model of an integer."""


class RootWithDefault(RootModel[dict[str, int]]):
    """A root model with a default."""

    root: dict[str, int] = {"a": 1}


class ManyFields(BaseModel):
    a: Annotated[int, Field(ge=0)]
    b: Annotated[str, Field(pattern="^[a-z]+$")] | None = None
    c: list[Annotated[float, Field(gt=0)]] = []
    d: Literal["x", "y"] = "x"
    e: dict[str, Any] = {}
    f: tuple[int, str] = (1, "a")


Dynamic = pydantic.create_model("Dynamic", a=(int, ...), b=(str, "x"))

ENTRIES = (
    entry("model", Simple, ['{"a": 1, "b": "x"}'], ["{}", '{"a": "x", "b": ""}']),
    entry("nested models", Nested, ['{"inner": {"a": 1, "b": "x"}, "more": []}'], ['{"inner": {}}']),
    entry("extra forbidden", Forbidden, ['{"a": 1}'], ['{"a": 1, "b": 2}']),
    entry("extra ignored", Ignored, ['{"a": 1}'], ["{}"]),
    entry("extra allowed", Allowed, ['{"a": 1, "b": null}'], ['{"b": 1}']),
    entry("extra, typed", TypedExtra, ['{"a": "x", "b": 1}'], ['{"a": "x", "b": "y"}']),
    entry("extra, typed keys", KeyedExtra, ['{"a": "x", "x_b": 1}'], ['{"a": "x", "b": 1}']),
    entry("extra, nothing else", OnlyExtra, ['{"b": 1}', "{}"], ['{"b": -1}']),
    entry(
        "defaults",
        Defaults,
        ['{"a": [3], "b": {"a": 1, "b": "y"}, "c": "blue", "d": "2024-01-02", "e": {}, "f": null}'],
        ['{"c": "x"}'],
    ),
    entry("default factories", Factories, ['{"a": [1], "b": {}, "c": 2}'], ['{"a": 1}']),
    entry("invalid defaults", InvalidDefaults, ['{"a": 1, "b": "ab"}'], ['{"a": "none", "b": ""}']),
    entry("validated defaults", ValidatedDefaults, ['{"a": 1, "b": "1.5"}'], ['{"a": -1}']),
    entry("default that is an object", ObjectDefault, ['{"a": 1, "b": 2}'], ['{"b": "x"}']),
    entry("defaults of several types", DecimalDefaults, ['{"a": "1.5", "b": "1j", "c": "a", "d": "P1D"}'], ['{"a": "x"}']),
    entry("optional dates", OptionalDates, ['{"start": "2024-01-01", "end": "2024-01-02", "paid": null, "note": "a"}'], ["{}"]),
    entry("excluded field", Excluded, ['{"a": 1, "b": 2}'], ["{}"]),
    entry("field with init=False", NotInit, ['{"a": 1, "b": 2}'], ["{}"]),
    entry("frozen", Frozen, ['{"a": 1}'], ["{}"]),
    entry("described", Described, ['{"a": 1}'], ["{}"]),
    entry("schema changed by a function", ChangedSchema, ['{"a": 1}'], ["{}"]),
    entry("class members", ClassMembers, ['{"a": 1}'], ["{}"]),
    entry("Final without a default", RequiredFinal, ['{"a": 1}'], ["{}"]),
    entry("computed field", Computed, ['{"width": 2}'], ["{}"]),
    entry("strict model", StrictModel, ['{"a": "x", "b": 1, "c": 2.5}'], ['{"a": "", "b": 1}', '{"a": "x", "b": "1"}']),
    entry(
        "partly strict model",
        PartlyStrict,
        ['{"a": 1, "b": true, "c": "2024-01-01"}'],
        ['{"a": 1.0, "b": true, "c": "2024-01-01"}'],
    ),
    entry("lax field in a strict model", LaxInStrict, ['{"a": 1, "b": [1]}'], ['{"a": 1, "b": ["1"]}']),
    entry("hidden input", Hidden, ['{"a": 1}'], ["{}"]),
    entry("deferred build", Deferred, ['{"a": 1}'], ["{}"]),
    entry("inheritance", Child, ['{"a": 1, "b": "x"}'], ['{"a": -1}']),
    entry("no fields", Empty, ["{}"], ["[]"]),
    entry("no fields, closed", ClosedEmpty, ["{}"], ['{"a": 1}']),
    entry("unusual names", Keywords, ['{"class": 1, "$ref": 2, "": 3, "\\"\\\\\\n": 4}'], ["{}"]),
    entry("root model", Numbers, ['["abc"]'], ['["abcd"]']),
    entry("root model of int", IntRoot, ["1"], ['"a"']),
    entry("root model with a default", RootWithDefault, ['{"b": 2}'], ['{"b": "x"}']),
    entry(
        "many fields",
        ManyFields,
        ['{"a": 1, "b": "x", "c": [0.5], "d": "y", "e": {}, "f": [2, "b"]}'],
        ['{"a": -1}', '{"a": 1, "c": [0]}'],
    ),
    entry("created model", Dynamic, ['{"a": 1, "b": "y"}'], ["{}"]),
    entry("list of models", list[Simple], ['[{"a": 1, "b": "x"}]', "[]"], ["[{}]"]),
)  # fmt: skip
