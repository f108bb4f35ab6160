"""The text that describes a response format in the prompt: outlines of JSON Schemas.

An outline has the form of the value::

    {
      "name": string,  // the person's full name
      "age": integer (at least 0) | null,
      "role": "admin" | "guest",
      "tags"?: [string, ...]
    }

It shows names, types, alternatives, simple bounds and descriptions. Other keywords are left out;
the grammar enforces them. Malformed schemas have outlines, too. Outlines have some 60% of the
tokens of a short schema, and fewer where schemas have titles and definitions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from state_machines.reader_languages.table import without_reader_languages

SchemaInPrompt: TypeAlias = Literal["auto", "off", "outline", "json_schema"]

MAX_CHARS = 8_000
"""Maximum number of characters of a description, some 2,500 tokens."""

MAX_DEPTH = 16
"""Maximum nesting of objects and arrays in an outline."""

_ANY = "any value"
_DEPTHS = (MAX_DEPTH, 6, 4, 3, 2, 1)
# Longest chain of alternatives and references between two levels of nesting.
_MAX_HOPS = 8
# Schemas that are searched for references. Definitions behind them are written where they are used.
_MAX_SEARCHED = 20_000
_MAX_PATTERN_CHARS = 80
# Keywords whose schemas are written in the place of their value.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
# Keywords of each type, and how they are described.
_KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "object": {"properties": "", "required": "", "additionalProperties": ""},
    "array": {
        "items": "",
        "prefixItems": "",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "uniqueItems": "all different",
    },
    "string": {
        "format": "{}",
        "pattern": "matching {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
    },
    "number": {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "exclusiveMinimum": "above {}",
        "exclusiveMaximum": "below {}",
        "multipleOf": "a multiple of {}",
    },
}


def schema_text(
    schemas: Sequence[tuple[str, Any]],
    form: SchemaInPrompt,
    *,
    may_call: bool = False,
    max_chars: int = MAX_CHARS,
) -> str:
    """Return the instruction to answer with JSON of a schema; empty if there is nothing to say.

    With ``"auto"``, schemas with descriptions are written as outlines, and others not at all. A
    schema whose text would be longer than its share of ``max_chars`` is written as an outline, and
    a longer outline is cut, see :func:`schema_outline`.

    Args:
        schemas: Names and JSON Schemas of the parts of the answer that are JSON.
        form: How to describe the schemas.
        may_call: Whether the answer may be a tool call instead.
        max_chars: Maximum number of characters of all schemas.
    """
    if form == "auto":
        schemas = [(name, schema) for name, schema in schemas if _has_descriptions(schema)]
    if form == "off" or not schemas:
        return ""
    share = max_chars // len(schemas)
    texts = []
    for name, schema in schemas:
        subject = "Answer with" if len(schemas) == 1 else f"Write the part {name} as"
        how, described = _described(schema, form, share)
        texts.append(f"{subject} JSON {how}:\n{described}")
    if may_call:
        texts.insert(0, "Call tools if they are needed. If you call none:")
    return "\n\n".join(texts)


def with_schema_text(messages: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return messages whose first message of the user begins with a description.

    There it precedes what differs between requests with one schema, and stays in place when a
    conversation continues, so that the prompt cache finds it. A system message would replace the
    default one of many chat templates, and some templates have none.
    """
    written = [dict(message) for message in messages]
    for message in written:
        if message["role"] == "user":
            message["content"] = f"{text}\n\n{message['content']}" if message["content"] else text
            return written
    place = next((i for i, m in enumerate(written) if m["role"] != "system"), len(written))
    written.insert(place, {"role": "user", "content": text})
    return written


def _described(schema: Any, form: SchemaInPrompt, max_chars: int) -> tuple[str, str]:
    if form == "json_schema":
        text = json.dumps(without_reader_languages(schema), ensure_ascii=False)
        if len(text) <= max_chars:
            return "that matches this JSON Schema", text
    return "in this form", schema_outline(schema, max_chars)


def schema_outline(schema: Any, max_chars: int) -> str:
    """Return the outline of a schema.

    Objects and arrays that are nested too deeply for ``max_chars`` are written as ``{...}`` and
    ``[...]``. If one level is too long, the outline ends with ``...``. A definition that is
    referred to more than once is written once, behind the outline.

    Args:
        schema: A JSON Schema, as parsed JSON.
        max_chars: Maximum number of characters.
    """
    shared = _shared_definitions(schema)
    text = ""
    for depth in _DEPTHS:
        writer = _OutlineWriter(schema, shared, depth, max_chars)
        text = writer.text()
        if not writer.is_cut and len(text) <= max_chars:
            return text
    kept = text[: max_chars - len("\n...")]
    return f"{kept[: kept.rfind(chr(10))]}\n..." if "\n" in kept else f"{kept}..."


