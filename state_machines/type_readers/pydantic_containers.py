"""Rows of pydantic's core schemas that contain others: objects, arrays, unions.

Each function returns the JSON Schema of the texts that the validator of one kind reads, given the
reader and the core schema. Observed with pydantic 2.14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.errors import PydanticInvalidForJsonSchema

from state_machines.type_readers import pydantic_scalars as scalars
from state_machines.type_readers.marks import GAPS, LEFT_OUT, Schema, note
from state_machines.type_readers.parts import language
from state_machines.type_readers.pydantic_listed import listed_keys
from state_machines.type_readers.pydantic_scalars import Core

if TYPE_CHECKING:
    from state_machines.type_readers.pydantic_reader import PydanticReader

_VARIADIC_ITEMS = 8
"""Largest number of items that are written in the middle of a tuple."""


# Objects


def closed(reader: PydanticReader, core: Core) -> Schema:
    """Models and typed dicts: other members are dropped or refused, so none is written."""
    schema = reader.base(core)
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    if core["type"] == "model":
        return _with_model_gaps(core, schema)
    return schema


def fields(reader: PydanticReader, core: Core) -> Schema:
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
    if core.get("post_init") == "model_post_init":
        reasons.append(f"model_post_init of {core['cls'].__name__}")
    return note(schema, GAPS, *reasons) if reasons else schema


def data_class(reader: PydanticReader, core: Core) -> Schema:
    """Dataclasses, whose ``__post_init__`` may raise an error."""
    schema = closed(reader, core)
    if core.get("post_init"):
        schema = note(schema, GAPS, f"__post_init__ of {core['cls'].__name__}")
    return schema


def mapping(reader: PydanticReader, core: Core) -> Schema:
    """Dictionaries: keys are texts that the type of keys reads and writes back."""
    keys = _key_names(reader, core.get("keys_schema") or {"type": "any"})
    values = reader.generate_inner(core["values_schema"]) if "values_schema" in core else {}
    values = {name: value for name, value in values.items() if name != "title"}
    schema: Schema = {"type": "object", "additionalProperties": values or True}
    if keys is not True:
        schema["propertyNames"] = keys
    if keys is False:
        schema = note(schema, LEFT_OUT, "the keys, which no JSON is read as")
    reader.update_with_validations(schema, core, reader.ValidationsMapping.object)
    return schema


def _key_names(reader: PydanticReader, core: Core) -> Any:
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
        names = [each for each in names if each is not False]
        return True if True in names else {"anyOf": names} if names else False
    if kind in ("nullable", "default", "custom-error"):
        return _key_names(reader, core["schema"])
    with reader.distinct(canonical=True):
        try:
            schema = reader.generate_inner(core)
        except PydanticInvalidForJsonSchema:
            return False
    if schema == {"type": "string"}:
        return True
    return schema if schema.get("type") == "string" else False


def _numeral(core: Core) -> Schema:
    """Return the names that a validator of numbers reads and writes back."""
    kind = core["type"]
    bounds = (*scalars.BOUNDS, "multiple_of") if kind != "bool" else ()
    texts = {name: None if core.get(name) is None else str(core[name]) for name in bounds}
    if kind != "decimal":
        return language(kind, **texts)
    digits = {name: core.get(name) for name in ("max_digits", "decimal_places")}
    return language(kind, **texts, **digits, canonical=True)


# Arrays


def set_(reader: PydanticReader, core: Core) -> Schema:
    """Sets: items are hashable; with a minimum, different texts are different values."""
    with reader.distinct(canonical=(core.get("min_length") or 0) > 1):
        return reader.base(core)


def list_(reader: PydanticReader, core: Core) -> Schema:
    """Lists, which are no item of a set."""
    if reader.is_hashable:
        raise PydanticInvalidForJsonSchema("a list is not hashable")
    return reader.base(core)


def any_(reader: PydanticReader, core: Core) -> Schema:
    """Any value; any hashable one in a set."""
    if not reader.is_hashable:
        return {}
    number = ["integer"] if reader.is_canonical else ["boolean", "number"]
    return {"type": ["null", "string", *number]}


def tuple_(reader: PydanticReader, core: Core) -> Schema:
    """Tuples; items of any number in the middle are few."""
    items, index = core["items_schema"], core.get("variadic_item_index")
    if index is None or index + 1 == len(items):
        return reader.base(core)
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


def named_tuple(reader: PydanticReader, core: Core) -> Schema:
    """Named tuples: an array; items with a default are written."""
    schema = reader.base(core)
    if reader.writes_defaults and "prefixItems" in schema:
        schema["minItems"] = len(schema["prefixItems"])
    return schema


# Unions and functions


_NUMBERS = ("float", "int", "bool", "decimal", "literal", "enum")


def union(reader: PydanticReader, core: Core) -> Schema:
    """Unions; in a set with a minimum the numbers are of one type, since ``1 == True``."""
    if not reader.is_canonical:
        return _with_readable_choices(reader, core)
    choices = [choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"]]
    kinds = [reader.resolved(choice)["type"] for choice in choices]
    number = next((kind for kind in _NUMBERS if kind in kinds), None)
    kept = [
        choice
        for choice, kind in zip(choices, kinds, strict=True)
        if kind not in _NUMBERS or kind == number
    ]
    return _with_readable_choices(reader, {**core, "choices": kept})


def _with_readable_choices(reader: PydanticReader, core: Core) -> Schema:
    """Return the schema of a union without the choices that no JSON is read as."""
    before = len(reader.skipped)
    schema = reader.base(core)
    lost = [f"a choice: {detail}" for detail in reader.skipped[before:]]
    if schema == {"anyOf": []}:
        raise scalars.UnreadableError("no JSON is read as a choice of the union", hint=_DATA)
    return note(schema, LEFT_OUT, *lost) if lost else schema


_DATA = "Give choices that are data"


def nullable(reader: PydanticReader, core: Core) -> Schema:
    """``Optional``: null alone, if no JSON is read as the other choice."""
    try:
        return reader.base(core)
    except PydanticInvalidForJsonSchema as error:
        return note({"type": "null"}, LEFT_OUT, f"a choice: {error.message}")


def subclass(reader: PydanticReader, core: Core) -> Schema:
    """Classes, which no JSON is read as."""
    raise PydanticInvalidForJsonSchema("a class is no data")


def tagged_union(reader: PydanticReader, core: Core) -> Schema:
    """Unions by a tag: the tag is written, also if it has a default."""
    schema = reader.base(core)
    choices = schema.pop("oneOf")
    if not choices:
        raise scalars.UnreadableError("no JSON is read as a choice of the union", hint=_DATA)
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


def chain(reader: PydanticReader, core: Core) -> Schema:
    """Steps that each read the result of the step before."""
    schema = reader.base(core)
    later = [step for step in core["steps"][1:] if step["type"] != "definition-ref"]
    return note(schema, GAPS, "the later steps of a chain") if later else schema


def json_text(reader: PydanticReader, core: Core) -> Schema:
    """``Json``: a string that contains JSON."""
    return {**reader.base(core), **language("json")}


def lax_or_strict(reader: PydanticReader, core: Core) -> Schema:
    """Two validators, of which the configuration selects one."""
    return reader.generate_inner(core["strict_schema" if reader.is_strict(core) else "lax_schema"])
