"""A schema document: places in it, and what their references lead to.

References are resolved by ``referencing`` (RFC 3986, RFC 6901); the drafts' metaschemas come from
``jsonschema-specifications``, other documents from the registry that the caller passes. Nothing
is ever fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import lookup_recursive_ref

from state_machines.budgets import spend
from state_machines.errors import InvalidSchemaError, SchemaError, UnsupportedSchemaError
from state_machines.json_schema.dialects import DIALECTS, Dialect, DialectTable
from state_machines.limits import LIMITS

__all__ = ["SchemaDocument", "SchemaLocation"]

_Kind = TypeVar("_Kind", dict[str, Any], list[Any])

MEMBERS_PER_STEP = 8
"""Members of an object or an array that are copied in the time of a step."""

MEMBERS_PER_CHARGE = 512

CHARACTERS_PER_STEP = 64
"""Characters of a document that are searched for names in the time of a step."""

LOOKUP_STEPS = 8
"""Steps charged for the resolution of one reference."""

_KINDS: dict[type, str] = {dict: "an object", list: "an array"}

_Resolver = Any
"""``referencing._core.Resolver``, which its package does not export."""


@dataclass(frozen=True, eq=False, slots=True)
class SchemaLocation:
    """A schema at a place of a document: the schema, and where it stands.

    ``path`` leads here from ``parent`` or, where there is none, from the top; its first part is
    the keyword that applies the schema. ``ignored`` are keywords of vocabularies that are not in
    use, which ``schema`` does not have.
    """

    schema: Any
    dialect: Dialect
    resolver: _Resolver
    document: SchemaDocument
    parent: SchemaLocation | str = ""
    path: tuple[str | int, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the schema, made when it is asked for: nesting may be deep."""
        return _pointer(self.parent, self.path)

    @property
    def keyword(self) -> str | None:
        """The keyword that applies the schema; ``None`` for a whole document."""
        return str(self.path[0]) if self.path else None

    @property
    def key(self) -> object:
        """What two equal places have in common, however they were reached."""
        resolver = self.resolver
        scope = self.document.scope(resolver)
        return (id(self.schema), self.dialect.identity, resolver._base_uri, scope)

    def child(self, schema: Any, *path: str | int) -> SchemaLocation:
        """Return the place of a subschema, given the path to it from here."""
        return self.document.place(schema, self.dialect, self.resolver, self, path)

    def error(self, what: str, keyword: str, *, hint: str = "") -> InvalidSchemaError:
        """Return the error that a keyword's value here is malformed."""
        return InvalidSchemaError(what, pointer=self.at(keyword), keyword=keyword, hint=hint)

    def member(self, keyword: str, kind: type[_Kind]) -> _Kind | None:
        """Return the value of a keyword, ``None`` where the schema does not have it.

        Raises:
            InvalidSchemaError: The value is of another type.
        """
        if keyword not in self.schema:
            return None
        value = self.schema[keyword]
        if not isinstance(value, kind):
            raise self.error(f"{keyword} is not {_KINDS[kind]}", keyword)
        return value

    def at(self, keyword: str) -> str:
        """Return the JSON Pointer of a keyword of this schema."""
        return f"{self.pointer}/{_escaped(keyword)}"


def _pointer(parent: SchemaLocation | str, path: tuple[str | int, ...]) -> str:
    parts: list[str] = []
    while True:
        parts.extend(f"/{_escaped(str(part))}" for part in reversed(path))
        if isinstance(parent, str):
            return parent + "".join(reversed(parts))
        path = parent.path
        parent = parent.parent


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


