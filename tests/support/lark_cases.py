"""The Lark grammars of llguidance's own tests, with the texts that each accepts and rejects.

The tests are written in Rust. :func:`lark_cases` reads the calls of their helpers:

=============================  =====================================================================
``lark_ok``                    the grammar compiles
``lark_err_test``              the grammar is refused
``lark_str_test``, ``…_many``  texts that are accepted, or rejected within the text; with
                               ``FINAL_REJECT:`` the text begins an accepted one
``check_lark_grammar``         a trace of tokens that are allowed (``a‧b``) and forbidden (``✖c``)
=============================  =====================================================================

Calls whose arguments are computed are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["LarkCase", "lark_cases"]

FILES = ("test_lark.rs", "test_ll.rs", "test_raw_parser.rs")

Expectation = Literal["accepts", "rejects", "begins", "compiles", "refused"]

_HELPERS = re.compile(
    r"\b(lark_ok|lark_err_test|lark_str_test|lark_str_test_many|lark_str_test_many_quiet"
    r"|check_lark_grammar)\("
)
_FUNCTION = re.compile(r"^fn (\w+)\(", re.MULTILINE)
_RAW = re.compile(r'r(#*)"(.*?)"\1', re.DOTALL)
_PLAIN = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NAMED = re.compile(r"(?:let|const) (\w+)(?:: &str)? =\s*(?=r?#*\")")
_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_COMMENTED = re.compile(r"^\s*//.*$", re.MULTILINE)
_STEP = re.compile(r"([‧✖]?)([^‧✖]*)")
_END = "≺EOS≻"


@dataclass(frozen=True)
class LarkCase:
    """One expectation of a test.

    Attributes:
        name: File, function, number of the call in it, and number of the text.
        grammar: The grammar.
        text: The text; empty for ``compiles`` and ``refused``.
        expected: What llguidance does.
    """

    name: str
    grammar: str
    text: str
    expected: Expectation


def lark_cases(directory: Path) -> Iterator[LarkCase]:
    """Yield the cases of the test files in a directory, in their order."""
    for name in FILES:
        source = _COMMENTED.sub("", (directory / name).read_text(encoding="utf-8"))
        functions = [*_FUNCTION.finditer(source)]
        for index, function in enumerate(functions):
            end = functions[index + 1].start() if index + 1 < len(functions) else len(source)
            body = source[function.start() : end]
            constants = _names(source[: function.start()], constants=True)
            for number, call in enumerate(_HELPERS.finditer(body)):
                known = constants | _names(body[: call.start()])
                arguments = _arguments(body, call.end(), known)
                prefix = f"{name.removesuffix('.rs')}/{function[1]}/{number}"
                yield from _cases(prefix, call[1], arguments)


def _cases(prefix: str, helper: str, arguments: list[object]) -> Iterator[LarkCase]:
    match helper, arguments:
        case "lark_ok", [str(grammar)]:
            yield LarkCase(prefix, grammar, "", "compiles")
        case "lark_err_test", [str(grammar), str(_)]:
            yield LarkCase(prefix, grammar, "", "refused")
        case "lark_str_test", [str(grammar), bool(accepted), str(text), bool(_)]:
            yield _text_case(prefix, grammar, text, accepted=accepted)
        case "lark_str_test_many" | "lark_str_test_many_quiet", [str(grammar), list(a), list(b)]:
            for index, text in enumerate([*a, *b]):
                yield _text_case(f"{prefix}/{index}", grammar, text, accepted=index < len(a))
        case "check_lark_grammar", [str(grammar), list(trace)]:
            yield from _trace_cases(prefix, grammar, trace)


def _text_case(name: str, grammar: str, text: str, *, accepted: bool) -> LarkCase:
    final = text.removeprefix("FINAL_REJECT:")
    if final != text:
        return LarkCase(name, grammar, final, "begins")
    return LarkCase(name, grammar, text, "accepts" if accepted else "rejects")


def _trace_cases(prefix: str, grammar: str, trace: list[str]) -> Iterator[LarkCase]:
    text, ended = "", False
    index = 0
    if "↶" in "".join(trace):
        return  # Tokens are taken back.
    for part in trace:
        for mark, token in _STEP.findall(part):
            if token == _END:
                ended = mark != "✖"
                kind: Expectation = "accepts" if ended else "begins"
                yield LarkCase(f"{prefix}/{index}", grammar, text, kind)
                index += 1
            elif mark == "✖":
                yield LarkCase(f"{prefix}/{index}", grammar, text + token, "rejects")
                index += 1
            else:
                text += token
    if not ended:
        yield LarkCase(f"{prefix}/{index}", grammar, text, "accepts")


def _names(source: str, *, constants: bool = False) -> dict[str, str]:
    """Return the texts that variables or constants of a source are bound to."""
    found: dict[str, str] = {}
    for name in _NAMED.finditer(source):
        value = _string(source, name.end())
        if value is not None and (name[0].startswith("const") or not constants):
            found[name[1]] = value[0]
    return found


def _arguments(source: str, position: int, known: dict[str, str]) -> list[object]:
    """Return the arguments of a call after its bracket; ``None`` for what is no literal."""
    found: list[object] = []
    while True:
        position = _after_space(source, position)
        if source[position] in ")]":
            return found
        value, position = _value(source, position, known)
        position = _after_space(source, position)
        if source[position] not in ",)]":
            return [*found, None]
        found.append(value)
        position += source[position] == ","


def _value(source: str, position: int, known: dict[str, str]) -> tuple[object, int]:
    text = _string(source, position)
    if text is not None:
        return text
    if source.startswith("&[", position):
        found, position = [], position + 2
        while True:
            position = _after_space(source, position)
            if source[position] == "]":
                return found, position + 1
            value, position = _value(source, position, known)
            if not isinstance(value, str):
                return None, position
            found.append(value)
            position = _after_space(source, position)
            position += source[position] == ","
    word = re.compile(r"&?(\w+)").match(source, position)
    if word is None:
        return None, position
    named = {"true": True, "false": False}
    return named.get(word[1], known.get(word[1])), word.end()


def _string(source: str, position: int) -> tuple[str, int] | None:
    raw = _RAW.match(source, position)
    if raw is not None:
        return raw[2], raw.end()
    plain = _PLAIN.match(source, position)
    if plain is None:
        return None
    text = re.sub(r"\\\n\s*", "", plain[1])
    text = re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", text)
    decoded = re.sub(
        r"\\(x[0-9a-fA-F]{2}|U[0-9a-f]{8}|.)", lambda m: _escaped(m[1]), text, flags=re.DOTALL
    )
    return decoded, plain.end()


def _escaped(escape: str) -> str:
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    controls = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
    return controls.get(escape, escape)


def _after_space(source: str, position: int) -> int:
    found = _SPACE.match(source, position)
    assert found is not None, "the pattern matches the empty text"
    return found.end()
