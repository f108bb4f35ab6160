"""Rows of pydantic's core schemas that contain schemas: objects, arrays, unions.

Each function returns the JSON Schema of the texts that the validator of one kind reads, given the
reader and the core schema. Observed with pydantic 2.14.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator
from typing import Any

from pydantic import NameEmail
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import PydanticOmit

from state_machines.reader_languages.multiples import multiples_within_tolerance
from state_machines.type_readers import pydantic_scalars as scalars
from state_machines.type_readers.core_reader import Core, CoreReader, UnreadableError
from state_machines.type_readers.pydantic_functions import NUMBERS, read_by_function, value_types
from state_machines.type_readers.pydantic_listed import listed_keys
from state_machines.type_readers.type_schema import (
    GAPS,
    LEFT_OUT,
    Schema,
    language,
    note,
    unlike_equality,
)

SAME_ITEMS = "sets with the same items in another order are one item"
_SAME_JSON = "different texts of the same JSON are one value"

_LENGTHS = ("min_length", "max_length")

_VARIADIC_ITEMS = 8
"""Largest number of items that are written in the middle of a tuple."""


# Objects


def closed(reader: CoreReader, core: Core) -> Schema:
    """Models and typed dicts: other members are dropped or refused, so none is written."""
    schema = reader.base(core)
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    if core["type"] == "model":
        schema = _with_model_gaps(core, schema)
    return _with_equality(reader, core, schema)


def _with_equality(reader: CoreReader, core: Core, schema: Schema) -> Schema:
    """Return a schema with a gap if different texts of a class may be equal values in a set."""
    reason = unlike_equality(core["cls"]) if reader.is_canonical and "cls" in core else ""
    return note(schema, GAPS, reason) if reason else schema


def fields(reader: CoreReader, core: Core) -> Schema:
    """Fields of a model, with the names of extra members."""
    schema = reader.base(core)
    if "extras_keys_schema" in core:
        extra = _key_names(reader, core["extras_keys_schema"])
        if extra is not True:
            names = list(schema["properties"])
            schema["propertyNames"] = {"anyOf": [{"enum": names}, extra]} if names else extra
    return schema


def _with_model_gaps(core: Core, schema: Schema) -> Schema:
    reasons = []
    if core.get("custom_init"):
        reasons.append(f"__init__ of {core['cls'].__name__}")
    if core.get("post_init") == "model_post_init" and not _sets_private_attributes(core["cls"]):
        reasons.append(f"model_post_init of {core['cls'].__name__}")
    return note(schema, GAPS, *reasons) if reasons else schema


def _sets_private_attributes(cls: Any) -> bool:
    """Return whether ``model_post_init`` is the function of pydantic for private attributes."""
    function = inspect.unwrap(cls.model_post_init)
    return str(function.__module__).startswith("pydantic.")


def data_class(reader: CoreReader, core: Core) -> Schema:
    """Dataclasses, whose ``__post_init__`` may raise an error."""
    schema = closed(reader, core)
    if core.get("post_init"):
        schema = note(schema, GAPS, f"__post_init__ of {core['cls'].__name__}")
    return schema


def mapping(reader: CoreReader, core: Core) -> Schema:
    """Dictionaries: keys are texts that the type of keys reads and writes back."""
    key = core.get("keys_schema") or {"type": "any"}
    if (core.get("min_length") or 0) > 1:
        key = _without_equal_choices(reader, key)
    keys = _key_names(reader, key)
    values = reader.generate_inner(core["values_schema"]) if "values_schema" in core else {}
    values = {name: value for name, value in values.items() if name != "title"}
    schema: Schema = {"type": "object", "additionalProperties": values or True}
    if keys is not True:
        schema["propertyNames"] = keys
    if keys is False:
        if core.get("min_length"):
            raise UnreadableError(
                "no name of an object is read as a key of this type",
                hint="Give keys that are strings, numbers, dates, UUIDs or enums, or no min_length",
            )
        schema = note(schema, LEFT_OUT, "the keys")
    reader.update_with_validations(schema, core, reader.ValidationsMapping.object)
    return schema


def _key_names(reader: CoreReader, core: Core) -> Any:
    """Return the schema of the names that a type of keys reads: a Boolean or an object."""
    core = reader.resolved(core)
    kind = core["type"]
    if kind in ("int", "float", "bool", "decimal"):
        return _numeral(core)
    if kind in ("literal", "enum"):
        return listed_keys(core)
    if kind == "any":
        return True
    if kind == "union":
        choices = (choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"])
        names = [_key_names(reader, choice) for choice in choices]
        names = [name for name in names if name is not False]
        if True in names:
            return True
        return {"anyOf": _without_midnight(names)} if names else False
    if kind in ("nullable", "default", "custom-error"):
        return _key_names(reader, core["schema"])
    if kind == "model" and core.get("root_model"):
        return _root_names(reader, core)
    with reader.distinct(canonical=True):
        try:
            schema = reader.generate_inner(core)
        except PydanticInvalidForJsonSchema:
            return False
    if schema.get("type") != "string" and kind.startswith("function-") and "schema" in core:
        return _names_behind_function(reader, core)
    names = _strings(schema)
    if names is False and kind == "function-plain":
        return read_by_function(core, {"type": "string"}, reader.config, is_canonical=True)
    return names


def _strings(schema: Schema) -> Any:
    """Return the schema of the strings of a schema: a Boolean or an object."""
    if "anyOf" in schema:
        found = [_strings(choice) for choice in schema["anyOf"]]
        found = [each for each in found if each is not False]
        return True if True in found else {**schema, "anyOf": found} if found else False
    kind = schema.get("type")
    if isinstance(kind, list) and "string" in kind:
        schema = {**schema, "type": "string"}
    if schema == {"type": "string"}:
        return True
    is_text = all(isinstance(value, str) for value in schema.get("enum", [None]))
    return schema if is_text or schema.get("type") == "string" else False


def _names_behind_function(reader: CoreReader, core: Core) -> Any:
    """Return the names that are read as keys which a function checks or converts."""
    names = _key_names(reader, core["schema"])
    if names is False:
        return False
    described = {"type": "string", **({} if names is True else names)}
    return _strings(read_by_function(core, described, reader.config, is_canonical=True))


def _root_names(reader: CoreReader, core: Core) -> Any:
    """Return the names that are read as a ``RootModel``, which has to be hashable."""
    if core["cls"].__hash__ is None:
        return False
    root = reader.resolved(core["schema"])
    names = _key_names(reader, root["fields"]["root"]["schema"] if "fields" in root else root)
    return (
        _with_model_gaps(core, {"type": "string"} if names is True else names) if names else False
    )


def _numeral(core: Core) -> Schema:
    """Return the names that a validator of numbers reads and writes back."""
    kind = core["type"]
    bounds = (*scalars.BOUNDS, "multiple_of") if kind != "bool" else ()
    texts = {name: None if core.get(name) is None else str(core[name]) for name in bounds}
    if kind == "float" and core.get("multiple_of") is not None:
        limit = multiples_within_tolerance(core["multiple_of"]).limit
        texts["ge"] = str(max(-limit, core["ge"] if core.get("ge") is not None else -limit))
        texts["le"] = str(min(limit, core["le"] if core.get("le") is not None else limit))
    if kind != "decimal":
        return language(kind, **texts)
    digits = {name: core.get(name) for name in ("max_digits", "decimal_places")}
    return language(kind, **texts, **digits, canonical=True)


# Arrays


_UNHASHABLE = frozenset(
    {"list", "deque", "set", "dict", "ordered-dict", "counter", "typed-dict"},
)


def check_hashable(core: Core) -> None:
    """Raise an error if values of a core schema cannot be items of a set.

    Raises:
        UnreadableError: They are not hashable.
    """
    if core["type"] in _UNHASHABLE:
        kind = f"a {core['type']}"
    elif core["type"] in ("model", "dataclass") and core["cls"].__hash__ is None:
        kind = f"an instance of {core['cls'].__name__}"
    elif core["type"] == "function-after" and _is_name_email(core):
        kind = "a NameEmail"
    else:
        return
    raise UnreadableError(
        f"{kind} is not hashable, so it cannot be in a set",
        hint="Give a tuple, a frozenset or a frozen class, or a list in place of the set",
    )


def _is_name_email(core: Core) -> bool:
    function = core["function"]["function"]
    return getattr(function, "__self__", None) is NameEmail


def set_(reader: CoreReader, core: Core) -> Schema:
    """Sets: items are hashable; with a minimum, different texts are different values."""
    is_item = reader.is_canonical
    with reader.distinct(canonical=(core.get("min_length") or 0) > 1):
        schema = reader.base(core)
    return note(schema, GAPS, SAME_ITEMS) if is_item else schema


def any_(reader: CoreReader, core: Core) -> Schema:
    """Any value; any hashable one in a set."""
    if not reader.is_hashable:
        return {}
    number = ["integer"] if reader.is_canonical else ["boolean", "number"]
    return {"type": ["null", "string", *number]}


def tuple_(reader: CoreReader, core: Core) -> Schema:
    """Tuples; items of any number in the middle are few."""
    items, index = core["items_schema"], core.get("variadic_item_index")
    if index is None or index + 1 == len(items):
        return _sized_tuple(reader, core, len(items) if index is None else index, index is None)
    front, middle, back = items[:index], items[index : index + 1], items[index + 1 :]
    fewest = max((core.get("min_length") or 0) - len(front) - len(back), 0)
    most = fewest + _VARIADIC_ITEMS
    if core.get("max_length") is not None:
        most = min(most, core["max_length"] - len(front) - len(back))
    sizes = (
        {"type": "tuple", "items_schema": [*front, *middle * count, *back]}
        for count in range(fewest, most + 1)
    )
    return {"anyOf": [reader.base(fixed) for fixed in sizes]}


def _sized_tuple(reader: CoreReader, core: Core, fewest: int, is_fixed: bool) -> Schema:
    """Return the schema of a tuple of at least some items, and with the lengths of the type."""
    shortest = max(fewest, core.get("min_length") or 0)
    sizes = (fewest if is_fixed else None, core.get("max_length"))
    most = [size for size in sizes if size is not None]
    if most and shortest > min(most):
        raise UnreadableError(
            f"no tuple has at least {shortest} and at most {min(most)} items",
            hint="Leave min_length and max_length out, or change the number of items",
        )
    schema = reader.base({name: core[name] for name in core if name not in _LENGTHS})
    schema |= {"minItems": shortest} if shortest else {}
    return {**schema, "maxItems": min(most)} if most else schema


def named_tuple(reader: CoreReader, core: Core) -> Schema:
    """Named tuples: an array; items with a default are written."""
    schema = reader.base(core)
    # Different items of a set could otherwise be equal.
    if (reader.writes_defaults or reader.is_canonical) and "prefixItems" in schema:
        schema["minItems"] = len(schema["prefixItems"])
    return _with_equality(reader, core, schema)


# Unions and functions


_NUMBERS = ("float", "int", "bool", "decimal", "literal", "enum")
"""The kinds of numbers that others give way to, the preferred ones first."""


def union(reader: CoreReader, core: Core) -> Schema:
    """Unions; in a set with a minimum no choices have equal values."""
    if not reader.is_canonical:
        return _with_readable_choices(reader, core)
    schema = _with_readable_choices(reader, _without_equal_choices(reader, core))
    if "anyOf" in schema:
        return {**schema, "anyOf": _without_midnight(schema["anyOf"])}
    return schema


def _without_midnight(choices: list[Schema]) -> list[Schema]:
    """Return choices without midnight beside dates, since a union reads it as a date."""
    languages = [choice.get("x-reader-language", {}).get("language") for choice in choices]
    if "date" not in languages:
        return choices
    return [
        {**choice, "not": {"pattern": "T00:00:00Z?$"}} if language == "datetime" else choice
        for choice, language in zip(choices, languages, strict=True)
    ]


def _without_equal_choices(reader: CoreReader, core: Core) -> Core:
    """Return a union without ambiguous choices, whose values may equal a value of another choice.

    Numbers are of one type, since ``1 == True`` and since the ``Fraction`` of ``"1"`` is 1.
    """
    core = reader.resolved(core)
    if core["type"] != "union":
        return core
    choices = [choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"]]
    kinds = [_number_kind(reader.resolved(choice)) for choice in choices]
    known = (kind for kind in (*_NUMBERS, *kinds) if kind in kinds and kind)
    number = next(known, "")
    kept = [choice for choice, kind in zip(choices, kinds, strict=True) if kind in ("", number)]
    return {**core, "choices": kept}


def _number_kind(core: Core) -> str:
    """Return the kind of a choice whose values are numbers, else an empty text."""
    is_number = all(issubclass(cls, (*NUMBERS, complex)) for cls in value_types(core))
    has_numbers = core["type"] in ("literal", "enum") and not all(
        issubclass(cls, str) for cls in map(type, _listed_values(core))
    )
    return str(core["type"]) if is_number or has_numbers else ""


def _listed_values(core: Core) -> Iterator[Any]:
    members = core["members"] if core["type"] == "enum" else core["expected"]
    return (getattr(member, "value", member) for member in members)


def _with_readable_choices(reader: CoreReader, core: Core) -> Schema:
    """Return the schema of a union without the choices that no JSON is read as."""
    before = len(reader.skipped)
    schema = reader.base(core)
    lost = [f"a choice: {detail}" for detail in reader.skipped[before:]]
    if schema == {"anyOf": []}:
        raise UnreadableError("no JSON is read as a choice of the union", hint=_DATA)
    if not lost:
        return schema
    schema = note(schema, LEFT_OUT, *lost)
    if reader.is_hashable and not all(map(_is_scalar, schema.get("anyOf", [schema]))):
        # A union may read the array of a tuple as a list.
        return note(schema, GAPS, *(f"items are not read as {detail}" for detail in lost))
    return schema


def _is_scalar(schema: Schema) -> bool:
    """Return whether a schema has neither arrays nor objects."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    kinds = schema.get("type", [])
    named = {kinds} if isinstance(kinds, str) else {*kinds}
    if values:
        return not any(isinstance(value, list | dict) for value in values)
    return bool(named) and not named & {"array", "object"}


