"""A schema document: its schemas by location, and the resolution of references.

References are resolved by the package ``referencing`` (RFC 3986, RFC 6901). The metaschemas of the
drafts come from ``jsonschema-specifications``, other documents from the registry that the caller
passes. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import lookup_recursive_ref

from state_machines.budgets import spend
from state_machines.errors import InvalidSchemaError, SchemaError
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.reader.dialects import UNDECLARED, Dialect, DialectTable
from state_machines.json_schema.reader.schema_copy import interned_copy, pointer_token
from state_machines.limits import LIMITS

_Kind = TypeVar("_Kind", dict[str, Any], list[Any])

CHARACTERS_PER_STEP = 64
"""Characters of a reference that are compared in one step."""

INDEX_STEPS = 4
"""Steps charged for each object of a document that is searched for identifiers."""

LOOKUP_STEPS = 8
"""Steps charged for the resolution of one reference."""

_KINDS: dict[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a Boolean"}

_Resolver = Any
"""``referencing._core.Resolver``, which its package does not export."""


@dataclass(eq=False, slots=True)
class SchemaLocation(Term):
    """A schema and its location in a document; as a term, the values that the schema admits.

    Attributes:
        schema: The schema, without the keywords in ``ignored``.
        dialect: The dialect of the schema.
        resolver: Resolves the references of the schema.
        document: The document.
        parent: The location of the enclosing schema, or the JSON Pointer from which ``path`` leads.
        path: The path from ``parent`` to the schema; it starts with the keyword that applies the
            schema.
        ignored: The keywords of the schema whose vocabularies are not in use.
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
        """The JSON Pointer of the schema; computed on access, because nesting may be deep."""
        return _json_pointer(self.parent, self.path)

    @property
    def keyword(self) -> str | None:
        """The keyword that applies the schema; ``None`` for a whole document."""
        return str(self.path[0]) if self.path else None

    @property
    def key(self) -> object:
        """A key that is equal for locations with the same schema, dialect, base URI and scope."""
        resolver = self.resolver
        scope = self.document.dynamic_scope(resolver)
        return (id(self.schema), self.dialect.identity, resolver._base_uri, scope)

    def child(self, schema: Any, *path: str | int) -> SchemaLocation:
        """Return the location of a subschema, given its path from here."""
        return self.document.locate(schema, self.dialect, self.resolver, self, path)

    def error(self, what: str, keyword: str, *, hint: str = "") -> InvalidSchemaError:
        """Return an error about the value of a keyword of this schema."""
        pointer = self.keyword_pointer(keyword)
        return InvalidSchemaError(what, pointer=pointer, keyword=keyword, hint=hint)

    def keyword_value(self, keyword: str, kind: type[_Kind]) -> _Kind | None:
        """Return the value of a keyword; ``None`` if the schema does not have the keyword.

        Raises:
            InvalidSchemaError: The value has another type than ``kind``.
        """
        value = self.schema.get(keyword)
        if keyword in self.schema:
            self.check_kind(keyword, value, kind)
        return cast("_Kind | None", value)

    def check_kind(self, keyword: str, value: object, kind: type) -> None:
        """Raise :class:`InvalidSchemaError` for a value of another type."""
        if not isinstance(value, kind):
            raise self.error(f"{keyword} is not {_KINDS[kind]}", keyword)

    def keyword_pointer(self, keyword: str) -> str:
        """Return the JSON Pointer of a keyword of this schema."""
        return f"{self.pointer}/{pointer_token(keyword)}"


def _json_pointer(parent: SchemaLocation | str, path: tuple[str | int, ...]) -> str:
    parts: list[str] = []
    while True:
        parts.extend(f"/{pointer_token(str(part))}" for part in reversed(path))
        if isinstance(parent, str):
            return parent + "".join(reversed(parts))
        path = parent.path
        parent = parent.parent