class SchemaDocument:
    """A schema, copied from the caller's, with everything its references can reach."""

    def __init__(self, schema: Any, registry: Registry[Any] | None = None) -> None:
        self._contents, text = _copied(schema)
        if not isinstance(self._contents, dict | bool):
            raise _no_schema(self._contents, "")
        if not isinstance(registry, Registry | None):
            raise InvalidSchemaError(
                f"the registry is a referencing.Registry, not {type(registry).__name__}", pointer=""
            )
        known: Registry[Any] = (
            SPECIFICATIONS if registry is None else registry.combine(SPECIFICATIONS)
        )
        self._dialects = DialectTable(known)
        self._keywords: dict[tuple[int, str], tuple[Any, tuple[str, ...]]] = {}
        dialect = self._dialect_of(self._contents, DIALECTS["2020-12"], "", ())
        _check_identifier(self._contents, dialect, "", ())
        resource = dialect.specification.create_resource(self._contents)
        self._dialect = dialect
        uri = resource.id() or ""
        known = known.with_resource(uri, resource)
        if _NAMES.search(text) or text.count(f'"{dialect.identifier}": "') > 1:
            known = _searched(known, len(text))
        self._resolver = known.resolver(uri)
        # A reference to another document may meet a dynamic one there.
        self._is_dynamic = (
            '"$dynamicRef"' in text
            or '"$recursiveRef"' in text
            or '"$ref": "http' in text
            or registry is not None
        )
        # No places, which hold on to the document.
        self._references: dict[tuple[str, str, tuple[str, ...]], tuple[Any, _Resolver, str]] = {}

    @property
    def root(self) -> SchemaLocation:
        """The place of the whole schema."""
        return self.place(self._contents, self._dialect, self._resolver, is_root=True)

    def place(
        self,
        contents: Any,
        dialect: Dialect,
        resolver: _Resolver,
        parent: SchemaLocation | str = "",
        path: tuple[str | int, ...] = (),
        *,
        is_root: bool = False,
    ) -> SchemaLocation:
        """Return the place of a schema; its own ``$id`` and ``$schema`` are taken into account."""
        if isinstance(contents, dict):
            if "$schema" in contents:
                dialect = self._dialect_of(contents, dialect, parent, path)
            if not is_root and ("$id" in contents or "id" in contents):
                _check_identifier(contents, dialect, parent, path)
                resource = dialect.specification.create_resource(contents)
                resolver = resolver.in_subresource(resource)
        elif not isinstance(contents, bool):
            raise _no_schema(contents, _pointer(parent, path), str(path[0]) if path else None)
        schema, ignored = self._read_as(contents, dialect)
        return SchemaLocation(schema, dialect, resolver, self, parent, path, ignored)

    def _read_as(self, contents: Any, dialect: Dialect) -> tuple[Any, tuple[str, ...]]:
        """Return a schema's keywords in a dialect, and what else it has that others know."""
        if not dialect.left_out or isinstance(contents, bool):
            return contents, ()
        key = (id(contents), dialect.identity)
        read = self._keywords.get(key)
        if read is None:
            schema = {name: it for name, it in contents.items() if name not in dialect.left_out}
            ignored = tuple(name for name in contents if name in dialect.left_out)
            read = self._keywords[key] = (schema if ignored else contents, ignored)
        return read

    def scope(self, resolver: _Resolver) -> tuple[str, ...]:
        """Return the dynamic scope as far as a dynamic reference could see it."""
        if not self._is_dynamic:
            return ()
        uris = [uri for uri, _ in resolver.dynamic_scope()]
        # Of a document entered twice, the outermost time counts for what is dynamic.
        return (resolver._base_uri, *dict.fromkeys(reversed(uris)))

    def resolve_recursive(self, place: SchemaLocation) -> SchemaLocation:
        """Return the place that a ``$recursiveRef`` at a place leads to."""
        try:
            resolved = lookup_recursive_ref(place.resolver)
        except (Unresolvable, ValueError, AttributeError, TypeError) as error:
            raise place.error("$recursiveRef leads nowhere", "$recursiveRef") from error
        if not isinstance(resolved.contents, dict | bool):
            raise place.error("$recursiveRef leads to no schema", "$recursiveRef")
        return self.place(resolved.contents, place.dialect, resolved.resolver, is_root=True)

    def resolve(self, place: SchemaLocation, reference: object, keyword: str) -> SchemaLocation:
        """Return the place that a reference at a place leads to."""
        if not isinstance(reference, str):
            raise place.error(f"{keyword} is not a string", keyword)
        key = (place.resolver._base_uri, reference, self.scope(place.resolver))
        target = self._references.get(key)
        if target is None:
            target = self._references[key] = self._lookup(place, reference, keyword)
        contents, resolver, pointer = target
        return self.place(contents, place.dialect, resolver, pointer, is_root=True)

    def _lookup(
        self, place: SchemaLocation, reference: str, keyword: str
    ) -> tuple[Any, _Resolver, str]:
        """Return the schema that a reference leads to, its resolver and its pointer."""
        spend(LOOKUP_STEPS + len(reference) // CHARACTERS_PER_STEP)
        shown = repr(
            reference
            if len(reference) <= LIMITS.message_characters
            else f"{reference[: LIMITS.message_characters]}…"
        )
        try:
            resolved = place.resolver.lookup(reference)
        except (Unresolvable, ValueError, AttributeError, TypeError) as error:
            raise place.error(
                f"the reference {shown} leads nowhere",
                keyword,
                hint="Pass documents that it needs in a referencing.Registry; none are fetched",
            ) from error
        if not isinstance(resolved.contents, dict | bool):
            raise place.error(f"the reference {shown} leads to no schema", keyword)
        pointer = reference[1:] if reference.startswith("#/") else reference
        return resolved.contents, resolved.resolver, "" if pointer == "#" else pointer

    def _dialect_of(
        self,
        schema: Any,
        default: Dialect,
        parent: SchemaLocation | str,
        path: tuple[str | int, ...],
    ) -> Dialect:
        if not isinstance(schema, dict) or "$schema" not in schema:
            return default
        try:
            return self._dialects.named(schema["$schema"])
        except SchemaError as error:
            raise error.located(f"{_pointer(parent, path)}/$schema", "$schema") from None


def _no_schema(found: Any, pointer: str, keyword: str | None = None) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"a schema is an object or a Boolean, not {type(found).__name__}",
        pointer=pointer,
        keyword=keyword,
    )


