"""JSON Schemas of pydantic types that admit the texts that the type reads.

pydantic's own JSON Schema describes more: a pattern in another dialect, numbers before they are
rounded, keys of any name, members of an enum that no JSON is read as. Here each kind of pydantic's
core schema (``pydantic_core.core_schema``) has a row in :data:`ROWS` where the texts that its
validator reads differ from pydantic's JSON Schema. All other kinds are described by pydantic.
Observed with pydantic 2.14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue, WithJsonSchema
from pydantic_core import MISSING, PydanticOmit, SchemaValidator

from state_machines.errors import UnsatisfiableSchemaError
from state_machines.json_schema.reader.schema_copy import pointer_token
from state_machines.type_readers import pydantic_containers as containers
from state_machines.type_readers import pydantic_listed as listed
from state_machines.type_readers import pydantic_scalars as scalars
from state_machines.type_readers.core_reader import Core, CoreReader, UnreadableError
from state_machines.type_readers.pydantic_functions import distinct_texts, read_by_function
from state_machines.type_readers.pydantic_members import MemberTree, Path, chosen_paths, field_paths
from state_machines.type_readers.type_schema import (
    GAPS,
    LEFT_OUT,
    Schema,
    TypeSchema,
    finished,
    note,
)


class PydanticReader(CoreReader):
    """Generates the schema of one type. Objects are closed unless the type keeps extra members.

    Attributes:
        result: The schema that was generated last, with the facts about it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inlined: set[str] = set()
        self.result = TypeSchema({})

    def build_schema_type_to_method(self) -> Any:
        """Return the functions by kind: the table's, else pydantic's."""
        return _Methods(self)

    def generate(self, schema: Core, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Return the schema of a type, without marks; its facts are then in ``result``."""
        self.result = finished(super().generate(schema, mode))
        return self.result.schema

    def generate_inner(self, schema: Core) -> JsonSchemaValue:
        """Return the schema of a part. A function may replace the schema of its input."""
        if self.is_hashable:
            containers.check_hashable(self.resolved(schema))
        reference = schema.get("schema_ref") or schema.get("ref")
        if (self.is_hashable or self.is_canonical) and reference and reference not in self._inlined:
            # The definition admits values that are not hashable, and several texts of one value.
            self._inlined.add(reference)
            try:
                return self.generate_inner(_without(self.resolved(schema), "ref"))
            finally:
                self._inlined.discard(reference)
        described = super().generate_inner(schema)
        if schema["type"].startswith("function-"):
            described = read_by_function(
                schema, described, self.config, is_canonical=self.is_canonical
            )
        if self.is_canonical:
            described = distinct_texts(described)
        if is_described_by_user(schema) or self._has_given_constraints(schema, described):
            described = note(described, GAPS, GIVEN)
        return described

    def _has_given_constraints(self, core: Core, described: Schema) -> bool:
        """Return whether ``json_schema_extra`` of a field changes more than annotations."""
        extra = (core.get("metadata") or {}).get("pydantic_js_extra")
        if not callable(extra):
            return bool(extra and constraints(extra))
        metadata = _without(core["metadata"], "pydantic_js_extra")
        plain = super().generate_inner({**core, "metadata": metadata})
        return bool(constraints(plain) != constraints(described))

    def _update_class_schema(
        self, json_schema: JsonSchemaValue, cls: type[Any], config: pydantic.ConfigDict
    ) -> None:
        is_extended = bool(
            config.get("json_schema_extra") or getattr(cls, "__pydantic_root_model__", False)
        )
        before = constraints(json_schema) if is_extended else {}
        super()._update_class_schema(json_schema, cls, config)
        if not is_extended:
            return
        # The reader closes objects, unless the type keeps other members.
        after = _without(constraints(json_schema), "additionalProperties")
        if _without(before, "additionalProperties") != after:
            json_schema.update(note(json_schema, GAPS, GIVEN))

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of a value with a default. Only a default that is JSON is shown."""
        described = super().default_schema(schema)
        if "default" in described and listed.json_of(described["default"]) is None:
            return _without(described, "default")
        return described

    def _named_required_fields_schema(
        self, named_required_fields: Sequence[tuple[str, bool, Any]]
    ) -> JsonSchemaValue:
        members = MemberTree()
        lost: list[str] = []
        fields = [field for field in named_required_fields if field[2].get("init") is not False]
        for (name, required, field), path in zip(fields, self._paths(fields), strict=True):
            has_default = _has_default(field["schema"])
            try:
                schema = self.generate_inner(field).copy()
                _check_path(path, name)
            except PydanticOmit:
                if required:
                    raise _hidden(f"/properties/{pointer_token(str(path[0]))}") from None
                continue
            except PydanticInvalidForJsonSchema as error:
                # A default would not be hashable either.
                if required or self.is_hashable:
                    raise _located(error, f"/properties/{pointer_token(str(path[0]))}") from error
                lost.append(f"the property {path[0]!r}")
                continue
            if "title" not in schema and self.field_title_should_be_set(field):
                schema["title"] = self.get_title_from_name(str(path[-1]))
            # Without their defaults, different items of a set could be equal.
            is_written = required or (
                has_default
                and (
                    self.writes_defaults
                    or self.is_canonical
                    or not self._reads_default(field["schema"])
                )
            )
            members.add(
                path,
                self.handle_ref_overrides(schema),
                is_required=is_written,
                is_defaulted=is_written and not required,
            )
        described: Schema = {"type": "object", "properties": {}, **members.written()}
        return note(described, LEFT_OUT, *lost) if lost else described

    def _reads_default(self, core: Core) -> bool:
        """Return whether a default is valid, if the type validates it (``validate_default``)."""
        if not core.get("validate_default", self.config.get("validate_default")):
            return True
        if "default" not in core:
            # The result of a factory is not known.
            return False
        try:
            SchemaValidator({**core, "validate_default": True}).get_default_value()
        except Exception:
            # The default is invalid, or its schema needs the definitions of the whole.
            return False
        return True

    def kw_arguments_schema(
        self, arguments: Sequence[Core], var_kwargs_schema: Any
    ) -> JsonSchemaValue:
        """Return the schema of a function's arguments, which are read as fields of a model are."""
        fields = []
        for argument in arguments:
            inner = argument["schema"]
            field = {"type": "model-field", "schema": inner}
            if "alias" in argument:
                field["validation_alias"] = argument["alias"]
            fields.append((argument["name"], inner["type"] != "default", field))
        schema = self._named_required_fields_schema(fields)
        extra = self.generate_inner(var_kwargs_schema) or True if var_kwargs_schema else False
        return {**schema, "additionalProperties": extra}

    def _paths(self, fields: Sequence[tuple[str, bool, Any]]) -> Sequence[Path]:
        """Return the path of each field in JSON."""
        uses_alias = self.by_alias and self._config.validate_by_alias is not False
        uses_name = bool(self.config.get("validate_by_name") or self.config.get("populate_by_name"))
        return chosen_paths(
            [
                field_paths(field, name, uses_alias=uses_alias, uses_name=uses_name)
                for name, _, field in fields
            ]
        )


class _Methods(dict[str, Callable[[Any], Any]]):
    """The functions that describe core schemas, by kind; a type needs few of the fifty kinds."""

    def __init__(self, reader: PydanticReader) -> None:
        super().__init__()
        self._reader = reader

    def __missing__(self, kind: str) -> Callable[[Any], Any]:
        row = ROWS.get(kind)
        method: Callable[[Any], Any] = (
            getattr(self._reader, f"{kind.replace('-', '_')}_schema")
            if row is None
            else partial(row, self._reader)
        )
        self[kind] = method
        return method


class OptionalDefaults(PydanticReader):
    """Generates schemas in which properties with a default are optional."""

    writes_defaults = False


def pydantic_schema(
    adapter: pydantic.TypeAdapter[Any],
    *,
    write_defaults: bool = True,
    generator: type[PydanticReader] | None = None,
) -> TypeSchema:
    """Return the JSON Schema of the texts that a type reads.

    Args:
        adapter: The type.
        write_defaults: Whether properties with a default are required.
        generator: A reader with changed annotations, which replaces ``write_defaults``.

    Raises:
        UnsatisfiableSchemaError: No JSON is read as a part of the type.
    """
    kind = generator or (PydanticReader if write_defaults else OptionalDefaults)
    made: list[PydanticReader] = []

    def reader(*args: Any, **options: Any) -> PydanticReader:
        made.append(kind(*args, **options))
        return made[0]

    try:
        adapter.json_schema(schema_generator=cast("type[PydanticReader]", reader))
    except (PydanticInvalidForJsonSchema, PydanticOmit) as error:
        found = _hidden("") if isinstance(error, PydanticOmit) else _located(error, "")
        raise UnsatisfiableSchemaError(
            found.message, pointer=found.pointer, hint=found.hint
        ) from error
    return made[0].result


def _without(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _has_default(core: Core) -> bool:
    """Return whether a field has a default that is a value. The absence of ``MISSING`` is one."""
    return core["type"] == "default" and core.get("default") is not MISSING


def _check_path(path: tuple[str | int, ...], name: str) -> None:
    if any(isinstance(step, int) and step < 0 for step in path):
        raise UnreadableError(
            f"the alias of the field {name!r} counts from the end of an array",
            hint="Give an AliasPath with indices from the beginning, or a name as an alias",
        )


def _hidden(pointer: str) -> UnreadableError:
    """Return the error of a part that every value needs and ``SkipJsonSchema`` leaves out."""
    return UnreadableError(
        "the type hides this part, which its values need, from the JSON Schema",
        hint="Leave out SkipJsonSchema, or give the field a default",
        pointer=pointer,
    )


def _located(error: PydanticInvalidForJsonSchema, pointer: str) -> UnreadableError:
    """Return an error of a part of a type, at a pointer of the whole."""
    if isinstance(error, UnreadableError):
        return UnreadableError(error.message, hint=error.hint, pointer=pointer + error.pointer)
    return UnreadableError(
        f"no JSON is read as this part of the type: {error.message}",
        hint="Give the field a default, a type that is data, or a validator with "
        "json_schema_input_type",
        pointer=pointer,
    )


Row: TypeAlias = Callable[[Any, Any], Schema]

ROWS: Mapping[str, Row] = {
    "any": containers.any_,
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
    "json": containers.json_text,
    "literal": listed.literal,
    "enum": listed.enumeration,
    "set": containers.set_,
    "frozenset": containers.set_,
    "tuple": containers.tuple_,
    "named-tuple": containers.named_tuple,
    "dict": containers.mapping,
    "frozendict": containers.mapping,
    "ordered-dict": containers.mapping,
    "counter": containers.mapping,
    "model": containers.closed,
    "model-fields": containers.fields,
    "dataclass": containers.data_class,
    "typed-dict": containers.closed,
    "nullable": containers.nullable,
    "union": containers.union,
    "tagged-union": containers.tagged_union,
    "is-subclass": containers.no_data,
    "is-instance": containers.no_data,
    "callable": containers.no_data,
    "chain": containers.chain,
    "lax-or-strict": containers.lax_or_strict,
}
"""The kinds of core schemas whose texts differ from pydantic's JSON Schema, each with its row."""


GIVEN = "the JSON Schema that the type gives"
"""The reason of the gap."""

_ANNOTATIONS = frozenset(
    {
        *("title", "description", "examples", "example", "default", "deprecated", "format"),
        *("readOnly", "writeOnly", "discriminator", "$comment"),
    }
)
_BY_NAME = frozenset({"properties", "patternProperties", "$defs"})


def is_described_by_user(core: Core) -> bool:
    """Return whether code of the user, or ``WithJsonSchema``, gives the JSON Schema."""
    metadata = core.get("metadata") or {}
    functions = (
        *metadata.get("pydantic_js_functions", ()),
        *metadata.get("pydantic_js_annotation_functions", ()),
    )
    for function in functions:
        if isinstance(getattr(function, "__self__", None), WithJsonSchema):
            return True
        if not (getattr(function, "__module__", None) or "pydantic.").startswith("pydantic."):
            return True
    return False


def constraints(schema: Any) -> Any:
    """Return a copy of a schema without keywords that constrain nothing."""
    if isinstance(schema, list):
        return [constraints(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        keyword: {name: constraints(part) for name, part in value.items()}
        if keyword in _BY_NAME and isinstance(value, Mapping)
        else constraints(value)
        for keyword, value in schema.items()
        if not _is_annotation(keyword)
    }


def _is_annotation(keyword: str) -> bool:
    return keyword in _ANNOTATIONS or (keyword.startswith("x-") and keyword != "x-reader-language")
