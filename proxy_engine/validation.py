"""The last look at an output: ``jsonschema`` as the judge, with regular expressions as ECMA-262.

``jsonschema`` hands patterns to Python's ``re``, whose dialect is another one: ``\\d`` has other
digits, ``\\p{…}`` is an error. A correct output must not be refused for that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import regex
from jsonschema.protocols import Validator

__all__ = ["json_validator"]


def json_validator(schema: Mapping[str, Any] | bool) -> Validator:
    """A validator for ``schema``, of the draft it names; 2020-12 where it names none."""
    draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return _with_ecma_patterns(draft)(schema)


@functools.cache
def _with_ecma_patterns(draft: type[Validator]) -> type[Validator]:
    extended: type[Validator] = jsonschema.validators.extend(draft, {"pattern": _pattern})
    return extended


def _pattern(
    validator: Validator, pattern: str, instance: Any, schema: Mapping[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(instance, str):
        return
    expression = _compile(pattern)
    if expression is not None and not expression.search(instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


@functools.lru_cache(maxsize=512)
def _compile(pattern: str) -> regex.Pattern[str] | None:
    """``pattern`` for the ``regex`` package; ``None`` where that has no such construct.

    Such a pattern has still been enforced, by the state machine.
    """
    try:
        return regex.compile(_translate(pattern))
    except regex.error:
        return None


_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": r"\s\ufeff"}


def _translate(pattern: str) -> str:
    """Spell out the classes and anchors whose meaning differs between ECMA-262 and ``regex``."""
    parts = []
    in_class = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "\\" and position < len(pattern):
            escaped = pattern[position]
            position += 1
            lower = escaped.lower()
            if escaped in _CLASSES:
                parts.append(_CLASSES[escaped] if in_class else f"[{_CLASSES[escaped]}]")
            elif lower in _CLASSES and not in_class:
                parts.append(f"[^{_CLASSES[lower]}]")
            else:
                parts.append(char + escaped)
            continue
        if char == "$" and not in_class:
            char = r"\Z"
        elif char == "[" and in_class:
            char = r"\["
        elif char in "[]":
            in_class = char == "["
        parts.append(char)
    return "".join(parts)
