"""Readers of tool calls for families that mlx-lm has no parser for, written after their templates."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from call_walks import Call
from mlx_lm.tool_parsers import minimax_m2, qwen3_coder
from transformers.utils.chat_parsing import parse_response

from state_machines.argument_notations import JsonNotation
from state_machines.tool_calls import FORMATS

__all__ = ["READERS", "SCHEMA_READERS"]


def _dsml(text: str, section: str, space: str = "") -> list[Call]:
    """As DeepSeek's own encoding module reads it back."""
    mark = f"｜DSML｜{space}"
    match = re.fullmatch(f"<｜DSML｜{section}>\n(.*)\n</｜DSML｜{section}>", text, re.DOTALL)
    assert match is not None
    calls = []
    for call in re.finditer(
        f'<{mark}invoke name="([^"]*)">\n(.*?)\n</{mark}invoke>', match[1], re.DOTALL
    ):
        arguments = {}
        for name, is_string, value in re.findall(
            f'<{mark}parameter name="(.*?)" string="(true|false)">(.*?)</{mark}parameter>',
            call[2],
            re.DOTALL,
        ):
            arguments[name] = value if is_string == "true" else json.loads(value)
        calls.append(Call(call[1], arguments))
    return calls


def _cofl(text: str) -> tuple[dict[str, Any] | list[Any], str]:
    """Read members or items up to a text that is no element; return that text, too."""
    members: dict[str, Any] = {}
    items: list[Any] = []
    while tag := re.match(r'<cofl:value(?: name="([^"]*)")? type="(\w+)">', text):
        text = text[tag.end() :]
        if tag[2] in ("raw", "json"):
            value, _, text = text.partition("</cofl:value>")
            value = value if tag[2] == "raw" else json.loads(value)
        else:
            value, text = _cofl(text)
            value = value or ([] if tag[2] == "list" else {})
            assert isinstance(value, list if tag[2] == "list" else dict)
            assert text.startswith("</cofl:value>")
            text = text.removeprefix("</cofl:value>")
        if tag[1] is None:
            items.append(value)
        else:
            members[html.unescape(tag[1])] = value
    return members or items, text


def _cohere_cofl(text: str) -> list[Call]:
    """As Cohere's template writes it."""
    inner = text.removeprefix("<cofl:tool_calls>").removesuffix("</cofl:tool_calls>")
    calls = []
    while inner:
        head = re.match(r'<cofl:tool_call id="\d+" name="([^"]+)">', inner)
        assert head is not None
        arguments, inner = _cofl(inner[head.end() :])
        assert inner.startswith("</cofl:tool_call>")
        inner = inner.removeprefix("</cofl:tool_call>")
        calls.append(Call(head[1], dict(arguments)))
    return calls


def _python_calls(calls: list[ast.expr]) -> list[Call]:
    found = []
    for call in calls:
        assert isinstance(call, ast.Call)
        assert not call.args
        arguments = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        found.append(Call(ast.unparse(call.func), arguments))
    return found


def _gemma3(text: str) -> list[Call]:
    match = re.fullmatch(r"```tool_code\n(.*)\n```", text, re.DOTALL)
    assert match is not None
    lines = ast.parse(match[1]).body
    assert all(isinstance(line, ast.Expr) for line in lines)
    return _python_calls([line.value for line in lines if isinstance(line, ast.Expr)])


def _llama4(text: str) -> list[Call]:
    inner = text.removeprefix("<|python_start|>").removesuffix("<|python_end|>")
    calls = ast.parse(inner, mode="eval").body
    assert isinstance(calls, ast.List)
    return _python_calls(calls.elts)


def _olmo3(text: str) -> list[Call]:
    inner = text.removeprefix("<function_calls>").removesuffix("</function_calls>")
    assert len(inner) == len(text) - len("<function_calls></function_calls>")
    words = {"true": True, "false": False, "null": None}
    calls = []
    for line in inner.splitlines():
        tree = ast.parse(line, mode="eval")
        for node in ast.walk(tree):
            for name, value in ast.iter_fields(node):
                if isinstance(value, ast.Name) and value.id in words and name != "func":
                    setattr(node, name, ast.Constant(words[value.id]))
                elif isinstance(value, list):
                    value[:] = [
                        ast.Constant(words[item.id])
                        if isinstance(item, ast.Name) and item.id in words
                        else item
                        for item in value
                    ]
        calls += _python_calls([tree.body])
    return calls


def _apertus(text: str) -> list[Call]:
    inner = text.removeprefix("<|tools_prefix|>").removesuffix("<|tools_suffix|>")
    calls = json.loads(inner)
    assert all(len(call) == 1 for call in calls)
    return [Call(name, arguments) for call in calls for name, arguments in call.items()]


def _gigachat3_5(text: str) -> list[Call]:
    return _dsml(text.replace("｜GCML｜", "｜DSML｜"), "tool_calls")


def _by_template(text: str, name: str) -> list[Call]:
    """As transformers reads it by the format's response template."""
    template = FORMATS[name].to_response_template(start_anchor="assistant")
    found = parse_response(text, template, prefix="")["tool_calls"]
    return [
        Call(call["function"]["name"], call["function"]["arguments"], call.get("id"))
        for call in found
    ]