_DATA = "Give choices that are data"


def nullable(reader: CoreReader, core: Core) -> Schema:
    """``Optional``: null alone, if no JSON is read as the type inside."""
    try:
        return reader.base(core)
    except PydanticOmit:
        return {"type": "null"}
    except PydanticInvalidForJsonSchema as error:
        return note({"type": "null"}, LEFT_OUT, f"a choice: {error.message}")


_NO_DATA = {"is-subclass": "a class", "callable": "a function"}


def no_data(reader: CoreReader, core: Core) -> Schema:
    """Classes, functions and instances of other classes, which no JSON is read as."""
    cls = core.get("cls")
    what = _NO_DATA.get(core["type"]) or f"an instance of {getattr(cls, '__name__', cls)}"
    raise PydanticInvalidForJsonSchema(f"{what} is no data")


def tagged_union(reader: CoreReader, core: Core) -> Schema:
    """Unions by a tag: the tag is written, also if it has a default."""
    schema = reader.base(core)
    choices = schema.pop("oneOf")
    if not choices:
        raise UnreadableError("no JSON is read as a choice of the union", hint=_DATA)
    tag = schema.get("discriminator", {}).get("propertyName")
    if callable(core["discriminator"]):
        named = getattr(core["discriminator"], "__name__", "function")
        schema = note(schema, GAPS, f"the discriminator {named} of the union")
    elif tag is not None:
        choices = [_with_required(choice, tag) for choice in choices]
    return {**schema, "anyOf": choices}


def _with_required(choice: Schema, name: str) -> Schema:
    required = choice.get("required", [])
    return choice if name in required else {**choice, "required": [*required, name]}


def chain(reader: CoreReader, core: Core) -> Schema:
    """Steps that each read the result of the step before."""
    later = [step for step in core["steps"][1:] if step["type"] != "definition-ref"]
    if [step.get("cls") for step in later] == [Hashable]:
        with reader.distinct(canonical=False):
            return reader.base(core)
    schema = reader.base(core)
    return note(schema, GAPS, "the later steps of a chain") if later else schema


def json_text(reader: CoreReader, core: Core) -> Schema:
    """``Json``: a string that contains JSON."""
    if reader.is_canonical:
        content = reader.resolved(core.get("schema") or {"type": "any"})
        if content["type"] in ("int", "float", "bool"):
            return _numeral(content)
        return note({**reader.base(core), **language("json")}, GAPS, _SAME_JSON)
    return {**reader.base(core), **language("json")}


def lax_or_strict(reader: CoreReader, core: Core) -> Schema:
    """Two validators; the configuration selects one."""
    return reader.generate_inner(core["strict_schema" if reader.is_strict(core) else "lax_schema"])
