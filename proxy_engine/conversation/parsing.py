"""Read messages, content parts and tool calls from dicts, and validate them.

Fields are declared once, with their types, in frozen dataclasses that pydantic validates; its
errors are raised as ``PromptError``.

Dicts in OpenAI's form are first converted to the form of ``to_dict``. The functions for that change
names and nesting only: the dataclasses check the values and refuse unknown keys. Keys with the
value ``None`` are left out, since clients send responses back with ``null`` for each absent field.
"""

from __future__ import annotations

import base64
import binascii
import functools
import inspect
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

import pydantic
import pydantic.dataclasses
from pydantic import BeforeValidator, StringConstraints
from pydantic_core import ArgsKwargs, SchemaValidator

from state_machines.argument_notations import INPUT

from ..checks import description, short_repr
from ..errors import MediaError, PromptError

_T = TypeVar("_T", bound="Validated")

_DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*);base64,(.*)", re.DOTALL)
_MEDIA = ("image", "audio")
# Fields of OpenAI's and Anthropic's parts that say nothing to a language model.
_IGNORED_IN_PARTS = {"annotations", "logprobs", "cache_control"}
_IGNORED_IN_CALLS = {"index", "parsed", "parsed_arguments"}
# Clients send back these fields of responses. The model does not read them. Some servers need
# "prefix" to continue a last message of the assistant; this library does so by default.
_IGNORED_IN_MESSAGES = {"annotations", "cache_control", "parsed", "prefix", "reasoning_details"}
# The names of reasoning in the messages of servers and chat templates.
_REASONING_KEYS = ("reasoning", "reasoning_content", "thinking")


def json_copy(value: Any) -> Any:
    """Return a deep copy of a JSON value, with tuples as lists.

    Raises:
        PromptError: The value is not JSON.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        return json.loads(text)
    except RecursionError as error:
        raise PromptError("the value is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise PromptError(f"the value is not JSON: {error}") from error


# A constraint of the length makes pydantic refuse lone surrogates, which UTF-8 cannot encode.
PromptText: TypeAlias = Annotated[str, StringConstraints(strict=True, min_length=0)]
JsonValue: TypeAlias = Annotated[Any, BeforeValidator(json_copy)]


class Validated:
    """Base of the classes that ``validated`` decorates."""

    __slots__ = ()
    __pydantic_validator__: ClassVar[SchemaValidator]

    def _set(self, values: dict[str, Any]) -> None:
        """Validate values by the names of fields, and set the fields."""
        try:
            self.__pydantic_validator__.validate_python(ArgsKwargs((), values), self_instance=self)
        except pydantic.ValidationError as error:
            raise _prompt_error(error) from error

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        """Create an object from fields, without the constructor."""
        made = object.__new__(cls)
        made._set(values)
        return made


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def validated(cls: type[_T]) -> type[_T]:
    """Make a class a frozen dataclass whose constructor raises ``PromptError``.

    A constructor that the class defines is kept. It sets the fields with ``_set``.
    """
    constructor = cls.__dict__.get("__init__")
    config = pydantic.ConfigDict(extra="forbid")
    made = pydantic.dataclasses.dataclass(cls, frozen=True, slots=True, config=config)
    signature = inspect.signature(made)

    @functools.wraps(made.__init__)
    def __init__(self: Validated, *args: Any, **keywords: Any) -> None:
        self._set(signature.bind(*args, **keywords).arguments)

    made.__init__ = constructor or __init__  # type: ignore[method-assign, assignment]
    return made  # type: ignore[return-value]


def _prompt_error(error: pydantic.ValidationError) -> PromptError:
    """Return the first problem, at its location such as ``content[0].text``."""
    fact: Mapping[str, Any] = error.errors(include_url=False)[0]
    location = list(fact["loc"])
    if location[:1] == ["content"]:
        # Behind the index, pydantic adds the kind of the part.
        del location[2:3]
    cause = fact.get("ctx", {}).get("error")
    if isinstance(cause, PromptError):
        return cause.at(_path(location))
    if fact["type"].startswith("union_tag"):
        part = fact["input"]
        if isinstance(part, dict) and "kind" in part:
            part = {"type": part["kind"], **{k: v for k, v in part.items() if k != "kind"}}
        return PromptError(
            f"a content part is not known: {short_repr(part)}",
            where=_path(location),
            hint='Parts of text are {"type": "text", "text": ...}, images {"type": "image_url", '
            '"image_url": {"url": ...}}.',
        )
    name = "a value" if not location or isinstance(location[-1], int) else location.pop()
    what = description(fact["type"], fact["msg"], fact["input"])
    return PromptError(f"{name} {what}", where=_path(location))


def _path(location: list[int | str]) -> str:
    keys = (f"[{key}]" if isinstance(key, int) else f".{key[:80]}" for key in location)
    return "".join(keys).removeprefix(".")


def message_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a message, and its ``tool_calls`` as they are.

    Args:
        value: An OpenAI message, or one that ``Interaction.to_dict`` wrote.

    Raises:
        PromptError: The value is no message.
    """
    if not isinstance(value, Mapping):
        hint = 'A message is {"role": "user", "content": ...}.'
        if isinstance(value, str):
            hint = f"{hint} generate_batch answers a list of prompts."
        raise PromptError(f"a message should be a dict, not {short_repr(value)}", hint=hint)
    if not value.keys() & {"content", "tool_calls", "refusal"}:
        raise PromptError("a message needs 'content'")
    values = present(value, _IGNORED_IN_MESSAGES)
    content, calls = values.pop("content", ()), values.pop("tool_calls", ())
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for key, items in (("content", parts), ("tool_calls", calls)):
        if not isinstance(items, list | tuple):
            kinds = "a string or a list of parts" if key == "content" else "a list"
            raise PromptError(f"{key} should be {kinds}, not {short_repr(items)}")
    if values.get("role") != "tool":
        # The name of another role's message is a person's, which no chat template writes.
        values.pop("name", None)
    refusals = [{"type": "text", "text": text} for text in _popped(values, "refusal")]
    ids = _popped(values, "id", "event_id")
    return {
        "role": values.pop("role", None),
        "content": [*parts, *refusals],
        "tool_calls": calls,
        "reasoning": next(iter(_popped(values, *_REASONING_KEYS)), None),
        "id": next(iter(ids), None),
        **values,
    }


