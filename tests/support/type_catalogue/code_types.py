"""Types of pydantic with code of the user: validators, serializers, custom schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import annotated_types as at
from pydantic import (
    MISSING,
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    InstanceOf,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    SkipValidation,
    ValidateAs,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.experimental.pipeline import validate_as
from pydantic_core import core_schema

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]


def even(value: int) -> int:
    """Refuse odd numbers."""
    if value % 2:
        raise ValueError("odd")
    return value


def wrapped(value: Any, handler: ValidatorFunctionWrapHandler) -> int:
    """Read a number."""
    result: int = handler(value)
    return result


class Checked(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def check(cls, value: int) -> int:
        """Refuse odd numbers."""
        return even(value)


class CheckedBefore(BaseModel):
    a: list[int]

    @field_validator("a", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        """Read numbers from a text."""
        return value.split(",") if isinstance(value, str) else value


class CheckedPlain(BaseModel):
    a: int

    @field_validator("a", mode="plain")
    @classmethod
    def read(cls, value: Any) -> int:
        """Read anything that is a number."""
        return int(value)


class Period(BaseModel):
    start: int
    end: int

    @model_validator(mode="after")
    def ordered(self) -> Self:
        """Refuse a period that ends before it starts."""
        if self.end < self.start:
            raise ValueError("ends before it starts")
        return self


class BeforeModel(BaseModel):
    a: int

    @model_validator(mode="before")
    @classmethod
    def unwrap(cls, data: Any) -> Any:
        """Read the member ``data``, if there is any."""
        return data.get("data", data) if isinstance(data, dict) else data


class WrapModel(BaseModel):
    a: int

    @model_validator(mode="wrap")
    @classmethod
    def around(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Call the handler."""
        return handler(data)


class Serialized(BaseModel):
    a: int
    b: Annotated[int, PlainSerializer(str, return_type=str)] = 0

    @field_serializer("a")
    def hexadecimal(self, value: int) -> str:
        """Write hexadecimal digits."""
        return hex(value)


class SerializedModel(BaseModel):
    a: int

    @model_serializer
    def as_list(self) -> list[int]:
        """Write a list."""
        return [self.a]


class Celsius:
    """A class with a core schema."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls, core_schema.float_schema(ge=-273.15)
        )


class Word(str):
    """A class with a schema for JSON, and one for Python."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.json_or_python_schema(
            json_schema=core_schema.str_schema(min_length=1, max_length=4),
            python_schema=core_schema.is_instance_schema(cls),
        )


