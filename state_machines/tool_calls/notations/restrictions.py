"""What a notation cannot write, as a restriction of the values that a schema admits.

Restrictions are terms like those of schemas, so what they leave out is left out before there is a
grammar: a property whose value cannot be written is no way into a dead end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import complement
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.evaluator import TermEvaluator
from state_machines.json_schema.objects.names import listed_names
from state_machines.json_schema.objects.object_shape import NameRule, ObjectShape
from state_machines.json_schema.schema_copy import pointer_token
from state_machines.json_schema.terms import FALSE, Evaluated, Term, TermTable
from state_machines.json_schema.value_sets import ANY_TEXT, ANY_VALUE, ValueSet

__all__ = [
    "check_names_within",
    "everywhere",
    "objects_of",
    "property_pointer",
    "root_names",
    "root_shapes",
]


def everywhere(strings: Node, names: Node) -> Term:
    """Return the values all of whose strings, and all names of whose members, are in languages."""
    term = Evaluated(ANY_VALUE)
    shape = ObjectShape(name_rules=_name_rules(names, term))
    values = replace(ANY_VALUE, strings=strings, arrays=(ArrayShape(rest=term),), objects=(shape,))
    # The term is made of itself: an array of it holds it again.
    object.__setattr__(term, "values", values)
    return term


def objects_of(table: TermTable, listed: Mapping[str, Term], names: Node, others: Term) -> Term:
    """Return the objects whose listed members are of given terms, and all else of ``others``.

    Names that are not listed are in the language ``names``.
    """
    shape = ObjectShape(properties=dict(listed), name_rules=_name_rules(names, others))
    return table.evaluated(ValueSet(objects=(shape,)))


def _name_rules(names: Node, term: Term) -> tuple[NameRule, ...]:
    if names is ANY_TEXT:
        return (NameRule(names, term),)
    return NameRule(names, term), NameRule(complement(names, ANY_CODE_POINT), FALSE)


def root_shapes(term: Term, evaluator: TermEvaluator) -> list[ObjectShape]:
    """Return the shapes of a term's objects, of which there are some."""
    shapes = evaluator.values(term).objects
    return [shape for shape in shapes if evaluator.shape_is_inhabited(shape)]


def root_names(shapes: list[ObjectShape]) -> tuple[str, ...]:
    """Return the names that shapes list, in their order."""
    return tuple(dict.fromkeys(name for shape in shapes for name in listed_names(shape)))


def check_names_within(
    schema: Any, is_writable: Callable[[str], bool], notation: str, hint: str
) -> None:
    """Raise :class:`UnsupportedSchemaError` for a property whose name cannot be written."""
    for name, pointer, keyword in _properties(schema, ""):
        if not is_writable(name):
            raise UnsupportedSchemaError(
                f"{notation} cannot write a property called {name!r}",
                pointer=pointer,
                keyword=keyword,
                hint=hint,
            )


def property_pointer(schema: Any, name: str) -> str:
    """Return where a schema speaks of a property first; of the whole where that is not found."""
    return next((at for known, at, _ in _properties(schema, "") if known == name), "")


_BY_NAME = ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "contains", "additionalProperties", "additionalItems", "then", "else")


def _properties(schema: Any, pointer: str) -> Iterator[tuple[str, str, str]]:
    """Yield the properties of a schema and those in it: (name, pointer, keyword), outer first.

    Properties that something must not have are left out.
    """
    if not isinstance(schema, Mapping):
        return
    listed = schema.get("properties")
    listed = listed if isinstance(listed, Mapping) else {}
    for name, inner in listed.items():
        if inner is not False:
            yield name, f"{pointer}/properties/{pointer_token(name)}", "properties"
    required = schema.get("required")
    for index, name in enumerate(required if isinstance(required, list) else ()):
        if isinstance(name, str) and name not in listed:
            yield name, f"{pointer}/required/{index}", "required"
    for keyword in ("properties", *_BY_NAME):
        inner = schema.get(keyword)
        if isinstance(inner, Mapping):
            for name, each in inner.items():
                yield from _properties(each, f"{pointer}/{keyword}/{pointer_token(name)}")
    for keyword in (*_LISTS, *_SINGLE):
        inner = schema.get(keyword)
        if isinstance(inner, list):
            for index, each in enumerate(inner):
                yield from _properties(each, f"{pointer}/{keyword}/{index}")
        else:
            yield from _properties(inner, f"{pointer}/{keyword}")