class _OutlineWriter:
    """Writes an outline of limited depth, and stops soon after ``max_chars`` characters."""

    def __init__(self, root: Any, shared: set[str], max_depth: int, max_chars: int) -> None:
        self._root = root
        self._shared = shared
        self._max_depth = max_depth
        self._left = max_chars
        self._names: dict[str, str] = {}

    @property
    def is_cut(self) -> bool:
        """Whether the outline is longer than allowed, so that parts may be missing."""
        return self._left < 0

    def text(self) -> str:
        """Return the outline and the definitions that it names."""
        texts = [self._value(self._root, 0) + self._comment(self._root)]
        written: set[str] = set()
        while (missing := [key for key in self._names if key not in written]) and not self.is_cut:
            written.add(missing[0])
            target = _target_of(self._root, missing[0])
            body = self._value(target, 0) + self._comment(target)
            texts.append(self._spent(f"where {self._names[missing[0]]} is {body}"))
        return "\n".join(texts)

    def _spent(self, text: str) -> str:
        self._left -= len(text)
        return text

    def _value(self, schema: Any, depth: int, hops: int = 0) -> str:
        """Return the outline of a value at nesting level ``depth``."""
        if not isinstance(schema, Mapping) or self.is_cut or hops > _MAX_HOPS:
            return self._spent(_ANY)
        typed = self._typed(schema, depth)
        options = [typed] if typed else []
        reference = _reference_of(schema)
        if reference is not None:
            options.append(self._referenced(reference, depth, hops))
        options += [self._value(part, depth, hops + 1) for part in _listed(schema, "allOf")]
        for keyword in ("anyOf", "oneOf"):
            alternatives = _listed(schema, keyword)
            texts = dict.fromkeys(self._value(option, depth, hops + 1) for option in alternatives)
            if texts:
                options.append(" | ".join(texts))
        several = [f"({text})" if " | " in text else text for text in dict.fromkeys(options)]
        return " & ".join(several) if len(several) > 1 else (options or [self._spent(_ANY)])[0]

    def _referenced(self, reference: str, depth: int, hops: int) -> str:
        if reference not in self._shared:
            return self._value(_target_of(self._root, reference), depth, hops + 1)
        if reference not in self._names:
            name = unquote(reference.rpartition("/")[2]).lstrip("#") or "Root"
            taken = self._names.values()
            same = sum(other.partition("#")[0] == name for other in taken)
            self._names[reference] = f"{name}#{same + 1}" if same else name
        return self._spent(self._names[reference])

    def _typed(self, schema: Mapping[str, Any], depth: int) -> str:
        """Return the outline of the types and constants of a schema, empty if it has none."""
        if "const" in schema or isinstance(schema.get("enum"), list):
            return self._constants([schema["const"]] if "const" in schema else schema["enum"])
        texts = []
        for kind in _types_of(schema):
            if kind == "object":
                texts.append(self._object(schema, depth))
            elif kind == "array":
                texts.append(self._array(schema, depth))
            else:
                texts.append(self._spent(f"{kind}{_qualifiers_of(schema, kind)}"))
        return " | ".join(texts)

    def _constants(self, values: Iterable[Any]) -> str:
        texts = []
        for value in values:
            texts.append(self._spent(json.dumps(value, ensure_ascii=False)))
            if self.is_cut:
                break
        return " | ".join(texts)

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        members = dict(properties) if isinstance(properties, Mapping) else {}
        required = [name for name in _listed(schema, "required") if isinstance(name, str)]
        members.update({name: True for name in required if name not in members})
        lines = []
        others = schema.get("additionalProperties")
        if depth >= self._max_depth:
            return self._spent("{...}")
        indent = "  " * (depth + 1)
        for name, member in members.items():
            if self.is_cut:
                break
            if member is False:
                continue
            mark = "" if name in required else "?"
            begin = self._spent(f"{indent}{json.dumps(name, ensure_ascii=False)}{mark}: ")
            lines.append((begin + self._value(member, depth + 1), self._comment(member)))
        if isinstance(others, Mapping) and others:
            begin = self._spent(f"{indent}<name>: ")
            lines.append((begin + self._value(others, depth + 1), self._comment(others)))
        if not lines:
            return self._spent("{}" if others is False else "{...}")
        last = len(lines) - 1
        commas = ["" if number == last else "," for number in range(len(lines))]
        written = [line + comma + about for (line, about), comma in zip(lines, commas, strict=True)]
        head = "{" + "".join(self._spent(f"  // {text}") for text in _description_of(schema))
        return "\n".join([head, *written, "  " * depth + "}"])

    def _comment(self, schema: Any) -> str:
        """Return the descriptions behind the outline of a value."""
        texts = dict.fromkeys(self._descriptions(schema))
        return self._spent(f"  // {'; '.join(texts)}" if texts else "")

    def _descriptions(self, schema: Any, hops: int = 0) -> list[str]:
        """Return the descriptions of a value, its alternatives and its items.

        Descriptions of objects stand in the object, of shared definitions behind the outline.
        """
        if not isinstance(schema, Mapping) or hops > _MAX_HOPS:
            return []
        reference = _reference_of(schema)
        texts = []
        if reference is not None or not _is_written_as_object(schema):
            texts = _description_of(schema)
        inner = [each for keyword in _IN_PLACE for each in _listed(schema, keyword)]
        inner.append(schema.get("items"))
        if reference is not None and reference not in self._shared:
            inner.append(_target_of(self._root, reference))
        for each in inner:
            texts += self._descriptions(each, hops + 1)
        return texts

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        if depth >= self._max_depth:
            return self._spent("[...]")
        prefix = _listed(schema, "prefixItems") or _listed(schema, "items")
        items = [self._value(item, depth + 1) for item in prefix]
        if prefix and _is_tuple(schema, len(prefix)):
            return f"[{', '.join(items)}]"
        items += ["..."] if prefix else [self._value(schema.get("items"), depth + 1), "..."]
        return f"[{', '.join(items)}]{_qualifiers_of(schema, 'array')}"


