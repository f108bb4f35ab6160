"""The notations beside the parsers that mlx-lm has for their families, and their templates."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from state_machines.argument_notations import (
    JSON,
    PYTHONIC,
    PYTHONIC_JSON,
    Notation,
    TaggedNotation,
)
from state_machines.argument_notations.cofl import COFL
from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4
from state_machines.argument_notations.tag_styles import (
    DSML,
    DSML_V4,
    DSML_V4_1,
    GLM,
    GLM_COMPACT,
    LONGCAT,
    MINICPM,
    MINIMAX,
    QWEN_CODER,
    SEED,
    STEPTML,
    XTML,
)

__all__ = ["FAMILIES", "VERBATIM", "Family", "is_same", "names_in"]


@dataclass(frozen=True)
class Family:
    """A notation, mlx-lm's parser of calls, what stands around arguments, and the template."""

    notation: Notation
    parser: str | None
    around: str
    template: Callable[[dict[str, Any]], Iterator[str]]
    parses_no_arguments: bool = True

    def parsed(self, text: str, parameters: Mapping[str, Any]) -> Any:
        """Return what mlx-lm reads in arguments, or a text that stands for its error."""
        assert self.parser is not None
        module = importlib.import_module(f"mlx_lm.tool_parsers.{self.parser}")
        tools = [{"type": "function", "function": {"name": "tool", "parameters": parameters}}]
        try:
            call = module.parse_tool_call(self.around.replace("ARGUMENTS", text), tools)
        except Exception as error:
            return repr(error)
        call = call[0] if isinstance(call, list) else call
        return call["arguments"] if isinstance(call, dict) and call["name"] == "tool" else call


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; a Boolean is no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _raw(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _by_jinja(value: Any) -> str:
    return _json(value) if isinstance(value, list | dict) else str(value)


def _tags(
    notation: TaggedNotation, *writers: Callable[[Any], str]
) -> Callable[[dict[str, Any]], Iterator[str]]:
    def texts(value: dict[str, Any]) -> Iterator[str]:
        for chosen in product((*writers, _json), repeat=len(value)):
            yield notation.between.join(
                f"{notation.before_name}{name}{notation.after_name}{write(item)}{notation.after_value}"
                for write, (name, item) in zip(chosen, value.items(), strict=True)
            )

    return texts


def _typed(notation: TaggedNotation) -> Callable[[Any], str]:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}

    def written(value: Any) -> str:
        kind = "null" if value is None else kinds.get(type(value), "object")
        return notation.kinds[kind] + _raw(value)

    return written


def _with_kinds(notation: TaggedNotation) -> Callable[[dict[str, Any]], Iterator[str]]:
    write = _typed(notation)

    def texts(value: dict[str, Any]) -> Iterator[str]:
        yield notation.between.join(
            f"{notation.before_name}{name}{notation.after_name}{write(item)}{notation.after_value}"
            for name, item in value.items()
        )

    return texts


def _python(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(k)}: {_python(v)}" for k, v in value.items()) + "}"
    return _json(value) if isinstance(value, str) else repr(value)


def _keywords(*writers: Callable[[Any], str]) -> Callable[[dict[str, Any]], Iterator[str]]:
    def texts(value: dict[str, Any]) -> Iterator[str]:
        for chosen in product(writers, repeat=len(value)):
            pairs = zip(chosen, value.items(), strict=True)
            yield ", ".join(f"{name}={write(item)}" for write, (name, item) in pairs)

    return texts


def _marked(value: Any, marker: str) -> str:
    if isinstance(value, list):
        return f"[{','.join(_marked(item, marker) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_marked(v, marker)}" for k, v in value.items()) + "}"
    return f"{marker}{value}{marker}" if isinstance(value, str) else _json(value)


_XML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def _cofl(value: Any, name: str | None = None) -> str:
    kinds: dict[type, tuple[str, Callable[[Any], str]]] = {
        str: ("raw", str),
        dict: ("dict", lambda members: "".join(_cofl(v, k) for k, v in members.items())),
        list: ("list", lambda items: "".join(map(_cofl, items))),
    }
    kind, write = kinds.get(type(value), ("json", _json))
    escaped = "" if name is None else name.translate(_XML_ESCAPES)
    attribute = "" if name is None else f' name="{escaped}"'
    return f'<cofl:value{attribute} type="{kind}">{write(value)}</cofl:value>'


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of all members of a value."""
    if isinstance(value, list):
        for item in value:
            yield from names_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from names_in(item)


VERBATIM = (MINIMAX, MINICPM, GLM, GLM_COMPACT, LONGCAT, STEPTML)

FAMILIES = [
    Family(JSON, None, "ARGUMENTS", lambda value: iter([_json(value), json.dumps(value)])),
    Family(QWEN_CODER, "qwen3_coder", "<function=tool>\nARGUMENTS</function>", _tags(QWEN_CODER, _by_jinja)),
    Family(MINIMAX.trimmed, "minimax_m2", '<invoke name="tool">\nARGUMENTS</invoke>', _tags(MINIMAX, _raw)),
    Family(MINICPM.trimmed, "minicpm5", '<function name="tool">ARGUMENTS</function>', _tags(MINICPM, _raw)),
    Family(GLM.trimmed, "glm47", "tool\nARGUMENTS", _tags(GLM, _raw)),
    Family(GLM_COMPACT.trimmed, "glm47", "toolARGUMENTS", _tags(GLM_COMPACT, _raw)),
    Family(LONGCAT.trimmed, "longcat", "tool\nARGUMENTS", _tags(LONGCAT, _raw), parses_no_arguments=False),
    # mlx-lm's parsers strip the values of these.
    *(Family(n, None, "ARGUMENTS", _tags(n, _raw)) for n in VERBATIM),
    Family(PYTHONIC, "pythonic", "[tool(ARGUMENTS)]", _keywords(_python)),
    Family(PYTHONIC_JSON, "pythonic", "[tool(ARGUMENTS)]", _keywords(_python, _json)),
    Family(GEMMA4, "gemma4", "call:toolARGUMENTS", lambda value: iter([_marked(value, '<|"|>')])),
    Family(FUNCTION_GEMMA, "function_gemma", "call:toolARGUMENTS", lambda value: iter([_marked(value, "<escape>")])),
    *(Family(n, None, "ARGUMENTS", _with_kinds(n)) for n in (DSML, DSML_V4, DSML_V4_1)),
    Family(
        XTML,
        "kimi_k3",
        '<|open|>call tool="tool" index="1"<|sep|>ARGUMENTS<|close|>call<|sep|>',
        _with_kinds(XTML),
    ),
    Family(SEED, "qwen3_coder", "<function=tool>\nARGUMENTS</function>", _tags(SEED, _by_jinja)),
    Family(COFL, None, "ARGUMENTS", lambda value: iter(["".join(_cofl(v, k) for k, v in value.items())])),
]  # fmt: skip