class SchemaDocument:
    """A copy of the caller's schema, with the documents that its references can reach.

    Args:
        schema: A JSON Schema: an object or a Boolean.
        registry: The documents that references may lead to.
        keyword_names: The names of all keywords, by ``Keyword.vocabulary``.

    Attributes:
        contents: The copy.

    Raises:
        SchemaError: The schema is not JSON, is not a schema, or its dialect is unknown.
    """

    def __init__(
        self,
        schema: Any,
        registry: Registry[Any] | None,
        keyword_names: Mapping[str, frozenset[str]],
    ) -> None:
        self.contents, text = interned_copy(schema)
        if not isinstance(self.contents, dict | bool):
            raise _not_a_schema(self.contents, "")
        if not isinstance(registry, Registry | None):
            raise InvalidSchemaError(
                f"the registry is not a referencing.Registry but {type(registry).__name__}",
                pointer="",
            )
        known: Registry[Any] = (
            SPECIFICATIONS if registry is None else registry.combine(SPECIFICATIONS)
        )
        self._dialects = DialectTable(known, keyword_names)
        self._without_ignored: dict[tuple[int, str], tuple[Any, tuple[str, ...]]] = {}
        dialect = self._dialect_of(self.contents, UNDECLARED, "", ())
        _check_identifier(self.contents, dialect, "", ())
        resource = dialect.specification.create_resource(self.contents)
        self._dialect = dialect
        uri = resource.id() or ""
        known = known.with_resource(uri, resource)
        if _NAMED_REFERENCE.search(text) or text.count(f'"{dialect.identifier}": "') > 1:
            spend(INDEX_STEPS * text.count("{"))
            known = _crawled(known)
        self._resolver = known.resolver(uri)
        # Another document may contain a dynamic reference.
        self._is_dynamic = (
            '"$dynamicRef"' in text
            or '"$recursiveRef"' in text
            or '"$ref": "http' in text
            or registry is not None
        )
        # Stores no locations: they hold a reference to the document.
        self._references: dict[tuple[object, ...], tuple[Any, _Resolver, str]] = {}

    @property
    def root(self) -> SchemaLocation:
        """The location of the whole schema."""
        return self.locate(self.contents, self._dialect, self._resolver, is_root=True)

    def locate(
        self,
        contents: Any,
        dialect: Dialect,
        resolver: _Resolver,
        parent: SchemaLocation | str = "",
        path: tuple[str | int, ...] = (),
        *,
        is_root: bool = False,
    ) -> SchemaLocation:
        """Return the location of a schema, with respect to its own ``$id`` and ``$schema``.

        Args:
            contents: The schema.
            dialect: The dialect of the enclosing schema.
            resolver: The resolver of the enclosing schema.
            parent: The enclosing schema, or its JSON Pointer.
            path: The path from ``parent`` to the schema.
            is_root: Whether ``resolver`` already resolves against the schema's own ``$id``.

        Raises:
            SchemaError: The contents are not a schema, or its ``$id`` or ``$schema`` is invalid.
        """
        if isinstance(contents, dict):
            if "$schema" in contents:
                dialect = self._dialect_of(contents, dialect, parent, path)
            if not is_root and ("$id" in contents or "id" in contents):
                _check_identifier(contents, dialect, parent, path)
                resource = dialect.specification.create_resource(contents)
                resolver = resolver.in_subresource(resource)
        elif not isinstance(contents, bool):
            keyword = str(path[0]) if path else None
            raise _not_a_schema(contents, _json_pointer(parent, path), keyword)
        schema, ignored = self._split_ignored(contents, dialect)
        return SchemaLocation(schema, dialect, resolver, self, parent, path, ignored)

    def _split_ignored(self, contents: Any, dialect: Dialect) -> tuple[Any, tuple[str, ...]]:
        """Return a schema without the keywords that its dialect leaves out, and these keywords."""
        if not dialect.left_out or isinstance(contents, bool):
            return contents, ()
        key = (id(contents), dialect.identity)
        split = self._without_ignored.get(key)
        if split is None:
            schema = {name: it for name, it in contents.items() if name not in dialect.left_out}
            ignored = tuple(name for name in contents if name in dialect.left_out)
            split = self._without_ignored[key] = (schema if ignored else contents, ignored)
        return split

    def dynamic_scope(self, resolver: _Resolver) -> tuple[str, ...]:
        """Return the URIs of the dynamic scope that a dynamic reference could depend on."""
        if not self._is_dynamic:
            return ()
        uris = [uri for uri, _ in resolver.dynamic_scope()]
        # Dynamic references resolve to the outermost entry, so only the outermost entry of each
        # document matters.
        return (resolver._base_uri, *dict.fromkeys(reversed(uris)))

    def resolve(self, location: SchemaLocation, keyword: str) -> SchemaLocation:
        """Return the target of the reference that a keyword of a schema holds.

        Raises:
            InvalidSchemaError: The reference cannot be resolved, or its target is not a schema.
        """
        reference = location.schema[keyword]
        location.check_kind(keyword, reference, str)
        if keyword == "$recursiveRef" and reference != "#":
            raise location.error("$recursiveRef is not '#'", keyword)
        resolver = location.resolver
        key = (keyword, resolver._base_uri, reference, self.dynamic_scope(resolver))
        target = self._references.get(key)
        if target is None:
            target = self._references[key] = self._lookup(location, reference, keyword)
        contents, resolver, pointer = target
        return self.locate(contents, location.dialect, resolver, pointer, is_root=True)

    def _lookup(
        self, location: SchemaLocation, reference: str, keyword: str
    ) -> tuple[Any, _Resolver, str]:
        """Return the target of a reference, its resolver and its JSON Pointer."""
        spend(LOOKUP_STEPS + len(reference) // CHARACTERS_PER_STEP)
        resolver = location.resolver
        try:
            if keyword == "$recursiveRef":
                resolved = lookup_recursive_ref(resolver)
            else:
                resolved = resolver.lookup(reference)
        except (Unresolvable, ValueError, AttributeError, TypeError) as error:
            raise location.error(
                f"the reference {_shortened(reference)} cannot be resolved",
                keyword,
                hint="Pass the documents that it needs in a referencing.Registry; nothing is "
                "fetched",
            ) from error
        if not isinstance(resolved.contents, dict | bool):
            what = f"the target of the reference {_shortened(reference)} is not a schema"
            raise location.error(what, keyword)
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
            pointer = f"{_json_pointer(parent, path)}/$schema"
            raise error.located(pointer, "$schema") from None


def _shortened(reference: str) -> str:
    limit = LIMITS.message_characters
    return repr(reference if len(reference) <= limit else f"{reference[:limit]}…")


def _not_a_schema(contents: Any, pointer: str, keyword: str | None = None) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"a schema must be an object or a Boolean, not {type(contents).__name__}",
        pointer=pointer,
        keyword=keyword,
    )


