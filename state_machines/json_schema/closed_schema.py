"""Schemas whose objects have the properties that they list, and no others.

JSON Schema permits any further property, and a model would write some. XGrammar, outlines and
OpenAI's strict mode permit none. Here an object is closed if its schema lists properties and says
nothing about others; where several schemas describe it, by ``unevaluatedProperties`` of the
outermost one. Closing only removes values, and never all of them: an object stays open where that
is not certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import combinations
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

from state_machines.errors import SchemaError, UnsupportedSchemaError
from state_machines.json_schema.schema_copy import pointer_token

C = TypeVar("C")

AdditionalProperties: TypeAlias = Literal["closed", "schema"]
"""``"closed"``: generated objects have listed properties alone. ``"schema"``: they may have others
that the schema permits."""

_DEFINITIONS = ("$defs", "definitions")
_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems")
_OTHERS = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("$ref", *_LISTS, "then", "else", "dependentSchemas", "dependencies")
_CONDITIONS = ("not", "if")
"""Their values decide about other keywords, so that closing them would add values."""

_SAYS_MORE = {*_OTHERS, "propertyNames", "const", "enum", "$dynamicRef", "$recursiveRef"}
"""Keywords of an object that say something about properties that it does not list."""

_OF_OBJECTS = {
    *("properties", "required", "minProperties", "maxProperties", "dependentRequired"),
    *(*_SAYS_MORE, *_IN_PLACE, *_CONDITIONS),
}
_OF_INNER = _OF_OBJECTS - {"const", "enum"} | {*_ITEMS, "contains"}
"""Keywords that say something about objects or arrays, beside their constants."""

_MAY_CLOSE = _OF_INNER | {*_DEFINITIONS}
"""Keywords without which a schema stays as it is."""

_EARLIER_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
"""Drafts without ``unevaluatedProperties``, where a ``$ref`` stands for its whole schema."""


def closed_schema(schema: Any, *, closes_arrays: bool = True) -> Any:
    """Return a copy of a schema that permits listed properties alone.

    Args:
        schema: The schema.
        closes_arrays: Whether arrays with ``prefixItems`` and nothing about other items are closed,
            too.

    Raises:
        UnsupportedSchemaError: The schema is nested too deeply.
    """
    if isinstance(schema, Mapping):
        schema = dict(schema)
    closing = _Closing(schema, closes_arrays=closes_arrays)
    try:
        while True:
            known = len(closing.joined) + len(closing.kept)
            closed = closing.closed(schema, "#")
            if closing.is_unclear:
                return schema
            if len(closing.joined) + len(closing.kept) == known:
                return closed
    except RecursionError as error:
        raise UnsupportedSchemaError("the schema is nested too deeply", pointer="") from error


def compiled_closed(schema: Any, compiled: Callable[[Any], C]) -> C:
    """Compile a closed schema; if that is impossible, compile the schema as it is.

    Args:
        schema: The schema.
        compiled: Compiles a schema.

    Raises:
        SchemaError: ``compiled`` raised it for the schema.
    """
    try:
        closed = closed_schema(schema, closes_arrays=False)
        if closed != schema:
            return compiled(closed)
    except SchemaError:
        pass
    return compiled(schema)


class _Closing:
    """One pass over a schema.

    Attributes:
        joined: Pointers of schemas that describe an object together with others, by references.
            They are not closed by themselves.
        kept: Pointers of schemas that references of kept schemas lead to.
        is_unclear: A reference that matters cannot be followed.
    """

    def __init__(self, root: Any, *, closes_arrays: bool) -> None:
        self.joined: set[str] = set()
        self.kept: set[str] = set()
        draft = root.get("$schema") if isinstance(root, dict) else None
        self._is_earlier = isinstance(draft, str) and any(one in draft for one in _EARLIER_DRAFTS)
        self.is_unclear = any(isinstance(each.get("$id"), str) for each in _inner_schemas(root))
        self._root = root
        self._closes_arrays = closes_arrays

    def closed(self, schema: Any, pointer: str, *, is_joined: bool = False) -> Any:
        """Return the closed copy.

        Args:
            schema: The schema.
            pointer: Where it is.
            is_joined: Whether other schemas describe the same value.
        """
        if not isinstance(schema, dict) or pointer in self.kept:
            return schema
        if _MAY_CLOSE.isdisjoint(schema):
            return schema
        if self._is_earlier and "$ref" in schema:
            if is_joined:
                self._mark(schema["$ref"], self.joined)
            return schema
        is_joined = is_joined or pointer in self.joined
        groups = self._groups(schema)
        is_alone = not is_joined and len(groups) < 2
        if self._meet(schema, groups):
            return self._with_end(schema, self._keep(schema), is_joined=is_joined)
        written = dict(schema)
        for key, value in schema.items():
            place = f"{pointer}/{pointer_token(key)}"
            if key == "$ref" and not is_alone:
                self._mark(value, self.joined)
            elif key in (*_CONDITIONS, "contains") or (
                key == "oneOf" and not self._disjoint(value)
            ):
                self._keep(value)
            elif key in ("then", "else"):
                written[key] = self.closed(value, place, is_joined=True)
            elif key in ("dependentSchemas", "dependencies") and isinstance(value, dict):
                written[key] = self._members(value, place, is_joined=True)
            elif key in ("properties", "patternProperties", *_DEFINITIONS):
                written[key] = self._members(value, place)
            elif key in _LISTS:
                written[key] = self._items(value, place, is_joined=not is_alone)
            elif key in _ITEMS and isinstance(value, list):
                written[key] = self._items(value, place)
            elif key in (*_ITEMS, *_OTHERS):
                written[key] = self.closed(value, place)
        return self._with_end(schema, written, is_joined=is_joined)

    def _members(self, value: Any, place: str, *, is_joined: bool = False) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: self.closed(each, f"{place}/{pointer_token(name)}", is_joined=is_joined)
            for name, each in value.items()
        }

    def _items(self, value: Any, place: str, *, is_joined: bool = False) -> Any:
        if not isinstance(value, list):
            return value
        return [
            self.closed(each, f"{place}/{number}", is_joined=is_joined)
            for number, each in enumerate(value)
        ]

    def _with_end(
        self, schema: Mapping[str, Any], written: Mapping[str, Any], *, is_joined: bool
    ) -> Mapping[str, Any]:
        """Return a schema with the keywords that permit no further properties and items."""
        added: dict[str, Any] = {}
        listed = self._listed(schema)
        own = set(listed_names(schema))
        if listed and not is_joined and self._fits(schema, frozenset(), ()):
            is_plain = listed == own
            if is_plain or not (self._is_earlier or self._is_alone(schema)):
                added["additionalProperties" if is_plain else "unevaluatedProperties"] = False
        elif (
            "properties" in schema
            and not (is_joined or listed)
            and self._fits(schema, frozenset(), ())
        ):
            added["additionalProperties"] = False
        prefix = schema.get("prefixItems")
        is_open = not {"items", "unevaluatedItems", "contains"} & schema.keys()
        if self._closes_arrays and isinstance(prefix, list) and is_open and not is_joined:
            least = schema.get("minItems", 0)
            if isinstance(least, int) and least <= len(prefix):
                added["items"] = False
        return {**written, **added} if added else written

    def _groups(self, schema: Mapping[str, Any]) -> list[Any]:
        """Return the schemas that describe the value: the schema's own keywords, and others."""
        groups: list[Any] = []
        own = {key: value for key, value in schema.items() if key not in _IN_PLACE}
        if own.keys() & (_OF_OBJECTS | {*_ITEMS, "contains"}):
            groups.append(own)
        for key in _IN_PLACE:
            value = schema.get(key)
            if key == "$ref" and isinstance(value, str):
                groups.append({"$ref": value})
            elif key == "allOf" and isinstance(value, list):
                groups += value
            elif key in ("anyOf", "oneOf") and isinstance(value, list):
                groups.append({"anyOf": value})
            elif key in ("dependentSchemas", "dependencies") and isinstance(value, dict):
                groups += [each for each in value.values() if isinstance(each, dict)]
            elif value is not None:
                groups.append(value)
        return groups

    def _is_alone(self, schema: Mapping[str, Any]) -> bool:
        return len(self._groups(schema)) < 2

    def _meet(self, schema: Mapping[str, Any], groups: Iterable[Any]) -> bool:
        """Whether several schemas may describe one object or array inside the value."""
        patterns = [*map(_has_objects, _mapping(schema, "patternProperties").values())]
        if sum(patterns) + any(patterns) * _has_objects(schema.get("properties")) > 1:
            return True
        if _has_objects(schema.get("contains")) and any(
            _has_objects(schema.get(key)) for key in _ITEMS
        ):
            return True
        inner = [names for group in groups if (names := set(self._inner(group, ())))]
        counts = Counter(name for names in inner for name in names)
        is_crowded = "*" in counts and len(inner) > 1
        return is_crowded or any(count > 1 for count in counts.values())

    def _inner(self, schema: Any, seen: tuple[str, ...]) -> Iterator[str]:
        """Yield the names of properties with objects or arrays; ``*`` for unnamed ones."""
        if not isinstance(schema, dict):
            return
        for name, each in _mapping(schema, "properties").items():
            if _has_objects(each):
                yield name
        if any(_has_objects(schema.get(key)) for key in _OTHERS):
            yield "*"
        if any(_has_objects(schema.get(key)) for key in (*_ITEMS, "contains")):
            yield "[]"
        for each in self._in_place(schema, seen):
            yield from self._inner(*each)

    def _listed(self, schema: Any, seen: tuple[str, ...] = ()) -> set[str]:
        """Return the names that a schema and those beside it list."""
        if not isinstance(schema, dict):
            return set()
        found = set(listed_names(schema))
        for each in self._in_place(schema, seen):
            found |= self._listed(*each)
        return found

    def _in_place(
        self, schema: Mapping[str, Any], seen: tuple[str, ...]
    ) -> Iterator[tuple[Any, tuple[str, ...]]]:
        """Yield the schemas that apply to the same value, with the references to them."""
        for key in _IN_PLACE:
            value = schema.get(key)
            if key == "$ref" and isinstance(value, str):
                if value not in seen:
                    yield self._target(value), (*seen, value)
            elif key in _LISTS and isinstance(value, list):
                yield from ((each, seen) for each in value)
            elif key in ("dependentSchemas", "dependencies") and isinstance(value, dict):
                yield from ((each, seen) for each in value.values())
            elif value is not None:
                yield value, seen

    def _fits(self, schema: Any, names: Set[str], seen: tuple[str, ...]) -> bool:
        """Whether the values need listed properties alone.

        Args:
            schema: A schema that describes an object.
            names: The names that schemas around it list.
            seen: The references that lead to it.
        """
        if not isinstance(schema, dict):
            return True
        names = names | set(listed_names(schema))
        for each in schema.get("allOf") or () if isinstance(schema.get("allOf"), list) else ():
            names |= self._sure(each, seen)
        names |= self._sure({"$ref": schema.get("$ref")}, seen)
        least = schema.get("minProperties", 0)
        if _SAYS_MORE & schema.keys() or not isinstance(least, int) or least > len(names):
            return False
        if not _needed(schema) <= names:
            return False
        if "oneOf" in schema and not self._disjoint(schema["oneOf"]) and self._lists_one_of(schema):
            return False
        conditions = [schema[key] for key in _CONDITIONS if key in schema]
        if not all(self._mentions_only(each, names) for each in conditions):
            return False
        return all(self._fits(each, names, more) for each, more in self._in_place(schema, seen))

    def _lists_one_of(self, schema: Mapping[str, Any]) -> bool:
        return bool(self._listed({"anyOf": schema["oneOf"]}))

    def _sure(self, schema: Any, seen: tuple[str, ...]) -> set[str]:
        """Return the names that a schema lists whatever its alternatives are."""
        if not isinstance(schema, dict):
            return set()
        names = set(listed_names(schema))
        reference, parts = schema.get("$ref"), schema.get("allOf")
        if isinstance(reference, str) and reference not in seen:
            names |= self._sure(self._target(reference), (*seen, reference))
        for each in parts if isinstance(parts, list) else ():
            names |= self._sure(each, seen)
        return names

    def _mentions_only(self, condition: Any, names: Set[str]) -> bool:
        """Whether a condition depends on no other properties of an object."""
        if not isinstance(condition, dict):
            return True
        says_more = _SAYS_MORE | {"$ref", "minProperties", "maxProperties"}
        if says_more & condition.keys():
            return False
        mentioned = {*listed_names(condition), *_needed(condition)}
        return mentioned <= names and all(
            self._mentions_only(each, names)
            for key in (*_LISTS, *_CONDITIONS, "then", "else")
            for each in _as_list(condition.get(key))
        )

    def _disjoint(self, alternatives: Any) -> bool:
        """Whether the types or a required constant of the alternatives prove them disjoint."""
        if not isinstance(alternatives, list):
            return False
        kinds = [self._tags(each) for each in alternatives]
        return all(
            any(not (one[key] & other[key]) for key in one.keys() & other.keys())
            for one, other in combinations(kinds, 2)
        )

    def _tags(self, schema: Any, seen: tuple[str, ...] = ()) -> dict[str, set[str]]:
        """Return the types of a schema's values, and the constants of its required properties."""
        if not isinstance(schema, dict):
            return {}
        tags: dict[str, set[str]] = {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            tags = self._tags(self._target(reference), (*seen, reference))
            if self._is_earlier:
                return tags
        kinds = {str(kind) for kind in _as_list(schema.get("type"))}
        if kinds:
            tags[""] = kinds | ({"integer"} if "number" in kinds else set())
        if kinds == {"object"}:
            for name in _needed(schema):
                value = _mapping(schema, "properties").get(name)
                if isinstance(value, dict) and ("const" in value or "enum" in value):
                    constants = [value["const"]] if "const" in value else _as_list(value["enum"])
                    if all(isinstance(each, str) for each in constants):
                        tags["/" + name] = set(constants)
        return tags

    def _keep(self, schema: Any) -> Any:
        """Return a schema unchanged, and keep the schemas that it refers to."""
        for each in _inner_schemas({"not": schema}):
            self._mark(each.get("$ref"), self.kept)
        return schema

    def _mark(self, reference: Any, marked: set[str]) -> None:
        if not isinstance(reference, str):
            return
        place = unquote(reference)
        if self._target(reference) is None:
            self.is_unclear = True
        elif place not in marked:
            marked.add(place)
            if marked is self.kept:
                self._keep(self._target(reference))

    def _target(self, reference: str) -> Any:
        """Return the schema at a pointer of this document; ``None`` for other references."""
        place = unquote(reference)
        found = self._root
        if place != "#" and not place.startswith("#/"):
            return None
        for token in place.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and token in found:
                found = found[token]
            elif isinstance(found, list) and token.isdecimal() and int(token) < len(found):
                found = found[int(token)]
            else:
                return None
        return found


def listed_names(schema: Mapping[str, Any]) -> Iterable[str]:
    """Return the names in ``properties``."""
    return _mapping(schema, "properties").keys()


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _needed(schema: Mapping[str, Any]) -> set[str]:
    """Return the names that a schema may require."""
    names = _as_list(schema.get("required"))
    for key in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, value in _mapping(schema, key).items():
            names = [*names, name, *(value if isinstance(value, list) else ())]
    return {name for name in names if isinstance(name, str)}


def _has_objects(value: Any) -> bool:
    """Whether a keyword's value has schemas that say something about objects or arrays."""
    if isinstance(value, list):
        return any(map(_has_objects, value))
    if not isinstance(value, dict):
        return False
    return not _OF_INNER.isdisjoint(value) or any(map(_has_objects, value.values()))


def _inner_schemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects inside a value: all schemas, and constants that look like them."""
    pending = [*value.values()] if isinstance(value, dict) else []
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            yield each
            pending += each.values()
        elif isinstance(each, list):
            pending += each