class Described(int):
    """A class whose JSON Schema differs from its reader."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.int_schema(ge=0)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "title": "Described", "examples": [1]}


class Missing(BaseModel):
    a: int | MISSING = MISSING  # type: ignore[valid-type]
    b: str = ""


class Omitted(BaseModel):
    values: list[int]
    other: SerializeAsAny[Checked] | None = None


class Skipped(BaseModel):
    a: SkipValidation[int]
    b: int = 0


class Arbitrary(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    a: int
    b: Celsius


class WithInstance(BaseModel):
    a: int
    b: InstanceOf[Celsius] | None = None


class WithCallable(BaseModel):
    a: int
    b: Callable[[], int] | None = None
    c: type[int] | None = None


ENTRIES = (
    entry("AfterValidator", Annotated[int, AfterValidator(even)], ["2"], ["1"], "code"),
    entry("AfterValidator that accepts everything", Annotated[int, AfterValidator(abs)], ["-1"], ['"a"']),
    entry("AfterValidator in front of a bound", Annotated[int, AfterValidator(abs), Field(le=9)], ["-9"], ["10"], "code"),
    entry("BeforeValidator", Annotated[int, BeforeValidator(lambda value: value)], ["1"], ['"a"']),
    entry("PlainValidator", Annotated[int, PlainValidator(lambda value: value)], ["1"], []),
    entry(
        "PlainValidator with a schema",
        Annotated[int, PlainValidator(int, json_schema_input_type=int)],
        ["1"],
        ['"a"'],
        "code",
    ),
    entry("WrapValidator", Annotated[int, WrapValidator(wrapped)], ["1"], ['"a"']),
    entry("field validator", Checked, ['{"a": 2}'], ['{"a": 1}'], "code"),
    entry("field validator, before", CheckedBefore, ['{"a": [1, 2]}'], ['{"a": ["x"]}']),
    entry("field validator, plain", CheckedPlain, ['{"a": 1}'], ['{"a": "x"}'], "code"),
    entry("model validator, after", Period, ['{"start": 1, "end": 2}'], ['{"start": 2, "end": 1}'], "code"),
    entry("model validator, before", BeforeModel, ['{"a": 1}'], ["{}"]),
    entry("model validator, wrap", WrapModel, ['{"a": 1}'], ["{}"]),
    entry("serializers", Serialized, ['{"a": 1, "b": 2}'], ['{"a": "x"}']),
    entry("model serializer", SerializedModel, ['{"a": 1}'], ["[1]"]),
    entry("__get_pydantic_core_schema__", Celsius, ["20.5", "-273.15"], ["-300"]),
    entry("json_or_python schema", Word, ['"abcd"'], ['""', '"abcde"']),
    entry("__get_pydantic_json_schema__", Described, ["1"], ["-1"]),
    entry("WithJsonSchema", Annotated[int, WithJsonSchema({"type": "integer", "minimum": 3, "maximum": 5})], ["4"], ['"a"']),
    entry("WithJsonSchema that is wider", Annotated[Literal["a"], WithJsonSchema({"type": "string"})], ['"a"'], ['"b"']),
    entry(
        "GetPydanticSchema",
        Annotated[int, GetPydanticSchema(lambda kind, handler: core_schema.int_schema(ge=1, le=6))],
        ["6"],
        ["7"],
    ),
    entry(
        "nullable core schema",
        Annotated[
            Any,
            GetPydanticSchema(
                lambda kind, handler: core_schema.nullable_schema(
                    core_schema.str_schema(pattern="^a+$")
                )
            ),
        ],
        ['"aa"', "null"],
        ['"b"'],
    ),
    entry(
        "chain core schema",
        Annotated[
            Any,
            GetPydanticSchema(
                lambda kind, handler: core_schema.chain_schema(
                    [core_schema.str_schema(pattern=r"^-?\d{1,3}$"), core_schema.int_schema(ge=0)]
                )
            ),
        ],
        ['"12"'],
        ['"-1"', '"x"', "1"],
    ),
    entry(
        "custom error schema",
        Annotated[
            Any,
            GetPydanticSchema(
                lambda kind, handler: core_schema.custom_error_schema(
                    core_schema.int_schema(gt=0), custom_error_type="e", custom_error_message="m"
                )
            ),
        ],
        ["1"],
        ["0"],
    ),
    entry(
        "lax or strict schema",
        Annotated[
            Any,
            GetPydanticSchema(
                lambda kind, handler: core_schema.lax_or_strict_schema(
                    core_schema.int_schema(le=5), core_schema.int_schema()
                )
            ),
        ],
        ["5"],
        ["6"],
    ),
    entry(
        "default of a core schema",
        Annotated[
            Any,
            GetPydanticSchema(
                lambda kind, handler: core_schema.with_default_schema(
                    core_schema.int_schema(), default=3, on_error="default"
                )
            ),
        ],
        ["1"],
        [],
    ),
    entry("MISSING", Missing, ['{"a": 1, "b": "x"}'], ['{"a": "x"}']),
    entry("SerializeAsAny", Omitted, ['{"values": [1], "other": {"a": 2}}'], ['{"values": ["x"]}'], "code"),
    entry("SkipValidation", Skipped, ['{"a": 1, "b": 2}'], ['{"b": "x"}']),
    entry("custom class in a model", Arbitrary, ['{"a": 1, "b": 20.5}'], ['{"a": 1, "b": -300}']),
    entry("InstanceOf with a default", WithInstance, ['{"a": 1, "b": null}'], ['{"a": "x"}']),
    entry("InstanceOf str", InstanceOf[str], ['"a"'], []),
    entry("callable or None", WithCallable, ['{"a": 1, "b": null, "c": null}'], ['{"a": 1, "b": 2}']),
    entry("ValidateAs", Annotated[Celsius, ValidateAs(float, Celsius)], ["1.5"], ['"a"']),
    entry("pipeline", Annotated[int, validate_as(int).ge(2).lt(10)], ["2", "9"], ["1", "10"]),
    entry("pipeline of str", Annotated[str, validate_as(str).str_strip().str_lower()], ['"a"'], ["1"]),
    entry("Predicate of a method", at.LowerCase[str], ['"abc"'], ['"ABC"'], "code"),
    entry("Not", Annotated[int, at.Not(lambda n: n == 0)], ["1"], ["0"], "code"),
    entry("Unit", Annotated[float, at.Unit("m")], ["1.5"], ['"a"']),
    entry("Timezone", Annotated[str, at.doc("d")], ['"a"'], ["1"]),
)  # fmt: skip