_NAMED_REFERENCE = re.compile(r'"\$(?:ref|dynamicRef)": "(?!#"|#/)|"\$recursiveRef"')
"""References whose resolution searches documents for identifiers and anchors."""


def _crawled(registry: Registry[Any]) -> Registry[Any]:
    """Return a registry that has indexed the identifiers and anchors of its documents.

    Without the index, every lookup would search the documents again.
    """
    try:
        return registry.crawl()
    except (ValueError, AttributeError, TypeError):
        # A malformed part may never be referenced. If it is, the lookup raises the error.
        return registry


def _check_identifier(
    schema: Any, dialect: Dialect, parent: SchemaLocation | str, path: tuple[str | int, ...]
) -> None:
    """Raise if the ``$id`` of a schema (``id`` in draft 4) is not a URI reference."""
    keyword = dialect.identifier
    if not isinstance(schema, dict) or keyword not in schema:
        return
    if dialect.ref_overrides and "$ref" in schema:
        return
    identifier = schema[keyword]
    what = f"{keyword} is not a string"
    if isinstance(identifier, str):
        what = f"{keyword} is not a URI reference: {identifier!r}"
        with suppress(ValueError):
            urlsplit(identifier)
            return
    pointer = f"{_json_pointer(parent, path)}/{keyword}"
    raise InvalidSchemaError(what, pointer=pointer, keyword=keyword)
