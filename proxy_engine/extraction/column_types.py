"""Types of columns in pyarrow, by all values of a column or by the schema of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from ..runtime.extras import import_extra
from .answer_format import OTHERS, AnswerFormat
from .details import RESULT
from .json_values import encode, in_utf8, jsonable
from .schemas import definition

_MAX_FIELDS = 256
_MAX_REFERENCES = 8
_MAX_EXACT = 1 << 53


def import_arrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, or a module inside.

    Raises:
        MissingExtraError: It is not installed.
    """
    return import_extra("frames", module, purpose="The table")


_ALIASES = {"integer": "int64", "number": "float64", "string": "string"}


class Column:
    """The type of a column, which is learned from all of its values.

    Values without a common type are written as texts with JSON, as are objects with more than some
    hundred members. Dates and decimals inside of lists and objects are texts.

    Args:
        kind: The type, if it does not depend on the values: a type of pyarrow, or ``"integer"``,
            ``"number"`` or ``"string"``.
    """

    def __init__(self, kind: Any = None) -> None:
        self._arrow = import_arrow()
        self._is_known = kind is not None
        # `None` for values without a common type.
        self._type = self._arrow.null()
        self._classes: set[type] = set()
        self._has_large_integers = False
        if kind is not None:
            is_name = isinstance(kind, str)
            self._type = self._arrow.type_for_alias(_ALIASES[kind]) if is_name else kind

    @property
    def type(self) -> Any:
        """The type of pyarrow."""
        return self._arrow.string() if self._is_json() else stored_type(self._type)

    def _is_json(self) -> bool:
        kind = self._type
        if kind is None or not _is_storable(kind):
            return True
        # Floating-point numbers would round them.
        return self._has_large_integers and _has_nested(kind, self._arrow.float64())

    def learn(self, values: Iterable[Any]) -> None:
        """Take plain values into account, as ``AnswerFormat.plain`` returns them."""
        if self._is_known or self._type is None:
            return
        cells = list(map(_cell, values))
        self._classes |= {type(cell) for cell in cells if cell is not None}
        self._has_large_integers |= any(_has_large_integer(cell) for cell in cells)
        # pyarrow would take a time for a date, and a text for bytes.
        if len(self._classes) > 1 and self._classes != {int, float}:
            self._type = None
        else:
            self._type = common_type(self._type, _inferred(self._numbers(cells)))

    def array(self, values: Iterable[Any]) -> Any:
        """Return values that were learned as an array of pyarrow."""
        cells = self._numbers(map(_cell, values))
        if self._is_json():
            cells = [None if cell is None else encode(jsonable(cell)) for cell in cells]
        return self._arrow.array(cells, self.type)

    def _numbers(self, cells: Iterable[Any]) -> list[Any]:
        if float not in self._classes or self._type is None:
            return list(cells)
        return [float(cell) if type(cell) is int else cell for cell in cells]


def _cell(value: Any) -> Any:
    return jsonable(value) if isinstance(value, list | Mapping) else value


def _has_large_integer(value: Any, *, is_nested: bool = False) -> bool:
    if isinstance(value, list | dict):
        members = value if isinstance(value, list) else value.values()
        return any(_has_large_integer(member, is_nested=True) for member in members)
    return is_nested and type(value) is int and abs(value) > _MAX_EXACT


def _inferred(cells: Sequence[Any]) -> Any:
    """Return the type that pyarrow infers; ``None`` for values without a common one."""
    arrow = import_arrow()
    try:
        found = arrow.array(cells).type
    except (arrow.ArrowException, TypeError, ValueError, OverflowError):
        return None
    # pyarrow would take a Boolean for a number among others.
    return None if any(_is_boolean_number(cell, found) for cell in cells) else found


def _is_boolean_number(value: Any, kind: Any) -> bool:
    if isinstance(value, list):
        return any(_is_boolean_number(item, kind.value_type) for item in value)
    if isinstance(value, dict):
        members = value.items()
        return any(_is_boolean_number(member, kind.field(name).type) for name, member in members)
    return isinstance(value, bool) and not import_arrow().types.is_boolean(kind)


def _members(kind: Any) -> list[Any]:
    return [kind.field(index).type for index in range(kind.num_fields)]


def _has_nested(kind: Any, member: Any) -> bool:
    return any(inner == member or _has_nested(inner, member) for inner in _members(kind))


def _is_storable(kind: Any) -> bool:
    """Whether files of columns can have a type: they have no objects without members."""
    if import_arrow().types.is_struct(kind) and not 0 < kind.num_fields <= _MAX_FIELDS:
        return False
    return all(map(_is_storable, _members(kind)))


def stored_type(kind: Any) -> Any:
    """Return a type with texts in place of nulls: other programs read few columns of nulls."""
    arrow = import_arrow()
    if arrow.types.is_struct(kind):
        return arrow.struct([(member.name, stored_type(member.type)) for member in kind])
    if arrow.types.is_list(kind):
        return arrow.list_(stored_type(kind.value_type))
    return arrow.string() if arrow.types.is_null(kind) else kind


def common_type(first: Any, second: Any) -> Any:
    """Return the type that values of two types have in common; ``None`` without one."""
    arrow = import_arrow()
    if first is None or second is None:
        return None
    schemas = [arrow.schema([("column", kind)]) for kind in (first, second)]
    try:
        return arrow.unify_schemas(schemas, promote_options="permissive").field("column").type
    except arrow.ArrowException:
        return None