def _shared_definitions(root: Any) -> set[str]:
    """Return the references that occur more than once among the reachable schemas."""
    counts: Counter[str] = Counter({"#": 1})
    pending = [root]
    searched = 0
    while pending and searched < _MAX_SEARCHED:
        searched += 1
        item = pending.pop()
        if isinstance(item, list):
            pending += item
        elif isinstance(item, Mapping):
            # Definitions count where they are referred to.
            pending += [v for k, v in item.items() if k not in ("$defs", "definitions")]
            reference = _reference_of(item)
            if reference is not None:
                counts[reference] += 1
                if counts[reference] == 1:
                    pending.append(_target_of(root, reference))
    return {reference for reference, count in counts.items() if count > 1}


def _has_descriptions(root: Any) -> bool:
    """Return whether an outline of a schema would have descriptions."""
    pending, seen = [root], set()
    for _ in range(_MAX_SEARCHED):
        if not pending:
            break
        schema = pending.pop()
        if not isinstance(schema, Mapping):
            continue
        if _description_of(schema):
            return True
        for keyword in _IN_PLACE:
            pending += _listed(schema, keyword)
        pending += [schema.get("items"), schema.get("additionalProperties")]
        properties = schema.get("properties")
        pending += properties.values() if isinstance(properties, Mapping) else ()
        reference = _reference_of(schema)
        if reference is not None and reference not in seen:
            seen.add(reference)
            pending.append(_target_of(root, reference))
    return False


def _description_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the description of a schema on one line, if it has one."""
    text = schema.get("description")
    line = " ".join(text.split()) if isinstance(text, str) else ""
    return [line] if line else []


def _is_written_as_object(schema: Mapping[str, Any]) -> bool:
    """Return whether the outline of a schema has lines of members, below its description."""
    has_constants = "const" in schema or isinstance(schema.get("enum"), list)
    members = (schema.get(keyword) for keyword in ("properties", "additionalProperties"))
    has_members = any(isinstance(member, Mapping) and member for member in members)
    has_members = has_members or bool(_listed(schema, "required"))
    return "object" in _types_of(schema) and has_members and not has_constants


def _reference_of(schema: Mapping[str, Any]) -> str | None:
    """Return the reference of a schema; ``None`` if it has none."""
    found = schema.get("$ref", schema.get("$dynamicRef", schema.get("$recursiveRef")))
    return found if isinstance(found, str) else None


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the value of a keyword that is a list; empty for any other value."""
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _is_tuple(schema: Mapping[str, Any], length: int) -> bool:
    """Return whether an array has no items behind its ``prefixItems``."""
    most = schema.get("maxItems")
    is_bounded = isinstance(most, int | float) and most <= length
    return is_bounded or False in (schema.get("items"), schema.get("additionalItems"))


def _target_of(root: Any, reference: str) -> Any:
    """Return the schema that a JSON Pointer in a fragment leads to; ``True`` for other URIs."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    found = root
    for token in unquote(reference).split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return True
    return found


def _types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of a schema, or the type that its keywords are about."""
    types = schema.get("type")
    if types is not None:
        return types if isinstance(types, list) else [types]
    return [kind for kind, keywords in _KEYWORDS.items() if keywords.keys() & schema.keys()][:1]


def _qualifiers_of(schema: Mapping[str, Any], kind: object) -> str:
    """Return the bounds of a value of one type, in parentheses."""
    is_number = kind in ("integer", "number")
    found = []
    for keyword, words in _KEYWORDS.get("number" if is_number else str(kind), {}).items():
        value = schema.get(keyword)
        # A bound of 0 says nothing about a length.
        is_said = isinstance(value, str | int | float) and (value or is_number)
        if words and is_said and len(str(value)) <= _MAX_PATTERN_CHARS:
            found.append(words.format(value))
    return f" ({', '.join(found)})" if found else ""
