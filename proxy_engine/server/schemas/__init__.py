"""Request bodies as pydantic models: other names of fields, numbers, and unknown fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class OtherName:
    """The field that a field of another server sets.

    Attributes:
        field: Our name.
        convert: Returns our value for the other server's value.
    """

    field: str
    convert: Callable[[Any], Any] = _same


OTHER_NAMES: Mapping[str, OtherName] = {
    # OpenAI's older name.
    "max_tokens": OtherName("max_completion_tokens"),
    # Anthropic's, and its former name.
    "stop_sequences": OtherName("stop"),
    "output_format": OtherName("output_config", lambda value: {"format": value}),
    # mlx-lm: one window for all penalties here.
    "presence_context_size": OtherName("repetition_context_size"),
    "frequency_context_size": OtherName("repetition_context_size"),
    # llama.cpp and LM Studio.
    "repeat_penalty": OtherName("repetition_penalty"),
    # vLLM: its object of constraints, and its former fields.
    "structured_outputs.json": OtherName("json_schema"),
    "structured_outputs.regex": OtherName("regex"),
    "structured_outputs.choice": OtherName("choice"),
    "structured_outputs.grammar": OtherName("grammar"),
    "structured_outputs.json_object": OtherName(
        "response_format", lambda value: {"type": "json_object" if value else "text"}
    ),
    "structured_outputs.structural_tag": OtherName("structural_tag"),
    "guided_json": OtherName("json_schema"),
    "guided_regex": OtherName("regex"),
    "guided_choice": OtherName("choice"),
    "guided_grammar": OtherName("grammar"),
    "add_generation_prompt": OtherName("continue_final_message", lambda value: value is False),
    # SGLang.
    "ebnf": OtherName("grammar"),
}
"""By name. A dot stands before a member of an object."""

ALL_NAMES: Mapping[str, OtherName] = {
    **OTHER_NAMES,
    **{
        f"options.{name}": OtherName(name)
        for name in (
            *("temperature", "top_k", "top_p", "min_p", "seed", "stop"),
            *("presence_penalty", "frequency_penalty"),
        )
    },
    "options.repeat_penalty": OtherName("repetition_penalty"),
    # -2 fills the context, as -1 does here.
    "options.num_predict": OtherName(
        "max_completion_tokens", lambda value: -1 if value == -2 else value
    ),
}
"""The same with the members of Ollama's ``options``."""

NO_EFFECT = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier", "verbosity"),
        *("prompt_cache_key", "prompt_cache_retention", "prediction", "cache_control"),
        *("structured_outputs.disable_fallback", "structured_outputs.disable_any_whitespace"),
    }
)
"""Fields of OpenAI, Anthropic and vLLM that change no answer here."""


MAX_MESSAGES = 8_192
"""The maximum number of messages or items of a conversation; OpenAI's is 2,048.

The event loop takes some 10 µs to validate one, and sends nothing to other clients meanwhile.
"""

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?")


class RequestModel(BaseModel):
    """The base of request bodies, and of objects in them.

    - Types are not converted, except numbers: 256.0 is an integer, and the text "5" is a number.
      Booleans are no numbers.
    - ``None`` stands for a missing field.
    - A field may have the name of another server, see ``other_names``.
    - Unknown fields are collected, see :meth:`unknown_fields`. They are no attributes.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)

    other_names: ClassVar[Mapping[str, OtherName]] = OTHER_NAMES
    no_effect: ClassVar[frozenset[str]] = NO_EFFECT
    """Fields that are accepted without a notice, since they change no answer."""

    _unknown: dict[str, Any] = PrivateAttr(default_factory=dict)
    _given_as: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, Mapping):
            return handler(values)
        fields: Mapping[str, Any] = values
        given_as: dict[str, str] = {}
        if not values.keys() <= (known := _field_names(cls)):
            fields, given_as = cls._renamed(values)
        converted = {
            name: as_number(fields[name], is_integer=is_integer)
            for name, is_integer in _numeric_fields(cls).items()
            if name in fields
        }
        model = handler({**fields, **converted} if converted else fields)
        if fields is not values:
            model._given_as = given_as
            model._unknown = {
                name: value
                for name, value in fields.items()
                if value is not None and name not in known and name not in cls.no_effect
            }
        return model

    @classmethod
    def _renamed(cls, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return values by our names, and the names in the request where these differ.

        A field under two names keeps the other name, and so becomes an unknown field, unless both
        have the same value.
        """
        known = _field_names(cls)
        fields = {
            name: value for name, value in values.items() if value is not None or name in known
        }
        for parent in _parents(cls) & fields.keys():
            members = fields.pop(parent)
            if not isinstance(members, Mapping):
                raise ValueError(f"{parent} should be an object")
            fields |= {f"{parent}.{key}": v for key, v in members.items() if v is not None}
        given_as: dict[str, str] = {}
        for name in [name for name in fields if name in cls.other_names and name not in known]:
            other = cls.other_names[name]
            value = other.convert(fields[name])
            if other.field in known and fields.get(other.field) in (None, value):
                del fields[name]
                fields[other.field] = value
                given_as.setdefault(other.field, name)
        return fields, given_as

    def given_name(self, field: str) -> str:
        """Return the name under which the request has a field."""
        return self._given_as.get(field, field)

    def unknown_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the path and the value of each unknown field that is not ``None``.

        A path has the names of the objects around a field, such as ``stream_options.verbose``.
        Items of lists are not numbered: ``messages[].weight``.
        """
        yield from self._unknown.items()
        for name in _nested_fields(type(self)):
            value = getattr(self, name)
            prefix, items = (
                (f"{name}[].", value) if isinstance(value, list) else (f"{name}.", [value])
            )
            for item in items:
                if isinstance(item, RequestModel):
                    for path, unknown in item.unknown_fields():
                        yield prefix + path, unknown

    def ineffective_fields(self) -> Iterator[str]:
        """Yield the names of known fields whose values have no effect although they should.

        Fields that never have an effect, such as ``user``, are not among them.
        """
        return iter(())


def as_number(value: Any, *, is_integer: bool) -> Any:
    """Return the number that ``value`` stands for; any other value unchanged.

    Args:
        value: A value of JSON. The text of a number is a number.
        is_integer: Whether to convert 256.0 to 256.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value) if value.lstrip("+-").isdecimal() else float(value)
    if is_integer and isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


@cache
def _parents(model: type[RequestModel]) -> frozenset[str]:
    """Return the names of the objects whose members stand for fields of the model."""
    parents = {name.partition(".")[0] for name in model.other_names if "." in name}
    return frozenset(parents - _field_names(model))


@cache
def _numeric_fields(model: type[BaseModel]) -> dict[str, bool]:
    """Return the names of a model's numeric fields, and whether they take integers only."""
    found = {}
    for name, field in model.model_fields.items():
        kinds = {*_kinds(field.annotation)}
        # A text is itself where the field also takes texts.
        if kinds & {int, float} and str not in kinds:
            found[field.alias or name] = float not in kinds
    return found


@cache
def _nested_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the fields whose values are objects of this module, or lists of them."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if any(
            isinstance(item, type) and issubclass(item, RequestModel)
            for kind in _kinds(field.annotation)
            for item in (get_args(kind) if get_origin(kind) is list else (kind,))
        )
    )


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the alternatives of a type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for alternative in get_args(annotation):
            yield from _kinds(alternative)
    elif origin is Literal:
        yield from map(type, get_args(annotation))
    else:
        yield annotation
