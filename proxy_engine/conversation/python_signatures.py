'''Tools as Python functions with docstrings, for models that call them in Python.

A signature has the types and defaults of a JSON Schema::

    def weather(city: Literal["Lima", "Oslo"], days: int = 1):
        """Forecast the weather.

Args:
          city: Where?
          days: For how many days (1 to 7).
        """

Objects with known members are classes before the functions (``TypedDict``). Keywords that neither
types nor docstrings can express are left out; the grammar of the calls enforces them.
'''

from __future__ import annotations

import inspect
import itertools
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from state_machines.argument_notations import python_literal

from .schema_keywords import listed, qualifiers_of, reference_of, target_of, types_of

_ANY = "Any"
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MAX_DEPTH = 16
# Schemas of one tool whose types are written. Further ones are `Any`.
_MAX_SCHEMAS = 2_000


def python_signatures(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the functions of tools, and the classes that their parameters use.

    Args:
        tools: OpenAI-style definitions, with or without the outer object.
    """
    functions = [tool.get("function", tool) for tool in tools]
    classes: dict[str, str] = {}
    names = {str(function.get("name")) for function in functions}
    written = [_Signature(function, names, classes).text() for function in functions]
    return "\n".join([*classes.values(), *written]).rstrip()


class _Signature:
    """Writes one function.

    Args:
        function: The definition.
        names: The names of functions and classes, to which those of new classes are added.
        classes: The texts of classes by name, to which new ones are added.
    """

    def __init__(
        self, function: Mapping[str, Any], names: set[str], classes: dict[str, str]
    ) -> None:
        self._function = function
        self._root: Any = function.get("parameters") or {}
        self._names = names
        self._classes = classes
        self._by_reference: dict[str, str] = {}
        self._left = _MAX_SCHEMAS

    def text(self) -> str:
        """Return the signature and the docstring."""
        schema = self._resolved(self._root)
        members = _members(schema)
        required = listed(schema, "required")
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
            parameters.append(f"{name}: {self._type(member, name)}{default}")
        others = schema.get("additionalProperties")
        if others is True or (isinstance(others, Mapping) and others):
            parameters.append(f"**kwargs: {self._type(others, 'value')}")
        if not is_ordered:
            # Calls have the order of the schema, and Python requires defaults to come last.
            parameters.insert(0, "*")
        head = f"def {self._function.get('name')}({', '.join(parameters)}):"
        lines = _docstring(self._function.get("description"), members)
        return "\n".join([head, *lines, ""])

    def _type(self, schema: Any, name: str, depth: int = 0) -> str:
        """Return the type of a value; ``name`` is that of the member that has it."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return _ANY
        constants = [schema["const"]] if "const" in schema else listed(schema, "enum")
        if constants:
            return f"Literal[{', '.join(map(_literal, constants))}]"
        reference = reference_of(schema)
        if reference is not None:
            return self._referenced(reference, name, depth)
        if _members(schema):
            return self._class(schema, name, depth)
        for choice in ("anyOf", "oneOf"):
            union = _union(self._type(each, name, depth + 1) for each in listed(schema, choice))
            if union != _ANY:
                return union
        types = types_of(schema)
        if types:
            return _union(self._typed(kind, schema, name, depth) for kind in types)
        parts = (self._type(each, name, depth + 1) for each in listed(schema, "allOf"))
        return next((part for part in parts if part != _ANY), _ANY)

    def _typed(self, kind: Any, schema: Mapping[str, Any], name: str, depth: int) -> str:
        if kind == "array":
            prefix = listed(schema, "prefixItems") or listed(schema, "items")
            rest = schema.get("items")
            items = [*prefix, rest] if isinstance(rest, Mapping) else prefix
            inner = _union(self._type(each, name, depth + 1) for each in items)
            return "list" if inner == _ANY else f"list[{inner}]"
        if kind == "object":
            inner = self._type(schema.get("additionalProperties"), name, depth + 1)
            return "dict" if inner == _ANY else f"dict[str, {inner}]"
        return _TYPES.get(str(kind), _ANY)

    def _referenced(self, reference: str, name: str, depth: int) -> str:
        known = self._by_reference.get(reference)
        if known is not None:
            return known
        target = target_of(self._root, reference)
        if isinstance(target, Mapping) and _members(target):
            return self._class(target, reference.rpartition("/")[2], depth, reference)
        return self._type(target, name, depth + 1)

    def _class(
        self, schema: Mapping[str, Any], name: str, depth: int, reference: str | None = None
    ) -> str:
        """Write a class, and return its name."""
        base = "".join(word[:1].upper() + word[1:] for word in re.split(r"\W|_", name))
        base = base if _is_name(base) else "Object"
        numbered = (base if number == 1 else f"{base}{number}" for number in itertools.count(1))
        own = next(each for each in numbered if each not in self._names)
        if reference is not None:
            # Before the members are written, which may refer to the class.
            self._by_reference[reference] = own
        self._names.add(own)
        text = self._written(own, schema, depth)
        if self._classes.get(base) == text.replace(own, base, 1):
            # Another tool has the same class.
            self._names.discard(own)
            own = base
            if reference is not None:
                self._by_reference[reference] = own
        else:
            self._classes[own] = text
        return own

    def _written(self, own: str, schema: Mapping[str, Any], depth: int) -> str:
        """Return a class of the members of an object."""
        required = listed(schema, "required")
        fields = []
        for name, member in _members(schema).items():
            kind = self._type(member, name, depth + 1)
            fields.append((name, kind if name in required else f"NotRequired[{kind}]", member))
        if not all(_is_name(name) for name, _, _ in fields):
            listing = ", ".join(f"{_literal(name)}: {kind}" for name, kind, _ in fields)
            return f'{own} = TypedDict("{own}", {{{listing}}})\n'
        lines = [f"class {own}(TypedDict):"]
        for name, kind, member in fields:
            about = _about(member)
            lines.append(f"    {name}: {kind}{about and f'  # {about}'}")
        return "\n".join(lines) + "\n"

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        """Return the schema of the parameters, or the one that it refers to."""
        reference = reference_of(schema) if isinstance(schema, Mapping) else None
        if reference is not None and not _members(schema):
            schema = target_of(self._root, reference)
        return schema if isinstance(schema, Mapping) else {}


def _literal(value: Any) -> str:
    """Return the Python literal of a JSON value, or ``...`` if it is nested too deeply."""
    try:
        return python_literal(value)
    except RecursionError:
        return "..."


def _members(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a schema that can have a value."""
    properties = schema.get("properties")
    found = properties.items() if isinstance(properties, Mapping) else ()
    return {name: member for name, member in found if member is not False}


def _union(types: Iterable[str]) -> str:
    """Return the type of values of any of some types."""
    found = list(dict.fromkeys(types))
    return _ANY if not found or _ANY in found else " | ".join(found)


def _docstring(description: Any, members: Mapping[str, Any]) -> list[str]:
    text = inspect.cleandoc(description) if isinstance(description, str) else ""
    lines = _escaped(text).strip().splitlines()
    arguments = [f"  {name}: {about}" for name, each in members.items() if (about := _about(each))]
    if arguments:
        lines += ["", "Args:", *map(_escaped, arguments)]
    if not lines:
        return ["    ..."]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    indented = [f"    {line}".rstrip() for line in lines]
    return [f'    """{lines[0]}', *indented[1:], '    """']


def _about(schema: Any) -> str:
    """Return the description of a member, and its bounds."""
    if not isinstance(schema, Mapping):
        return ""
    description = schema.get("description")
    text = " ".join(description.split()) if isinstance(description, str) else ""
    kinds = types_of(schema)
    bounds = qualifiers_of(schema, kinds[0]) if kinds and "enum" not in schema else ""
    return f"{text}{bounds}".strip()


def _escaped(text: str) -> str:
    """Return text for a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)