def answer_types(answers: AnswerFormat) -> dict[str, Any]:
    """Return the type of each column of the answers, by their schema; ``None`` for JSON.

    A run in several processes writes many tables, and none of them has all values.
    Objects whose schema is closed are structs. Columns whose schema has no type of pyarrow, such as
    objects with any properties or a union of a number and a string, are texts with JSON.
    """
    schema = answers.column_schema
    if schema is None:
        return {answers.prefix + RESULT: import_arrow().string()}
    if not answers.properties:
        return {answers.prefix + RESULT: schema_type(schema, schema)}
    found = _property_types(schema, schema, ())
    types = {answers.prefix + name: _stored(found.get(name)) for name in answers.properties}
    return {**types, answers.prefix + OTHERS: None} if answers.is_open else types


def schema_type(schema: Any, root: Any) -> Any:
    """Return the type of a column with values of a JSON Schema; ``None`` for JSON.

    Args:
        schema: The schema.
        root: The document that its references point into.
    """
    return _stored(_type(schema, root, ()))


def _stored(kind: Any) -> Any:
    return None if kind is None or not _is_storable(kind) else stored_type(kind)


def fit(value: Any, kind: Any) -> Any:
    """Convert a plain value to a type. Unlike a ``Column``, it knows no other values.

    Raises:
        ValueError: The value is of another type. A validator may have changed it, or an integer
            has more than 64 bits.
    """
    if value is None:
        return None
    if kind is None:
        return encode(jsonable(value))
    arrow, cell = import_arrow(), _cell(value)
    if kind == arrow.int64() and isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    elif kind == arrow.float64() and type(cell) in (int, Decimal):
        try:
            cell = float(cell)
        except OverflowError as error:
            what = "it is beyond the range of floating-point numbers"
            raise ValueError(what) from error
    elif kind == arrow.string() and not isinstance(cell, bool | int | float | list | Mapping):
        # Dates, decimals and bytes are written as in JSON.
        cell = str(jsonable(cell))
    cell = in_utf8(cell)
    if common_type(kind, _inferred([cell])) != kind:
        raise ValueError(f"it is not of the type {kind}")
    return cell


def fitted(cells: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an answer as values of the types of the columns.

    Raises:
        ValueError: A value has another type.
    """
    found = {}
    for name, cell in cells.items():
        try:
            found[name] = fit(cell, types[name])
        except ValueError as error:
            raise ValueError(f"the value of {name!r} does not fit its column: {error}") from error
    return found


_References = tuple[str, ...]
"""The references that lead to a schema."""


def _type(schema: Any, root: Any, seen: _References) -> Any:
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        return _type(*_resolved(schema, root, seen))
    if "const" in schema:
        return _inferred([schema["const"]])
    if isinstance(schema.get("enum"), list):
        return _inferred(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return _common(_type(branch, root, seen) for branch in schema[keyword])
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and "type" not in schema:
        return _type(parts[0], root, seen)
    names = schema.get("type")
    names = names if isinstance(names, list) else [names]
    return _common(_named(name, schema, root, seen) for name in names)


def _common(kinds: Iterable[Any]) -> Any:
    return reduce(common_type, kinds, import_arrow().null())


def _named(name: Any, schema: Mapping[str, Any], root: Any, seen: _References) -> Any:
    arrow = import_arrow()
    match name:
        case "array":
            return _array(schema, root, seen)
        case "object":
            return _object(schema, root, seen)
        case "boolean":
            return arrow.bool_()
        case "null":
            return arrow.null()
    return arrow.type_for_alias(_ALIASES[name]) if name in _ALIASES else None


def _array(schema: Mapping[str, Any], root: Any, seen: _References) -> Any:
    first = schema.get("prefixItems", [])
    items = schema.get("items")
    if not isinstance(first, list) or isinstance(items, list):
        return None
    schemas = list(first)
    # Without `items`, further items can be anything.
    is_complete = items is False or (bool(first) and schema.get("maxItems") == len(first))
    if not is_complete:
        schemas.append(items)
    item = _common(_type(schema, root, seen) for schema in schemas)
    return None if item is None else import_arrow().list_(item)


def _object(schema: Mapping[str, Any], root: Any, seen: _References) -> Any:
    closing = (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
    members = _property_types(schema, root, seen)
    is_closed = False in closing and "patternProperties" not in schema
    if not is_closed or "allOf" in schema or None in members.values():
        return None
    return import_arrow().struct(list(members.items()))


def _property_types(schema: Any, root: Any, seen: _References) -> dict[str, Any]:
    """Return the types of the properties of an object, or of all branches of a union."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        return _property_types(*_resolved(schema, root, seen))
    properties = schema.get("properties")
    members = (properties if isinstance(properties, Mapping) else {}).items()
    types = {name: _type(member, root, seen) for name, member in members}
    for branch in schema.get("anyOf") or schema.get("oneOf") or ():
        for name, kind in _property_types(branch, root, seen).items():
            types[name] = common_type(types[name], kind) if name in types else kind
    return types


def _resolved(schema: Mapping[str, Any], root: Any, seen: _References) -> tuple[Any, ...]:
    """Return the definition that a schema refers to; ``None`` inside of itself.

    Columns have no recursive types.
    """
    reference = str(schema["$ref"])
    is_new = reference not in seen and len(seen) < _MAX_REFERENCES
    return definition(schema, root) if is_new else None, root, (*seen, reference)
