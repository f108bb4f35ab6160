"""The verdicts of ``jsonschema`` on schemas of any draft, as exact as they can be had.

Patterns are translated from ECMA-262 to Python's dialect first; numbers are exact (see
``judging``). Where that cannot be done, there is no verdict.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_specifications
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from judging import exactly_numbered, parsed
from near_schemas import replaced, subschemas

__all__ = ["Oracle", "UntranslatableError"]

_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": r"\s\ufeff"}
_FOREIGN = re.compile(r"\\[pPkcbB\d]|\\u\{|\(\?<|\(\?i|\(\?P|\(\?m|\(\?s|\[\]|\[\^\]|\\[AZzaUN]")


class UntranslatableError(Exception):
    """A pattern that Python's ``re`` has no equivalent for."""


class Oracle:
    """Tells which values a schema admits; ``None`` where ``jsonschema`` cannot say."""

    def __init__(self, schema: Any) -> None:
        cls = validator_for(schema, default=Draft202012Validator)
        self._validator: Any = None
        try:
            cls.check_schema(schema)
            self._validator = cls(
                parsed(json.dumps(_in_python_dialect(schema))),
                registry=jsonschema_specifications.REGISTRY,
            )
        except Exception:
            self._validator = None

    def admits(self, value: Any) -> bool | None:
        """Whether a value, parsed by whatever means, is admitted."""
        if self._validator is None:
            return None
        try:
            return bool(self._validator.is_valid(exactly_numbered(value)))
        except Exception:  # whatever it stumbles over: references, recursion, types
            return None

    def admits_text(self, text: bytes) -> bool | None:
        """Whether a text is JSON, repeats no name and has an admitted value."""
        try:
            value = parsed(text)
        except ValueError:
            return False
        return self.admits(value)


def _in_python_dialect(schema: Any) -> Any:
    for path, part in list(subschemas(schema)):
        if isinstance(part, dict) and isinstance(part.get("pattern"), str):
            schema = replaced(schema, (*path, "pattern"), translated(part["pattern"]))
    # Inner ones first, for a name on the path of another may change.
    for path, part in reversed(list(subschemas(schema))):
        if isinstance(part, dict) and isinstance(part.get("patternProperties"), dict):
            schema = _with_translated_names(schema, path)
    return schema


def _with_translated_names(schema: Any, path: Any) -> Any:
    part = schema
    for step in path:
        part = part[step]
    names = {translated(name): item for name, item in part["patternProperties"].items()}
    if len(names) < len(part["patternProperties"]):
        raise UntranslatableError("two patterns become one")
    return replaced(schema, (*path, "patternProperties"), names)


def translated(pattern: str) -> str:
    """Return a pattern of ECMA-262 in the dialect of ``re``."""
    if _FOREIGN.search(pattern):
        raise UntranslatableError(pattern)
    parts = []
    in_class = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "\\" and position < len(pattern):
            escaped = pattern[position]
            position += 1
            if escaped in _CLASSES:
                parts.append(_CLASSES[escaped] if in_class else f"[{_CLASSES[escaped]}]")
            elif escaped.lower() in _CLASSES:
                if in_class:
                    raise UntranslatableError(pattern)
                parts.append(f"[^{_CLASSES[escaped.lower()]}]")
            else:
                parts.append(char + escaped)
            continue
        if char == "$" and not in_class:
            char = r"\Z"
        elif char == "." and not in_class:
            char = r"[^\n\r\u2028\u2029]"
        elif char == "[" and in_class:
            char = r"\["
        elif char in "[]":
            in_class = char == "["
        parts.append(char)
    result = "".join(parts)
    re.compile(result)
    return result
