'''Tools as Python functions with docstrings, for models that call them in Python.

A signature has the types and defaults of a JSON Schema::

    def weather(city: Literal["Lima", "Oslo"], days: int = 1, place: dict = None):
        """Forecast the weather.

Args:
          city: Where?
          days: For how many days (1 to 7).
          place: {
            "lat": number (-90 to 90)
          }
        """

Objects with known members have an outline in the docstring. Keywords that neither types nor
docstrings can express are left out; the grammar of the calls enforces them.
'''

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from state_machines.argument_notations import python_literal

from .schema_keywords import listed, qualifiers_of, reference_of, target_of, types_of
from .schema_outline import schema_outline

_ANY = "Any"
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MAX_DEPTH = 16
# Schemas of one tool whose types are written. Further ones are `Any`.
_MAX_SCHEMAS = 2_000
_MAX_OUTLINE_CHARS = 2_000


def python_signatures(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the functions of tools.

    Args:
        tools: OpenAI-style definitions, with or without the outer object.
    """
    functions = [tool.get("function", tool) for tool in tools]
    return "\n".join(_signature(function) for function in functions).rstrip()


def _signature(function: Mapping[str, Any]) -> str:
    """Return the signature and the docstring of a function."""
    root = function.get("parameters")
    root = schema = root if isinstance(root, Mapping) else {}
    if (reference := reference_of(schema)) is not None and "properties" not in schema:
        target = target_of(root, reference)
        schema = target if isinstance(target, Mapping) else {}
    properties = schema.get("properties")
    found = properties.items() if isinstance(properties, Mapping) else ()
    members = {name: member for name, member in found if member is not False}
    required = listed(schema, "required")
    types = _Types(root)
    parameters: list[str] = []
    has_defaults, is_ordered = False, True
    for name, member in members.items():
        default = ""
        if isinstance(member, Mapping) and "default" in member:
            default = f" = {_literal(member['default'])}"
        elif name not in required:
            default = " = None"
        is_ordered = is_ordered and bool(default or not has_defaults)
        has_defaults = has_defaults or bool(default)
        parameters.append(f"{name}: {types.of(member)}{default}")
    others = schema.get("additionalProperties")
    if others is True or (isinstance(others, Mapping) and others):
        parameters.append(f"**kwargs: {types.of(others)}")
    if not is_ordered:
        # Calls have the order of the schema, and Python requires defaults to come last.
        parameters.insert(0, "*")
    abouts = ((name, _about(member, root)) for name, member in members.items())
    arguments = [f"  {name}: {about}" for name, about in abouts if about]
    head = f"def {function.get('name')}({', '.join(parameters)}):"
    return "\n".join([head, *_docstring(function.get("description"), arguments), ""])


class _Types:
    """Writes the types of one function. ``root`` has the definitions that schemas refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MAX_SCHEMAS

    def of(self, schema: Any, depth: int = 0) -> str:
        """Return the type of the values of a schema."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return _ANY
        constants = [schema["const"]] if "const" in schema else listed(schema, "enum")
        if constants:
            return f"Literal[{', '.join(map(_literal, constants))}]"
        if (reference := reference_of(schema)) is not None:
            return self.of(target_of(self._root, reference), depth + 1)
        for choice in ("anyOf", "oneOf"):
            union = self._union(listed(schema, choice), depth)
            if union != _ANY:
                return union
        if types := types_of(schema):
            return _joined(self._typed(kind, schema, depth) for kind in types)
        parts = (self.of(each, depth + 1) for each in listed(schema, "allOf"))
        return next((part for part in parts if part != _ANY), _ANY)

    def _typed(self, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            prefix = listed(schema, "prefixItems") or listed(schema, "items")
            rest = schema.get("items")
            inner = self._union([*prefix, rest] if isinstance(rest, Mapping) else prefix, depth)
            return "list" if inner == _ANY else f"list[{inner}]"
        if kind == "object":
            inner = self.of(schema.get("additionalProperties"), depth + 1)
            return "dict" if inner == _ANY else f"dict[str, {inner}]"
        return _TYPES.get(str(kind), _ANY)

    def _union(self, schemas: Iterable[Any], depth: int) -> str:
        return _joined(self.of(schema, depth + 1) for schema in schemas)


def _joined(types: Iterable[str]) -> str:
    """Return the type of values of any of some types."""
    found = list(dict.fromkeys(types))
    return _ANY if not found or _ANY in found else " | ".join(found)


def _literal(value: Any) -> str:
    """Return the Python literal of a JSON value, or ``...`` if it is nested too deeply."""
    try:
        return python_literal(value)
    except RecursionError:
        return "..."


def _docstring(description: Any, arguments: Sequence[str]) -> list[str]:
    text = inspect.cleandoc(description) if isinstance(description, str) else ""
    lines = text.strip().splitlines()
    if arguments:
        lines += ["", "Args:", *"\n".join(arguments).splitlines()]
    lines = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in lines]
    if not lines:
        return ["    ..."]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    indented = [f"    {line}".rstrip() for line in lines]
    return [f'    """{lines[0]}', *indented[1:], '    """']


def _about(schema: Any, root: Mapping[str, Any]) -> str:
    """Return the description of a member, its bounds, and an outline of its objects."""
    if not isinstance(schema, Mapping):
        return ""
    description = schema.get("description")
    text = " ".join(description.split()) if isinstance(description, str) else ""
    kinds = types_of(schema)
    bounds = qualifiers_of(schema, kinds[0]) if kinds and "enum" not in schema else ""
    definitions = {key: root.get(key) for key in ("$defs", "definitions")}
    outline = schema_outline({**definitions, **schema, "description": None}, _MAX_OUTLINE_CHARS)
    # Only objects with members have several lines.
    form = outline.replace("\n", "\n  ") if "\n" in outline else ""
    return f"{text}{bounds} {form}".strip()
