"""Names of properties in a notation that cannot write all of them.

A name such as ``$filter`` or ``class`` is no keyword of Python, and ``a b`` is no name of Gemma's
notation. Such a property is written under another name, its *alias*, which is read back as the
property. No other property of the schema has that name, and no property that the schema does not
list is written as an alias. So the mapping is one to one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from state_machines.json_schema.reader.schema_copy import pointer_token

_OTHER = re.compile(r"[^A-Za-z0-9_]")


def alias_of(name: str, is_free: Callable[[str], bool]) -> str:
    """Return a similar name of ASCII letters, digits and ``_`` that is free.

    Args:
        name: The name.
        is_free: Whether a name can be written and belongs to nothing else.

    >>> alias_of("If-Match", lambda name: True)
    'If_Match'
    >>> alias_of("class", lambda name: name != "class")
    'class_'
    """
    plain = _OTHER.sub("_", name)
    bare = plain.strip("_") or "name"
    candidates = (plain, f"{plain}_", f"_{plain}", bare, f"{bare}_")
    found = next((each for each in candidates if each != name and is_free(each)), None)
    numbered = (f"{base}_{n}" for n in count(2) for base in (bare, f"name_{bare}"))
    return found or next(filter(is_free, numbered))


class PropertyNames:
    """The aliases of the properties that a notation cannot write under their own names.

    Args:
        names: The names of properties.
        is_writable: Whether the notation can write a name.
        nested: Whether the notation restricts the names in nested objects as well.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        is_writable: Callable[[str], bool] = lambda name: True,
        *,
        nested: bool = False,
    ) -> None:
        known = dict.fromkeys(names)
        taken = set(known)
        self.aliases: dict[str, str] = {}
        """The alias of each renamed property."""
        for name in known:
            if not is_writable(name):
                alias = alias_of(name, lambda each: each not in taken and is_writable(each))
                taken.add(alias)
                self.aliases[name] = alias
        self._names = {alias: name for name, alias in self.aliases.items()}
        self._nested = nested

    def __bool__(self) -> bool:
        return bool(self.aliases)

    def write(self, name: str) -> str:
        """Return how a name is written."""
        return self.aliases.get(name, name)

    def read(self, written: str) -> str:
        """Return the name that a written name stands for."""
        return self._names.get(written, written)

    def write_members(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with their names as they are written."""
        return {
            self.write(name): self._write_value(value) if self._nested else value
            for name, value in arguments.items()
        }

    def _write_value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self.write_members(value)
        if isinstance(value, list):
            return [self._write_value(each) for each in value]
        return value

    def write_schema(self, schema: Any) -> Any:
        """Return a copy of a schema with the names as they are written, to describe a tool."""
        if not self.aliases:
            return schema
        places = None if self._nested else {id(each) for each in _in_place(schema, schema, set())}
        return self._renamed(schema, places)

    def _renamed(self, schema: Any, places: set[int] | None) -> Any:
        if isinstance(schema, list):
            return [self._renamed(each, places) for each in schema]
        if not isinstance(schema, Mapping):
            return schema
        written = {}
        is_renamed = places is None or id(schema) in places
        for keyword, value in schema.items():
            if keyword == "$ref" and isinstance(value, str):
                value = self._reference(value)
            elif keyword in _BY_NAME and isinstance(value, Mapping):
                rename = self.write if is_renamed and keyword in _BY_PROPERTY else str
                value = {rename(name): self._listed(each, places) for name, each in value.items()}
            elif keyword == "required" and isinstance(value, list) and is_renamed:
                value = self._listed(value, places)
            elif keyword in _VALUES:
                value = self._example(value, places, is_renamed=is_renamed)
            else:
                value = self._renamed(value, places)
            written[keyword] = value
        return written

    def _listed(self, value: Any, places: set[int] | None) -> Any:
        """Return a schema, or a list of names."""
        if isinstance(value, list):
            return [self.write(each) if isinstance(each, str) else each for each in value]
        return self._renamed(value, places)

    def _example(self, value: Any, places: set[int] | None, *, is_renamed: bool) -> Any:
        """Return a value that a schema names, or several."""
        if isinstance(value, list):
            return [self._example(each, places, is_renamed=is_renamed) for each in value]
        if not is_renamed or not isinstance(value, Mapping):
            return value
        return self.write_members(value)

    def _reference(self, reference: str) -> str:
        tokens = {pointer_token(name): pointer_token(alias) for name, alias in self.aliases.items()}
        parts = reference.split("/")
        for index in range(1, len(parts)):
            if parts[index - 1] == "properties":
                parts[index] = tokens.get(parts[index], parts[index])
        return "/".join(parts)


_BY_PROPERTY = ("properties", "dependentRequired", "dependentSchemas", "dependencies")
_BY_NAME = (*_BY_PROPERTY, "$defs", "definitions", "patternProperties")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE = (
    *("items", "contains", "additionalItems", "unevaluatedItems"),
    *("additionalProperties", "unevaluatedProperties", "if", "then", "else", "not"),
)
_VALUES = ("const", "enum", "default", "examples")


def _in_place(schema: Any, root: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the schemas that apply to the same object as a schema, itself included."""
    if not isinstance(schema, Mapping) or id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    inner: list[Any] = [schema.get(keyword) for keyword in ("if", "then", "else")]
    for keyword in ("allOf", "anyOf", "oneOf"):
        value = schema.get(keyword)
        inner += value if isinstance(value, list) else ()
    dependent = schema.get("dependentSchemas")
    inner += dependent.values() if isinstance(dependent, Mapping) else ()
    inner.append(_target(schema.get("$ref"), root))
    for each in inner:
        yield from _in_place(each, root, seen)


def _target(reference: Any, root: Any) -> Any:
    """Return the schema of a reference within its document; ``None`` for other references."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for token in reference[1:].split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def listed_properties(schema: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, pointer and keyword of the properties of a schema and its subschemas.

    Outer schemas come first. Properties whose schema is ``false`` are left out.
    """
    for inner, pointer in _subschemas(schema):
        listed = inner.get("properties")
        listed = listed if isinstance(listed, Mapping) else {}
        for name, each in listed.items():
            if each is not False:
                yield name, f"{pointer}/properties/{pointer_token(name)}", "properties"
        required = inner.get("required")
        for index, name in enumerate(required if isinstance(required, list) else ()):
            if isinstance(name, str) and name not in listed:
                yield name, f"{pointer}/required/{index}", "required"


def property_pointer(schema: Any, name: str) -> str:
    """Return the JSON Pointer of the first mention of a property; ``""`` if there is none."""
    return next((at for known, at, _ in listed_properties(schema) if known == name), "")


def names_of_properties(schema: Any) -> Iterator[str]:
    """Yield the names that a schema mentions, also the names of members in constants."""
    for inner, _ in _subschemas(schema):
        names: list[Any] = []
        for keyword in _BY_PROPERTY:
            members = inner.get(keyword)
            for name, each in members.items() if isinstance(members, Mapping) else ():
                names += [name, *(each if isinstance(each, list) else ())]
        required, pattern = inner.get("required"), inner.get("propertyNames")
        names += required if isinstance(required, list) else ()
        names += _constants(pattern) if isinstance(pattern, Mapping) else ()
        values = deque(_constants(inner))
        while values:
            value = values.popleft()
            if isinstance(value, Mapping):
                names += value
                values.extend(value.values())
            elif isinstance(value, list):
                values.extend(value)
        yield from (name for name in names if isinstance(name, str))


def _constants(schema: Mapping[str, Any]) -> list[Any]:
    listed = schema.get("enum")
    constant = [schema["const"]] if "const" in schema else []
    return constant + (listed if isinstance(listed, list) else [])


def _subschemas(schema: Any) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield a schema and its subschemas with their pointers, the outermost schema first."""
    waiting: deque[tuple[Any, str]] = deque([(schema, "")])
    while waiting:
        found, pointer = waiting.popleft()
        if not isinstance(found, Mapping):
            continue
        yield found, pointer
        for keyword in _BY_NAME:
            inner = found.get(keyword)
            for name, each in inner.items() if isinstance(inner, Mapping) else ():
                waiting.append((each, f"{pointer}/{keyword}/{pointer_token(str(name))}"))
        for keyword in _LISTS:
            inner = found.get(keyword)
            for index, each in enumerate(inner if isinstance(inner, list) else ()):
                waiting.append((each, f"{pointer}/{keyword}/{index}"))
        for keyword in _SINGLE:
            waiting.append((found.get(keyword), f"{pointer}/{keyword}"))