def _pairs(
    text: str,
    tools: list[dict[str, Any]],
    call: str,
    pair: str = "<arg_key>(.*?)</arg_key>\\s*<arg_value>(.*?)</arg_value>",
    reads_null: bool = False,
    unlisted: str = "string",
) -> list[Call]:
    """As parsers of vLLM and SGLang read pairs of tags: by the type in the schema."""
    calls = []
    for name, body in re.findall(call, text, re.DOTALL):
        (schema,) = (
            tool["function"]["parameters"]["properties"]
            for tool in tools
            if tool["function"]["name"] == name.strip()
        )
        arguments = {}
        for key, value in re.findall(pair, body, re.DOTALL):
            arguments[key] = value
            kind = schema.get(key, {"type": unlisted})["type"]
            if reads_null and value.lower() == "null":
                arguments[key] = None
            elif kind == ["string", "null"]:
                arguments[key] = None if value == "null" else value
            elif kind != "string":
                try:
                    arguments[key] = json.loads(value)
                except ValueError:
                    with suppress(ValueError, SyntaxError):
                        arguments[key] = ast.literal_eval(value)
        calls.append(Call(name.strip(), arguments))
    return calls


_GLM_CALL = "<tool_call>(.*?){sep}(?=\\s*<arg_key>|\\s*</tool_call>)(.*?)</tool_call>"
_SPARK_CALL = _GLM_CALL.replace("{sep}", "")
_IFM = (
    "<ifm.tool_call>(.*?)\n(.*?)</ifm.tool_call>",
    "<ifm.arg_key>(.*?)</ifm.arg_key>\n<ifm.arg_value>(.*?)</ifm.arg_value>",
)


def _ifm_typed(text: str) -> list[Call]:
    calls = []
    for name, body in re.findall(_IFM[0], text, re.DOTALL):
        pattern = (
            "<ifm.arg_key>(.*?)</ifm.arg_key>\n<ifm.arg_type>(.*?)</ifm.arg_type>\n"
            "<ifm.arg_value>(.*?)</ifm.arg_value>\n"
        )
        found = re.findall(pattern, body, re.DOTALL)
        values = {k: v if kind == "string" else json.loads(v) for k, kind, v in found}
        calls.append(Call(name, values))
    return calls


_MIMO = ("<function=(.*?)>\n(.*?)</function>", "<parameter=(.*?)>(.*?)</parameter>")
_SOLAR = (
    r"<\|tool_call:start\|>(.*?)\n(.*?)<\|tool_call:end\|>",
    r"<\|tool_arg:start\|>(.*?)<\|tool_arg:value\|>(.*?)<\|tool_arg:end\|>",
)


def _dots(text: str, tools: list[dict[str, Any]]) -> list[Call]:
    """As mlx-lm reads the same tags of MiniMax M2."""
    (body,) = re.findall("<dots_function_call>(.*)</dots_function_call>", text, re.DOTALL)
    found = minimax_m2.parse_tool_call(body, tools)
    found = found if isinstance(found, list) else [found]
    return [Call(call["name"], call["arguments"]) for call in found]


def _seed_oss(text: str, tools: list[dict[str, Any]]) -> list[Call]:
    """As vLLM reads it: calls of Qwen3-Coder between other markers."""
    bodies = re.findall("<seed:tool_call>(.*?)</seed:tool_call>", text, re.DOTALL)
    calls = [qwen3_coder.parse_tool_call(body, tools) for body in bodies]
    return [Call(call["name"], call["arguments"]) for call in calls]


def _step3(text: str, tools: list[dict[str, Any]]) -> list[Call]:
    types = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    match = re.fullmatch("<｜tool_calls_begin｜>\n(.*)\n<｜tool_calls_end｜>", text, re.DOTALL)
    assert match is not None
    calls = []
    for call in re.finditer(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="([^"]+)">\n(.*?)'
        "</steptml:invoke><｜tool_call_end｜>",
        match[1],
        re.DOTALL,
    ):
        arguments = {}
        for name, value in re.findall(
            '<steptml:parameter name="([^"]+)">(.*?)</steptml:parameter>', call[2], re.DOTALL
        ):
            is_string = types[call[1]]["properties"].get(name, {}).get("type", "string") == "string"
            arguments[name] = value.strip() if is_string else json.loads(value)
        calls.append(Call(call[1], arguments))
    return calls


SCHEMA_READERS: Mapping[str, Callable[[str, list[dict[str, Any]]], list[Call]]] = {
    "hunyuan3": partial(_pairs, call=_GLM_CALL.replace("{sep}", "<tool_sep>")),
    "hunyuan4": partial(_pairs, call=_SPARK_CALL),
    "seed_oss": _seed_oss,
    "step3": _step3,
    "k2_horizon": partial(_pairs, call=_IFM[0], pair=_IFM[1]),
    "iquest_q1": partial(
        _pairs, call=_SPARK_CALL.replace("tool_call>", "iquest_tool_call>"), unlisted="object"
    ),
    "spark2_5": partial(_pairs, call=_SPARK_CALL, reads_null=True),
    "mimo": partial(_pairs, call=_MIMO[0], pair=_MIMO[1], reads_null=True),
    "solar_open2": partial(_pairs, call=_SOLAR[0], pair=_SOLAR[1]),
    "dots": _dots,
}
"""Readers that need the types of the tools' properties."""

READERS: Mapping[str, Callable[[str], list[Call]]] = {
    **{
        name: partial(_by_template, name=name)
        for name, entry in FORMATS.items()
        if isinstance(entry.notation, JsonNotation) and name != "apertus"
    },
    "k2_horizon_typed": _ifm_typed,
    "deepseek_v3_2": lambda text: _dsml(text, "function_calls"),
    "deepseek_v4": lambda text: _dsml(text, "tool_calls"),
    "deepseek_v4_1": lambda text: _dsml(text, " calls", " "),
    "cohere_cofl": _cohere_cofl,
    "gemma3": _gemma3,
    "llama4": _llama4,
    "olmo3": _olmo3,
    "apertus": _apertus,
    "gigachat3_5": _gigachat3_5,
}
