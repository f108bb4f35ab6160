"""Requests that cost a server far more than they cost their client.

Every kind makes as many different requests as are needed: the number of a request is part of its
schema, pattern or grammar, so that no cache answers the second one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "CONTROL",
    "KINDS",
    "HostileKind",
    "HostileRequest",
    "Manner",
    "chat_body",
    "kinds_named",
]

Manner = Literal["post", "slow headers", "slow body", "half-closed"]
"""How a client sends its request."""

MAX_TOKENS = 32


@dataclass(frozen=True)
class HostileRequest:
    """The body of a request, and the manner of its client."""

    body: bytes
    manner: Manner = "post"


@dataclass(frozen=True)
class HostileKind:
    """A kind of hostile request. ``make`` returns the request with a number."""

    name: str
    make: Callable[[int], HostileRequest]


def chat_body(prompt: str = "Hi", *, max_tokens: int = MAX_TOKENS, **fields: Any) -> bytes:
    """Return the body of a request to ``/v1/chat/completions``."""
    messages = [{"role": "user", "content": prompt}]
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **fields}
    return json.dumps(body, separators=(",", ":")).encode()


def schema_field(schema: Any) -> dict[str, Any]:
    """Return the field that constrains an answer to a schema."""
    wrapped = {"name": "answer", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": wrapped}}


def _schema(name: str, schema: Callable[[int], Any], max_tokens: int = MAX_TOKENS) -> HostileKind:
    return HostileKind(
        name,
        lambda n: HostileRequest(chat_body(max_tokens=max_tokens, **schema_field(schema(n)))),
    )


def _field(name: str, field: str, value: Callable[[int], Any]) -> HostileKind:
    return HostileKind(name, lambda n: HostileRequest(chat_body(**{field: value(n)})))


def _doubling_arrays(number: int) -> Any:
    return _doubling(
        lambda target: {
            "type": "array",
            "prefixItems": [{"$ref": target}, {"$ref": target}],
            "minItems": 2,
        },
        number,
    )


def _doubling_objects(number: int) -> Any:
    return _doubling(
        lambda target: {
            "type": "object",
            "properties": {"a": {"$ref": target}, "b": {"$ref": target}},
            "required": ["a", "b"],
        },
        number,
    )


def _doubling_all_of(number: int) -> Any:
    return _doubling(lambda target: {"allOf": [{"$ref": target}, {"$ref": target}]}, number)


def _doubling(level: Callable[[str], Any], number: int, levels: int = 40) -> Any:
    definitions = {f"d{i}": level(f"#/$defs/d{i + 1}") for i in range(levels)}
    definitions[f"d{levels}"] = {"const": number}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def _many_required(number: int) -> Any:
    names = [f"p{number}_{i}" for i in range(20_000)]
    return {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": names,
    }


def _unique_objects(number: int) -> Any:
    values = [{"name": f"n{number}", "value": i, "kind": i % 7} for i in range(50)]
    return {"type": "array", "items": {"enum": values}, "uniqueItems": True, "maxItems": 20}


def _dependent_required(number: int) -> Any:
    names = [f"m{number}_{i}" for i in range(24)]
    return {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in names},
        "dependentRequired": {
            name: [names[(i + 12) % 24], names[(i + 1) % 2]] for i, name in enumerate(names)
        },
        "additionalProperties": False,
        "minProperties": 3,
    }


def _not_required(number: int) -> Any:
    names = [f"x{number}_{i}" for i in range(30)]
    return {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "not": {"required": names},
    }


def _exotic_objects(number: int) -> Any:
    item = {
        "type": "object",
        "propertyNames": {"maxLength": 12},
        "patternProperties": {"^a": {"type": "integer"}, f"^b{number}": {"type": "boolean"}},
        "oneOf": [{"required": ["kind"]}, {"required": ["sort"]}],
    }
    return {"type": "array", "items": item, "uniqueItems": True, "minItems": 1, "maxItems": 5}


def _long_numbers(number: int) -> Any:
    return {
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "items": {
            "type": "number",
            "multipleOf": 0.0007,
            "minimum": number,
            "not": {"multipleOf": 0.0091},
            "oneOf": [{"multipleOf": 0.0013}, {"multipleOf": 0.0017}],
        },
    }


def _four_megabytes(number: int) -> Any:
    return {
        "type": "object",
        "properties": {
            f"property_{number}_{i}": {
                "type": "string",
                "maxLength": i,
                "pattern": f"^[a-z]{{2}}{i}",
            }
            for i in range(48_000)
        },
    }


def _deep_schema(number: int) -> Any:
    schema: Any = {"const": number}
    # Deeper, a JSON parser refuses the body.
    for _ in range(60):
        schema = {"type": "array", "items": schema, "minItems": 1}
    return schema


def _look_aheads(number: int) -> str:
    return "^" + "".join(f"(?=.*{chr(97 + i)}{number})" for i in range(12)) + ".*$"


def _ambiguous(number: int) -> str:
    # The first letters decide nothing: the answer has to be a dozen letters long.
    return f'root ::= s s s s s s s s s s s s "{number}."\ns ::= s s s | s s | "a" | "b"'


def _ambiguous_root(number: int) -> str:
    return f'root ::= root root root | root root | "a" | "b" | "{number}"'


def _optional_recursion(number: int) -> str:
    return f'root ::= "a" root? root? | "{number}"'


def _words_or_spaces(number: int) -> str:
    return (
        f'root ::= part{{12,400}} "{number}"\n'
        "part ::= word | space | word space | space word | word word\n"
        "word ::= [a-zA-Z]+\nspace ::= [ \\t\\n]*"
    )


def _left_recursion(number: int) -> str:
    rules = [
        f"r{i} ::= " + " | ".join([*(f'r{j} "{i}x{j}"' for j in range(60)), f'"y{number}"'])
        for i in range(60)
    ]
    return "\n".join(["root ::= r0", *rules])


def _large_grammar(number: int) -> str:
    rules = [f'r{i} ::= "a{number}" r{i + 1} | r{i + 1} "b" | [a-z]{{0,9}}' for i in range(40_000)]
    return "\n".join(["root ::= r0", *rules, 'r40000 ::= "c"'])


def _many_tools(number: int) -> HostileRequest:
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}_{i}",
                "description": "Does something.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        f"p{number}_{i}_{j}": {"type": "string", "pattern": f"^[a-f]{{{j},9}}$"}
                        for j in range(8)
                    },
                },
            },
        }
        for i in range(1_000)
    ]
    return HostileRequest(chat_body(tools=tools, tool_choice="required"))


def _stop_texts(number: int) -> HostileRequest:
    # As many and as long as the server takes, with long borders: each overlaps all others.
    texts = ["ab" * (440 + i % 32) + f"{number}-{i}" for i in range(64)]
    return HostileRequest(chat_body(stop=texts, **schema_field({"type": "string"})))


def _stop_texts_free(number: int) -> HostileRequest:
    texts = ["ab" * (440 + i % 32) + f"{number}-{i}" for i in range(64)]
    return HostileRequest(chat_body(stop=texts))


def _logit_bias(number: int) -> HostileRequest:
    bias = {str(i): (i + number) % 7 - 3 for i in range(100_000)}
    return HostileRequest(chat_body(logit_bias=bias))


def _manner(manner: Manner) -> Callable[[int], HostileRequest]:
    return lambda number: HostileRequest(
        chat_body(f"Write {number} words", max_tokens=1_000), manner
    )


CONTROL = _schema(
    "harmless",
    lambda n: {
        "type": "object",
        "properties": {f"name_{n}": {"type": "string", "maxLength": 40}},
        "required": [f"name_{n}"],
    },
)
"""Ordinary requests with new schemas: the cost of six more answers."""

KINDS: Sequence[HostileKind] = [
    CONTROL,
    _schema("40 doubling arrays", _doubling_arrays),
    _schema("40 doubling objects", _doubling_objects),
    _schema("40 doubling allOf", _doubling_all_of),
    _field("ambiguous grammar", "grammar", _ambiguous),
    _field("ambiguous root", "grammar", _ambiguous_root),
    _field("optional recursion", "grammar", _optional_recursion),
    _field("words or spaces", "grammar", _words_or_spaces),
    _field("60x60 left recursion", "grammar", _left_recursion),
    _field("40000 rules", "grammar", _large_grammar),
    _field("choice of one 4 MB text", "choice", lambda n: [f"{n}" + "abcdefgh" * (1 << 19)]),
    _field(
        "choice of 150000 texts",
        "choice",
        lambda n: [f"{n} text {i:06d} abc" for i in range(150_000)],
    ),
    _schema("20000 required", _many_required),
    _schema(
        "minItems 1000000",
        lambda n: {"type": "array", "items": {"enum": [n, "a"]}, "minItems": 1_000_000},
    ),
    _schema("50 unique objects", _unique_objects),
    _schema("unique exotic objects", _exotic_objects),
    _schema("dependentRequired", _dependent_required, max_tokens=80),
    _schema("not required 30 names", _not_required),
    _schema("several multipleOf", _long_numbers),
    _schema("60 levels deep", _deep_schema, max_tokens=160),
    _schema("schema of 4 MB", _four_megabytes),
    _field("12 look-aheads", "regex", _look_aheads),
    _field(
        "counters in counters",
        "regex",
        lambda n: f"(?:(?:a{{1,1000}}|b){{1,1000}}c){{1,{1000 + n}}}",
    ),
    _field("counter after a loop", "regex", lambda n: f"[ab]*a[ab]{{{400 + n}}}c"),
    _field("nested groups", "regex", lambda n: "(" * 2_000 + f"a{n}" + ")?" * 2_000),
    _field("pattern of 4 MB", "regex", lambda n: f"{n}" + "(?:[a-f]x|y{2,5})" * 240_000),
    HostileKind("1000 tools", _many_tools),
    HostileKind("64 stop texts", _stop_texts_free),
    HostileKind("64 stop texts with JSON", _stop_texts),
    HostileKind("logit_bias of 100000", _logit_bias),
    HostileKind("headers that never end", _manner("slow headers")),
    HostileKind("bodies that never end", _manner("slow body")),
    HostileKind("half-closed", _manner("half-closed")),
]
"""All kinds, the harmless one first."""


def kinds_named(text: str) -> list[HostileKind]:
    """Return the kinds whose name contains one of the given texts, which commas separate.

    Raises ``ValueError`` for a text that is in no name.
    """
    chosen: list[HostileKind] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = [kind for kind in KINDS if part in kind.name]
        if not found:
            raise ValueError(f"no kind of hostile request has {part!r} in its name")
        chosen += [kind for kind in found if kind not in chosen]
    return chosen
