"""JSON Schemas of pydantic types that admit the texts that the type reads.

pydantic's own JSON Schema describes more: a pattern in another dialect, numbers before they are
rounded, keys of any name, members of an enum that no JSON is read as. Here each kind of pydantic's
core schema (``pydantic_core.core_schema``) has a row in :data:`ROWS` where the texts that its
validator reads differ from pydantic's JSON Schema. All other kinds are described by pydantic.
Observed with pydantic 2.14.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import PydanticOmit

from state_machines.errors import UnsatisfiableSchemaError
from state_machines.json_schema.schema_copy import pointer_token
from state_machines.type_readers import pydantic_scalars as scalars
from state_machines.type_readers.marks import (
    GAPS,
    LEFT_OUT,
    Schema,
    TypeSchema,
    finished,
    note,
)
from state_machines.type_readers.pydantic_functions import read_by_function
from state_machines.type_readers.pydantic_members import MemberTree, field_path, key_validator

Core: TypeAlias = Any
"""A core schema: a dict with its kind as ``type``."""

_VARIADIC_ITEMS = 8
"""Largest number of items that are written in the middle of a tuple."""


class PydanticReader(GenerateJsonSchema):
    """Generates the schema of one type. Objects are closed unless the type keeps extra members.

    Attributes:
        writes_defaults: Whether properties with a default are required.
        is_canonical: Whether different texts have to be different values, as for keys.
        is_hashable: Whether values have to be hashable, as items of a set have.
    """

    writes_defaults: ClassVar[bool] = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_canonical = False
        self.is_hashable = False
        self._cores: dict[str, Core] = {}
        self._inlined: set[str] = set()
        self.result = TypeSchema({})

    def build_schema_type_to_method(self) -> Any:
        """Return the functions by kind: those of pydantic with those of the table."""
        methods = dict(super().build_schema_type_to_method())
        return methods | {kind: partial(row, self) for kind, row in ROWS.items()}

    def generate(self, schema: Core, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Return the schema of a type, without marks; its facts are then in ``result``."""
        self.result = finished(super().generate(schema, mode))
        return self.result.schema

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the enclosing type."""
        config: Mapping[str, Any] = self._config.config_dict
        return config

    @contextmanager
    def distinct(self, *, canonical: bool) -> Iterator[None]:
        """Generate schemas of items of a set within a ``with`` block."""
        before = self.is_canonical, self.is_hashable
        self.is_canonical, self.is_hashable = self.is_canonical or canonical, True
        try:
            yield
        finally:
            self.is_canonical, self.is_hashable = before

    def base(self, core: Core) -> Schema:
        """Return pydantic's schema of a core schema; its parts are read by the table."""
        method = getattr(super(), f"{core['type'].replace('-', '_')}_schema")
        schema: Schema = method(core)
        return schema

    def resolved(self, core: Core) -> Core:
        """Return a core schema, or the definition that it refers to."""
        while core["type"] == "definition-ref":
            core = self._cores[core["schema_ref"]]
        return core

    def definitions_schema(self, schema: Core) -> JsonSchemaValue:
        """Return the schema of a type with definitions."""
        self._cores.update((core["ref"], core) for core in schema["definitions"])
        return super().definitions_schema(schema)

    def generate_inner(self, schema: Core) -> JsonSchemaValue:
        """Return the schema of a part. A function may replace the schema of its input."""
        reference = schema.get("schema_ref") or schema.get("ref")
        if self.is_canonical and reference and reference not in self._inlined:
            # The definition admits several texts of one value.
            self._inlined.add(reference)
            try:
                return self.generate_inner(_without(self.resolved(schema), "ref"))
            finally:
                self._inlined.discard(reference)
        described = super().generate_inner(schema)
        if schema["type"].startswith("function-"):
            return read_by_function(schema, described)
        return described

    def default_schema(self, schema: Core) -> JsonSchemaValue:
        """Return the schema of a value with a default. Only a default that is JSON is shown."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pydantic.json_schema.PydanticJsonSchemaWarning)
            described = super().default_schema(schema)
        if "default" in described and scalars.json_of(described["default"]) is None:
            return _without(described, "default")
        return described

    def _named_required_fields_schema(
        self, named_required_fields: Sequence[tuple[str, bool, Any]]
    ) -> JsonSchemaValue:
        members = MemberTree()
        lost: list[str] = []
        uses_alias = self._by_alias is not False and self._config.validate_by_alias is not False
        for name, required, field in named_required_fields:
            if field.get("init") is False:
                continue
            path = field_path(field, name, uses_alias=uses_alias)
            has_default = field["schema"]["type"] == "default"
            try:
                schema = self.generate_inner(field).copy()
                _check_path(path, name)
            except PydanticOmit:
                continue
            except (PydanticInvalidForJsonSchema, UnsatisfiableSchemaError) as error:
                if required:
                    raise _located(error, f"/properties/{pointer_token(str(path[0]))}") from error
                lost.append(f"the property {path[0]!r}, which no JSON is read as")
                continue
            if "title" not in schema and self.field_title_should_be_set(field):
                schema["title"] = self.get_title_from_name(str(path[-1]))
            is_written = required or (has_default and self.writes_defaults)
            members.add(
                path,
                self.handle_ref_overrides(schema),
                is_required=is_written,
                is_defaulted=is_written and not required,
            )
        described: Schema = {"type": "object", "properties": {}, **members.written()}
        return note(described, LEFT_OUT, *lost) if lost else described


class OptionalDefaults(PydanticReader):
    """Generates schemas in which properties with a default are optional."""

    writes_defaults = False


def pydantic_schema(
    adapter: pydantic.TypeAdapter[Any], *, write_defaults: bool = True
) -> TypeSchema:
    """Return the JSON Schema of the texts that a type reads.

    Args:
        adapter: The type.
        write_defaults: Whether properties with a default are required.

    Raises:
        UnsatisfiableSchemaError: No JSON is read as a part of the type.
        PydanticInvalidForJsonSchema: The type has a part that is no data.
    """
    kind = PydanticReader if write_defaults else OptionalDefaults
    made: list[PydanticReader] = []

    def reader(*args: Any, **options: Any) -> PydanticReader:
        made.append(kind(*args, **options))
        return made[0]

    adapter.json_schema(schema_generator=cast("type[PydanticReader]", reader))
    return made[0].result


def _without(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _check_path(path: tuple[str | int, ...], name: str) -> None:
    if any(isinstance(step, int) and step < 0 for step in path):
        raise UnsatisfiableSchemaError(
            f"the alias of the field {name!r} counts from the end of an array",
            hint="Give an AliasPath with indices from the beginning, or a name as an alias",
        )


def _located(error: Exception, pointer: str) -> UnsatisfiableSchemaError:
    """Return an error of a part of a type, at a pointer of the whole."""
    if isinstance(error, UnsatisfiableSchemaError):
        return UnsatisfiableSchemaError(
            error.what, pointer=pointer + error.pointer, hint=error.hint
        )
    return UnsatisfiableSchemaError(
        f"no JSON is read as this part of the type: {error}",
        pointer=pointer,
        hint="Give the field a default, a type that is data, or a validator with "
        "json_schema_input_type",
    )


# Objects


def _closed(reader: PydanticReader, core: Core) -> Schema:
    """Models and typed dicts: other members are dropped or refused, so none is written."""
    schema = reader.base(core)
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    if core["type"] == "model":
        return _with_model_gaps(core, schema)
    return schema


def _with_model_gaps(core: Core, schema: Schema) -> Schema:
    reasons = []
    if core.get("custom_init"):
        reasons.append(f"__init__ of {core['cls'].__name__}")
    if core.get("post_init") == "model_post_init":
        reasons.append(f"model_post_init of {core['cls'].__name__}")
    return note(schema, GAPS, *reasons) if reasons else schema


def _data_class(reader: PydanticReader, core: Core) -> Schema:
    """Dataclasses, whose ``__post_init__`` may raise an error."""
    schema = _closed(reader, core)
    if core.get("post_init"):
        schema = note(schema, GAPS, f"__post_init__ of {core['cls'].__name__}")
    return schema


def _mapping(reader: PydanticReader, core: Core) -> Schema:
    """Dictionaries: keys are texts that the type of keys reads and writes back."""
    keys = _key_names(reader, core.get("keys_schema") or {"type": "any"})
    values = reader.generate_inner(core["values_schema"]) if "values_schema" in core else {}
    members: Any = _without(values, "title") or True
    schema: Schema = {"type": "object", "additionalProperties": members}
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
        return _listed_keys(core)
    if kind == "any":
        return True
    if kind == "union":
        choices = (choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"])
        names = [_key_names(reader, choice) for choice in choices]
        names = [each for each in names if each is not False]
        return True if True in names else {"anyOf": names} if names else False
    if kind in ("nullable", "default", "custom-error"):
        return _key_names(reader, core["schema"])
    if kind == "json-or-python":
        return _key_names(reader, core["json_schema"])
    if kind == "lax-or-strict":
        return _key_names(reader, core["strict_schema" if core.get("strict") else "lax_schema"])
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
        return scalars.language(kind, **texts)
    digits = {name: core.get(name) for name in ("max_digits", "decimal_places")}
    return scalars.language(kind, **texts, **digits, canonical=True)


def _listed_keys(core: Core) -> Any:
    """Return the names that are read as members of an enum or a literal."""
    validator = key_validator(core)
    members = core["members"] if core["type"] == "enum" else core["expected"]
    names, lost = [], []
    for member in members:
        value = getattr(member, "value", member)
        name = value if isinstance(value, str) else scalars.json_of(value)
        written = None if name is None else scalars.json_of({name: None})
        if written is not None and scalars.reads(validator, written, {member: None}):
            names.append(name)
        else:
            lost.append(repr(member))
    if not names:
        return False
    schema: Schema = {"enum": names}
    return note(schema, LEFT_OUT, *(f"the key {name}" for name in lost)) if lost else schema


# Arrays


def _set(reader: PydanticReader, core: Core) -> Schema:
    """Sets: items are hashable; with a minimum, different texts are different values."""
    with reader.distinct(canonical=(core.get("min_length") or 0) > 1):
        return reader.base(core)


def _list(reader: PydanticReader, core: Core) -> Schema:
    """Lists, which are no item of a set."""
    if reader.is_hashable:
        raise PydanticInvalidForJsonSchema("a list is not hashable")
    return reader.base(core)


def _any(reader: PydanticReader, core: Core) -> Schema:
    """Any value; any hashable one in a set."""
    if not reader.is_hashable:
        return {}
    return {"type": "string" if reader.is_canonical else ["null", "boolean", "number", "string"]}


def _tuple(reader: PydanticReader, core: Core) -> Schema:
    """Tuples; items of any number in the middle are few."""
    items, index = core["items_schema"], core.get("variadic_item_index")
    if index is None or index + 1 == len(items):
        return reader.base(core)
    fixed = _without(core, "variadic_item_index")
    return {
        "anyOf": [
            reader.base(
                {
                    **fixed,
                    "items_schema": [*items[:index], *[items[index]] * n, *items[index + 1 :]],
                }
            )
            for n in range(_VARIADIC_ITEMS + 1)
        ]
    }


def _named_tuple(reader: PydanticReader, core: Core) -> Schema:
    """Named tuples: an array; items with a default are written."""
    schema = reader.base(core)
    if reader.writes_defaults and "prefixItems" in schema:
        schema["minItems"] = len(schema["prefixItems"])
    return schema


# Unions and functions


def _tagged_union(reader: PydanticReader, core: Core) -> Schema:
    """Unions by a tag: the tag is written, also if it has a default."""
    schema = reader.base(core)
    choices = schema.pop("oneOf")
    if not choices:
        raise UnsatisfiableSchemaError(
            "no JSON is read as a choice of the union", hint="Give choices that are data"
        )
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


def _chain(reader: PydanticReader, core: Core) -> Schema:
    """Steps that each read the result of the step before."""
    schema = reader.base(core)
    later = [step for step in core["steps"][1:] if step["type"] != "definition-ref"]
    return note(schema, GAPS, "the later steps of a chain") if later else schema


def _json(reader: PydanticReader, core: Core) -> Schema:
    """``Json``: a string that contains JSON."""
    schema = reader.base(core)
    content = schema.get("contentSchema", {})
    return {**schema, **scalars.language("json", schema=content or None)}


def _lax_or_strict(reader: PydanticReader, core: Core) -> Schema:
    """Two validators, of which the configuration selects one."""
    is_strict = core.get("strict", reader.config.get("strict"))
    return reader.generate_inner(core["strict_schema" if is_strict else "lax_schema"])


Row: TypeAlias = Callable[[Any, Any], Schema]

ROWS: Mapping[str, Row] = {
    "any": _any,
    "int": scalars.integer,
    "float": scalars.number,
    "decimal": scalars.decimal,
    "fraction": scalars.fraction,
    "complex": scalars.complex_number,
    "str": scalars.text,
    "bytes": scalars.data,
    "date": scalars.date,
    "time": scalars.time,
    "datetime": scalars.date_time,
    "timedelta": scalars.duration,
    "uuid": scalars.uuid,
    "url": scalars.url,
    "multi-host-url": scalars.multi_host_url,
    "json": _json,
    "literal": scalars.literal,
    "enum": scalars.enumeration,
    "list": _list,
    "deque": _list,
    "set": _set,
    "frozenset": _set,
    "tuple": _tuple,
    "named-tuple": _named_tuple,
    "dict": _mapping,
    "frozendict": _mapping,
    "ordered-dict": _mapping,
    "counter": _mapping,
    "model": _closed,
    "dataclass": _data_class,
    "typed-dict": _closed,
    "tagged-union": _tagged_union,
    "chain": _chain,
    "lax-or-strict": _lax_or_strict,
}
"""The kinds of core schemas whose texts differ from pydantic's JSON Schema, each with its row."""
