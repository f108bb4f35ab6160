"""What pydantic's models write as their schema: each field type of its documentation.

Random walks over the masks, brought to an end, must load with the model.
"""

# ruff: noqa: UP007, UP045 - these spellings of types are what is tested

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Optional,
    TypeVar,
    Union,
)

import numpy as np
import pydantic
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from small_vocabulary import an_ending, small_vocabulary
from typing_extensions import TypeAliasType, TypedDict

from state_machines import JsonSchemaStateMachine
from state_machines.grammar.node import Node
from state_machines.grammar.shortest import shortest_word

VOCABULARY = small_vocabulary()
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


class ClosedMovie(TypedDict, total=False):
    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")
    name: str
    year: int


@dataclasses.dataclass
class Plain:
    a: int
    b: list[str] = dataclasses.field(default_factory=list)


@pydantic.dataclasses.dataclass
class Checked:
    a: Annotated[int, Field(gt=0)]
    b: Checked | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)] = 9


class Dog(BaseModel):
    kind: Literal["dog", "puppy"]
    barks: float


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | Dog | None = None


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Chain(BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    head: str
    tail: Chain | None


class Left(BaseModel):
    right: Right | None = None


class Right(BaseModel):
    left: Left | None = None


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


class Aliased(BaseModel):
    name: str = Field(alias="full name")
    other: int = Field(validation_alias="the other", serialization_alias="unused", default=1)


class Computed(BaseModel):
    width: int

    @pydantic.computed_field
    @property
    def area(self) -> int:
        return self.width**2


class Defaults(BaseModel):
    """A model whose defaults are objects of every kind."""

    a: list[int] = [1, 2]
    b: Cat = Cat(kind="cat")
    c: Colour = Colour.RED
    d: datetime.date = datetime.date(2024, 1, 2)
    e: dict[str, list[int]] = {"x": [1]}
    f: int | None = Field(default=None, description="f", examples=[3], deprecated=True)


class Open(BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    a: str


class Strict(BaseModel):
    model_config = pydantic.ConfigDict(strict=True, str_max_length=5, str_min_length=1)
    a: str
    b: int


class Root(pydantic.RootModel[list[Annotated[str, Field(max_length=3)]]]):
    pass


Json = TypeAliasType("Json", "list[Json] | dict[str, Json] | str | int | float | bool | None")

TYPES: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "None": None,
    "Any": Any,
    "object": object,
    "Optional": Optional[int],
    "Union": Union[int, str, list[bool]],
    "Literal": Literal["a", 1, True, None],
    "Enum": Colour,
    "IntEnum": Level,
    "list of enums": list[Colour],
    "UUID": uuid.UUID,
    "UUID1": pydantic.UUID1,
    "UUID3": pydantic.UUID3,
    "UUID4": pydantic.UUID4,
    "UUID5": pydantic.UUID5,
    "UUID6": pydantic.UUID6,
    "UUID7": pydantic.UUID7,
    "UUID8": pydantic.UUID8,
    "IPvAnyAddress": pydantic.IPvAnyAddress,
    "IPv4Interface": ipaddress.IPv4Interface,
    "IPv6Interface": ipaddress.IPv6Interface,
    "IPvAnyInterface": pydantic.IPvAnyInterface,
    "IPv4Network": ipaddress.IPv4Network,
    "IPv6Network": ipaddress.IPv6Network,
    "IPvAnyNetwork": pydantic.IPvAnyNetwork,
    "Base64Bytes": pydantic.Base64Bytes,
    "Base64UrlBytes": pydantic.Base64UrlBytes,
    "Fraction": Fraction,
    "gt, lt": Annotated[int, Field(gt=-3, lt=300)],
    "ge, le": Annotated[float, Field(ge=0.5, le=1.5)],
    "multiple_of": Annotated[int, Field(multiple_of=7)],
    "allow_inf_nan": Annotated[float, Field(allow_inf_nan=False)],
    "min_length, max_length": Annotated[str, Field(min_length=2, max_length=5)],
    "pattern": Annotated[str, Field(pattern=r"^[A-Z]{2}\d{3}(-[a-z]+)?$")],
    "StringConstraints": Annotated[str, pydantic.StringConstraints(pattern=r"^a+b$", max_length=6)],
    "conint": pydantic.conint(gt=3, multiple_of=2),
    "confloat": pydantic.confloat(ge=0, lt=1),
    "constr": pydantic.constr(min_length=1, max_length=3),
    "conlist": pydantic.conlist(int, min_length=1, max_length=3),
    "conset": pydantic.conset(Level, min_length=1),
    "confrozenset": pydantic.confrozenset(str, max_length=2),
    "PositiveInt": pydantic.PositiveInt,
    "NonNegativeFloat": pydantic.NonNegativeFloat,
    "StrictBool": pydantic.StrictBool,
    "StrictStr": pydantic.StrictStr,
    "FiniteFloat": pydantic.FiniteFloat,
    "list": list[int],
    "bare list": list,
    "tuple": tuple[int, str, bool],
    "tuple of any length": tuple[int, ...],
    "empty tuple": tuple[()],
    "NamedTuple": Point,
    "set": set[int],
    "set of tuples": set[tuple[int, bool]],
    "frozenset": frozenset[str],
    "deque": Annotated[deque[int], Field(max_length=3)],
    "Sequence": Sequence[float],
    "Iterable": Iterable[bool],
    "dict": dict[str, int],
    "bare dict": dict,
    "Mapping": Mapping[str, list[int]],
    "OrderedDict": OrderedDict[str, bool],
    "defaultdict": defaultdict[str, list[int]],
    "dict with bounds": Annotated[dict[str, int], Field(min_length=1, max_length=2)],
    "dict by enum": dict[Colour, int],
    "dict by literal": dict[Literal["a", "b"], int],
    "TypedDict": Movie,
    "closed TypedDict": ClosedMovie,
    "dataclass": Plain,
    "pydantic dataclass": Checked,
    "discriminated union": Owner,
    "tree": Tree,
    "chain": Chain,
    "mutual recursion": Left,
    "recursive alias": Json,
    "generic": Box[int],
    "generic of generic": Box[Box[Optional[Colour]]],
    "alias": Aliased,
    "computed field": Computed,
    "defaults": Defaults,
    "open model": Open,
    "strict model": Strict,
    "root model": Root,
    "Path": pathlib.Path,
    "PurePath": pathlib.PurePosixPath,
    "IPv4Address": ipaddress.IPv4Address,
    "IPv6Address": ipaddress.IPv6Address,
    "SecretStr": pydantic.SecretStr,
    "SecretBytes": pydantic.SecretBytes,
    "Secret": pydantic.Secret[int],
    "InstanceOf": Annotated[str, Field(title="t", description="d", examples=["x"])],
}

ASKS_FOR_MORE: dict[str, tuple[Any, str, str]] = {
    "datetime": (datetime.datetime, "no leap second", '"2016-12-31T23:59:60Z"'),
    "AwareDatetime": (pydantic.AwareDatetime, "no leap second", '"2016-12-31T23:59:60Z"'),
    "PastDate": (pydantic.PastDate, "a day before today; the schema says date", '"9999-01-01"'),
    "FutureDatetime": (pydantic.FutureDatetime, "a time after now", '"1999-01-01T00:00:00Z"'),
    "NaiveDatetime": (
        pydantic.NaiveDatetime,
        "no offset; date-time has one",
        '"1999-01-01T00:00:00Z"',
    ),
    "timedelta": (datetime.timedelta, "at most 999999999 days", '"P1000000000D"'),
    "Decimal": (decimal.Decimal, "the text of a number; the schema admits any text", '"a"'),
    "Decimal with bounds": (Annotated[decimal.Decimal, Field(ge=0)], "bounds of texts", '"-1"'),
    "Decimal with places": (
        Annotated[decimal.Decimal, Field(max_digits=6, decimal_places=2)],
        "as many digits; the schema does not count them",
        "1.2345",
    ),
    "complex": (complex, "the text of a complex number; the schema admits any text", '"a"'),
    "conbytes": (pydantic.conbytes(max_length=3), "a length in bytes, not characters", '"éé"'),
    "StrictInt": (pydantic.StrictInt, "no 1.0, which is an integer for JSON Schema", "1.0"),
    "dict by pattern": (
        dict[Annotated[str, Field(pattern="^[ab]+$")], int],
        "names by the pattern; the schema leaves other names free",
        '{"c": null}',
    ),
    "Base64Str": (pydantic.Base64Str, "bytes that are UTF-8", '"gICA"'),
    "Base64UrlStr": (pydantic.Base64UrlStr, "bytes that are UTF-8", '"gICA"'),
    "time": (datetime.time, "no leap second", '"23:59:60Z"'),
    "ZoneInfo": (zoneinfo.ZoneInfo, "a time zone that is known", '"a"'),
    "MongoDsn": (pydantic.MongoDsn, "a scheme; the format is not a registered one", '"a"'),
    "Json": (pydantic.Json, "text that is JSON; contentSchema is an annotation", '"a"'),
    "Json of int": (pydantic.Json[int], "text that is an integer", '"null"'),
    "FilePath": (pydantic.FilePath, "a file that exists", '"a/b/c"'),
    "DirectoryPath": (pydantic.DirectoryPath, "a directory that exists", '"a/b/c"'),
    "NewPath": (pydantic.NewPath, "a path whose parent exists", '"a/b/c"'),
    "AnyUrl": (pydantic.AnyUrl, "a host where the scheme asks for one", '"http:"'),
    "HttpUrl": (pydantic.HttpUrl, "a scheme; the schema says uri", '"a:b"'),
    "FileUrl": (pydantic.FileUrl, "a scheme; the schema says uri", '"a:b"'),
    "PostgresDsn": (pydantic.PostgresDsn, "a scheme; the schema says uri", '"a:b"'),
    "ByteSize": (pydantic.ByteSize, "a unit that is known", '"1 a"'),
    "Pattern": (re.Pattern[str], "Python's dialect; the format is that of ECMA-262", r'"[^]"'),
    "ImportString": (pydantic.ImportString[Any], "a name that can be imported", '"a"'),
}
"""Types whose own validator asks for more than their JSON Schema says: what that is, and a text
that the schema admits and the validator does not."""


def written(machine: JsonSchemaStateMachine, random: Random) -> str:
    """Return a text that a random walk over the masks comes to, brought to an end."""
    matcher = machine.matcher(VOCABULARY)
    text = b""
    for step in range(random.randint(1, 16)):
        allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
        assert allowed, f"dead end after {text!r}"
        plain = [token_id for token_id in allowed if token_id not in VOCABULARY.end_token_ids]
        if not plain or (matcher.is_accepting and step > 3):
            break
        token_id = random.choice(plain)
        matcher.advance(token_id)
        text += VOCABULARY.token_bytes[token_id] or b""
    return (text + ending(matcher.state)).decode()


def ending(state: Node) -> bytes:
    """Return a word that ends the text."""
    found = an_ending(state)
    found = shortest_word(state) if found is None else found
    assert found is not None
    return found


@pytest.mark.parametrize("name", TYPES)
def test_generated_json_validates_as_the_model(name: str) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(TYPES[name])
    machine = JsonSchemaStateMachine(adapter.json_schema(mode="validation"))
    for seed in range(6):
        text = written(machine, Random(f"{name} {seed}"))
        try:
            adapter.validate_json(text)
        except pydantic.ValidationError as error:
            raise AssertionError(f"{text} does not load") from error


@pytest.mark.parametrize("name", [n for n, t in TYPES.items() if t is not None])
def test_generated_model_with_the_field_validates(name: str) -> None:
    model: type[BaseModel] = pydantic.create_model("Model", field=(TYPES[name], ...))
    machine = JsonSchemaStateMachine(model.model_json_schema())
    for seed in range(2):
        text = written(machine, Random(f"{name} {seed}"))
        try:
            model.model_validate_json(text)
        except pydantic.ValidationError as error:
            raise AssertionError(f"{text} does not load") from error


@pytest.mark.parametrize("name", ASKS_FOR_MORE)
def test_types_whose_validator_is_stricter_than_their_schema(name: str) -> None:
    kind, _, text = ASKS_FOR_MORE[name]
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    machine = JsonSchemaStateMachine(adapter.json_schema(mode="validation"))
    assert machine.matches(text)
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_json(text)
    for seed in range(2):
        assert machine.matches(written(machine, Random(seed)))


@pytest.mark.parametrize("kind", [datetime.date, datetime.datetime, pydantic.AwareDatetime])
def test_dates_and_times_without_leap_seconds_validate(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    no_leap_second = {"not": {"type": "string", "pattern": ":60"}}
    machine = JsonSchemaStateMachine({"allOf": [adapter.json_schema(), no_leap_second]})
    for seed in range(8):
        adapter.validate_json(written(machine, Random(seed)))


def test_generated_email_validates() -> None:
    pytest.importorskip("email_validator")
    machine = JsonSchemaStateMachine(TypeAdapter(pydantic.EmailStr).json_schema())
    assert machine.matches('"ada@example.org"')
    assert not machine.matches('"ada"')


def test_values_of_complex_types_equal_the_generated_json() -> None:
    machine = JsonSchemaStateMachine(Owner.model_json_schema())
    assert machine.matches('{"pet": {"kind": "puppy", "barks": 1.5}, "other": null}')
    assert not machine.matches('{"pet": {"kind": "cat", "lives": 10}}')
    assert not machine.matches('{"pet": {"kind": "dog"}}')