_NAMES = re.compile(r'"\$(?:ref|dynamicRef)": "(?!#"|#/)|"\$recursiveRef"')
"""References by name, for which documents are searched."""


def _searched(registry: Registry[Any], size: int) -> Registry[Any]:
    """Return a registry with the names of all schemas in its documents.

    A look-up would search them, too, each time anew. ``size`` is the length of the schema.
    """
    spend(size // CHARACTERS_PER_STEP)
    try:
        return registry.crawl()
    except (ValueError, AttributeError, TypeError):
        # Something malformed, which may be of no account; a look-up that needs it says so.
        return registry


def _check_identifier(
    schema: Any, dialect: Dialect, parent: SchemaLocation | str, path: tuple[str | int, ...]
) -> None:
    """Raise if the ``$id`` of a schema, ``id`` in draft 4, is no URI reference."""
    keyword = dialect.identifier
    if not isinstance(schema, dict) or keyword not in schema:
        return
    if dialect.ref_overrides and "$ref" in schema:
        return
    found = schema[keyword]
    what = f"{keyword} is not a string"
    if isinstance(found, str):
        try:
            urlsplit(found)
        except ValueError:
            what = f"{keyword} is no URI reference: {found!r}"
        else:
            return
    pointer = f"{_pointer(parent, path)}/{keyword}"
    raise InvalidSchemaError(what, pointer=pointer, keyword=keyword)


def _copied(schema: Any) -> tuple[Any, str]:
    """Return the schema as plain JSON, so that later changes by the caller do not matter.

    Equal objects in it are one, so that schemas written out twice are looked at once. The second
    result is its text.
    """
    known: dict[object, dict[str, Any]] = {}

    def one_of_equals(members: list[tuple[str, Any]]) -> dict[str, Any]:
        spend(1 + len(members) // MEMBERS_PER_STEP)
        key = tuple((name, _identity(value)) for name, value in members)
        return known.setdefault(key, dict(members))

    try:
        text = json.dumps(schema, allow_nan=False)
        return json.loads(text, object_pairs_hook=one_of_equals), text
    except RecursionError as error:
        keyword = _deepest_keyword(schema)
        pointer = "" if keyword is None else f"/{_escaped(keyword)}"
        raise UnsupportedSchemaError(
            "the schema is nested too deeply",
            pointer=pointer,
            keyword=keyword,
            hint="Name parts in $defs and refer to them",
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidSchemaError(f"the schema is not JSON: {error}", pointer="") from error


def _identity(value: Any) -> object:
    """Return what equal values have in common; order and spelling of numbers count."""
    if isinstance(value, dict):
        return id(value)
    if isinstance(value, list):
        parts: list[object] = []
        for start in range(0, len(value), MEMBERS_PER_CHARGE):
            some = value[start : start + MEMBERS_PER_CHARGE]
            spend(len(some) // MEMBERS_PER_STEP)
            parts.extend(map(_identity, some))
        return tuple(parts)
    return (type(value), value)


def _deepest_keyword(schema: Any) -> str | None:
    """Return the keyword of a schema whose value is nested most deeply."""
    members = schema.items() if isinstance(schema, Mapping) else ()
    layer = [(str(keyword), value) for keyword, value in members]
    seen: set[int] = set()
    deepest = None
    while layer:
        deepest = layer[0][0]
        below: list[tuple[str, Any]] = []
        for keyword, value in layer:
            if id(value) in seen or not isinstance(value, Mapping | list | tuple):
                continue
            seen.add(id(value))
            parts = value.values() if isinstance(value, Mapping) else value
            below.extend((keyword, part) for part in parts)
        layer = below
    return deepest