def part_fields(part: Any) -> Any:
    """Return the fields of a content part, with its type as ``kind``."""
    if not isinstance(part, Mapping):
        return part
    values = present(part, _IGNORED_IN_PARTS)
    kind = values.pop("type", None)
    medium = str(kind).removeprefix("input_").removesuffix("_url")
    match values:
        case {"refusal": text, **rest} if kind == "refusal":
            return {"kind": "text", "text": text, **rest}
        case {"input_audio": {"data": data, "format": str(form)}, **rest} if medium == "audio":
            media_type = "audio/mpeg" if form == "mp3" else f"audio/{form}"
            return {"kind": medium, "data": data, "media_type": media_type, **rest}
        case {"file": {"file_data": url} as file, **rest} if kind == "file":
            return {"kind": kind, "name": file.get("filename"), **_file(url), **rest}
        case {"file_url": url, **rest} if kind == "file":
            return {"kind": kind, **_file(url), **rest}
        case {"action": call} if kind == "action":
            return {"kind": kind, **call_fields(call)}
    if kind == "action":
        return {"kind": kind, **call_fields(values)}
    if medium in _MEDIA and f"{medium}_url" in values:
        url = values.pop(f"{medium}_url")
        if kind == "input_image":
            values.pop("detail", None)
        url = url["url"] if isinstance(url, Mapping) and "url" in url else url
        return {"kind": medium, **_source(url), **values}
    return {**values, "kind": kind}


def call_fields(call: Any) -> dict[str, Any]:
    """Return the fields of a tool call.

    Args:
        call: ``{"id": …, "type": "function", "function": {"name": …, "arguments": …}}``, or the
            same without the inner object. The arguments are an object or its JSON text. The call of
            a custom tool is ``{"id": …, "type": "custom", "custom": {"name": …, "input": …}}``.
    """
    if not isinstance(call, Mapping):
        raise PromptError(f"a tool call should be a dict, not {short_repr(call)}")
    values = present(call, _IGNORED_IN_CALLS)
    kind = values.pop("type", "action")
    if kind not in ("action", "function", "custom"):
        raise PromptError(f"a tool call of type {short_repr(kind)} is not known")
    for inner in _popped(values, "function", "custom"):
        if not isinstance(inner, Mapping):
            raise PromptError(f"a tool call should be a dict, not {short_repr(inner)}")
        values |= present(inner, _IGNORED_IN_CALLS)
    if kind == "custom" or INPUT in values:
        values |= {"is_custom": True, "arguments": {INPUT: values.pop(INPUT, None)}}
    arguments = values.get("arguments")
    if isinstance(arguments, str):
        try:
            values["arguments"] = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise PromptError(
                f"the arguments of a call of {short_repr(values.get('name'))} are not JSON: {error}"
            ) from error
    return values


def decoded(data: Any) -> Any:
    """Return the bytes of a text in base64; other values as they are."""
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else data
    except (ValueError, binascii.Error) as error:
        raise MediaError("the data of a content part is not base64") from error


def present(value: Mapping[Any, Any], ignored: Collection[str] = ()) -> dict[Any, Any]:
    """Return the items that are neither ``None`` nor ignored."""
    return {key: item for key, item in value.items() if item is not None and key not in ignored}


def _source(url: Any) -> dict[str, Any]:
    """Return the fields of a medium for a URL, with the data of a ``data:`` URL."""
    match = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    return {"url": url} if match is None else {"data": match[3], "media_type": match[1] or None}


def _file(url: Any) -> dict[str, Any]:
    """Return the fields of a file for a URL. Only text that is declared as UTF-8 is decoded."""
    source = _source(url)
    if isinstance(url, str) and url.lower().startswith("data:text/plain;charset=utf-8;base64,"):
        try:
            return {"text": decoded(source["data"]).decode("utf-8")}
        except UnicodeDecodeError as error:
            raise PromptError("a file declared as UTF-8 is not UTF-8") from error
    return source


def _popped(values: dict[Any, Any], *keys: str) -> list[Any]:
    """Remove keys, and return the values that they had."""
    return [values.pop(key) for key in keys if key in values]
