"""Attach JSON Pointers to errors."""

from __future__ import annotations

from collections.abc import Iterator

from state_machines.errors import (
    GrammarBudgetError,
    PatternError,
    SchemaError,
    UnsupportedSchemaError,
)
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.keywords import COSTLY_KEYWORDS
from state_machines.json_schema.terms import (
    Conjunction,
    Disjunction,
    Negation,
    SchemaRef,
    Term,
)


class located_errors:
    """Convert the errors of a ``with`` block to schema errors with a JSON Pointer.

    Errors of patterns, budgets and recursion become
    :class:`~state_machines.errors.UnsupportedSchemaError`. A schema error that already has a
    pointer is left alone.

    A class, because a generator-based context manager takes several times as long, and a block is
    entered for every keyword of every schema.

    Args:
        source: The schema that is being read, or the term that is being evaluated; ``None`` for
            the whole schema.
        keyword: The keyword of the schema that is being read.
        parent: The schema that contains a term, searched after the schemas of the term.
    """

    __slots__ = ("_keyword", "_parent", "_source")

    def __init__(
        self,
        source: SchemaLocation | Term | None,
        keyword: str | None = None,
        *,
        parent: SchemaLocation | None = None,
    ) -> None:
        self._source = source
        self._keyword = keyword
        self._parent = parent

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        match error:
            case SchemaError():
                if error.is_located:
                    return
                found = error
            case PatternError():
                found = UnsupportedSchemaError(str(error))
            case GrammarBudgetError():
                found = UnsupportedSchemaError(error.what, hint=error.hint)
            case RecursionError():
                found = UnsupportedSchemaError("the schema is nested too deeply")
            case _:
                return
        raise found.located(*self._find(found.keyword)) from error

    def _find(self, keyword: str | None) -> tuple[str, str | None]:
        """Return the JSON Pointer of an error, and its keyword.

        Args:
            keyword: The keyword that the error names, if any.
        """
        source = self._source
        if isinstance(source, SchemaLocation):
            name = keyword if keyword in source.schema else self._keyword
            return source.pointer if name is None else source.keyword_pointer(name), name
        locations = [] if source is None else list(schema_locations(source))
        if self._parent is not None:
            locations.append(self._parent)
        for name in COSTLY_KEYWORDS if keyword is None else (keyword,):
            for location in locations:
                if name in location.schema:
                    return location.keyword_pointer(name), name
        return (locations[0].pointer, locations[0].keyword) if locations else ("", None)


def schema_locations(term: Term) -> Iterator[SchemaLocation]:
    """Yield the locations of the schemas that a term is built from, breadth-first."""
    layer: dict[Term, None] = {term: None}
    seen: set[Term] = set()
    while layer:
        seen |= layer.keys()
        below: list[Term] = []
        for each in layer:
            match each:
                case SchemaRef(location):
                    yield location
                case Conjunction(parts) | Disjunction(parts):
                    below.extend(parts)
                case Negation(part):
                    below.append(part)
        layer = dict.fromkeys(each for each in below if each not in seen)
