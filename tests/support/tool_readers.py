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
from mlx_lm.tool_parsers import qwen3_coder

__all__ = ["READERS", "SCHEMA_READERS"]


def _llama3(text: str) -> list[Call]:
    value = json.loads(text.removeprefix("<|python_tag|>"))
    assert set(value) == {"name", "parameters"}
    return [Call(value["name"], value["parameters"])]


def _json_fence(text: str) -> list[Call]:
    calls = json.loads(text.removeprefix("```tool\n").removesuffix("\n```"))
    assert all(set(call) == {"name", "arguments"} for call in calls)
    return [Call(call["name"], call["arguments"]) for call in calls]


def _deepseek(text: str, pattern: str) -> list[Call]:
    inner = text.removeprefix("<｜tool▁calls▁begin｜>").removesuffix("<｜tool▁calls▁end｜>")
    assert len(inner) == len(text) - len("<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>")
    calls = []
    for match in re.finditer(pattern, inner, re.DOTALL):
        calls.append(Call(match["name"], json.loads(match["arguments"])))
    return calls


def _deepseek_r1(text: str) -> list[Call]:
    return _deepseek(
        text,
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>(?P<name>[^\n]*)\n"
        "```json\n(?P<arguments>.*?)\n```<｜tool▁call▁end｜>",
    )


def _deepseek_v3_1(text: str) -> list[Call]:
    return _deepseek(
        text,
        "<｜tool▁call▁begin｜>(?P<name>[^<]*)<｜tool▁sep｜>(?P<arguments>.*?)<｜tool▁call▁end｜>",
    )


def _gpt_oss(text: str) -> list[Call]:
    match = re.fullmatch(
        r"(?:<\|channel\|>commentary to=functions\.(?P<name>\S+) <\|constrain\|>json"
        r"| to=functions\.(?P<header>[^<]+)<\|channel\|>commentary (?:<\|constrain\|>)?json)"
        r"<\|message\|>(?P<arguments>.*)<\|call\|>",
        text,
        re.DOTALL,
    )
    assert match is not None
    return [Call(match["name"] or match["header"], json.loads(match["arguments"]))]


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


def _granite(text: str) -> list[Call]:
    calls = json.loads(text.removeprefix("<|tool_call|>").removeprefix("<tool_call>"))
    assert all(set(call) == {"name", "arguments"} for call in calls)
    return [Call(call["name"], call["arguments"]) for call in calls]


def _cohere(text: str) -> list[Call]:
    calls = json.loads(text.removeprefix("<|START_ACTION|>").removesuffix("<|END_ACTION|>"))
    assert all(set(call) == {"tool_call_id", "tool_name", "parameters"} for call in calls)
    return [Call(call["tool_name"], call["parameters"]) for call in calls]


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


def _json_list(text: str, before: str, after: str) -> list[Call]:
    assert text.startswith(before)
    assert text.endswith(after)
    calls = json.loads(text[len(before) : len(text) - len(after)])
    assert all(set(call) == {"name", "arguments"} for call in calls)
    return [Call(call["name"], call["arguments"]) for call in calls]


def _apertus(text: str) -> list[Call]:
    inner = text.removeprefix("<|tools_prefix|>").removesuffix("<|tools_suffix|>")
    calls = json.loads(inner)
    assert all(len(call) == 1 for call in calls)
    return [Call(name, arguments) for call in calls for name, arguments in call.items()]


def _internlm(text: str) -> list[Call]:
    pattern = r"<\|action_start\|><\|plugin\|>\s*(.*?)<\|action_end\|>"
    calls = [json.loads(body) for body in re.findall(pattern, text, re.DOTALL)]
    assert all(set(call) == {"name", "parameters"} for call in calls)
    return [Call(call["name"], call["parameters"]) for call in calls]


def _gigachat(text: str) -> list[Call]:
    match = re.fullmatch(
        r"(?:<\|message_sep\|>\n\nfunction call<\|role_sep\|>\n|<\|function_call\|>)(.*)",
        text,
        re.DOTALL,
    )
    assert match is not None
    call = json.loads(match[1])
    return [Call(call["name"], call["arguments"])]


def _gigachat3_5(text: str) -> list[Call]:
    return _dsml(text.replace("｜GCML｜", "｜DSML｜"), "tool_calls")


def _hunyuan(text: str, tools: list[dict[str, Any]], sep: str) -> list[Call]:
    calls = []
    for name, body in re.findall(
        f"<tool_call>(.*?){sep}(?=\\s*<arg_key>|\\s*</tool_call>)(.*?)</tool_call>", text, re.DOTALL
    ):
        (schema,) = (
            tool["function"]["parameters"]["properties"]
            for tool in tools
            if tool["function"]["name"] == name.strip()
        )
        pairs = re.findall(
            r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", body, re.DOTALL
        )
        arguments = {}
        for key, value in pairs:
            arguments[key] = value
            kind = schema.get(key, {"type": "string"})["type"]
            if kind == ["string", "null"]:
                arguments[key] = None if value == "null" else value
            elif kind != "string":
                try:
                    arguments[key] = json.loads(value)
                except ValueError:
                    with suppress(ValueError, SyntaxError):
                        arguments[key] = ast.literal_eval(value)
        calls.append(Call(name.strip(), arguments))
    return calls


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
    "hunyuan3": partial(_hunyuan, sep="<tool_sep>"),
    "seed_oss": _seed_oss,
    "step3": _step3,
    "hunyuan4": partial(_hunyuan, sep=""),
}
"""Readers that need the types of the tools' properties."""

READERS: Mapping[str, Callable[[str], list[Call]]] = {
    "llama3": _llama3,
    "llama3_python_tag": _llama3,
    "deepseek_r1": _deepseek_r1,
    "deepseek_v3_1": _deepseek_v3_1,
    "deepseek_v3_2": lambda text: _dsml(text, "function_calls"),
    "deepseek_v4": lambda text: _dsml(text, "tool_calls"),
    "deepseek_v4_1": lambda text: _dsml(text, " calls", " "),
    "cohere": _cohere,
    "cohere_text": _cohere,
    "cohere_cofl": _cohere_cofl,
    "granite": _granite,
    "gemma3": _gemma3,
    "gpt_oss": _gpt_oss,
    "json_fence": _json_fence,
    "llama4": _llama4,
    "olmo3": _olmo3,
    "hunyuan": partial(_json_list, before="<tool_calls>", after="</tool_calls>"),
    "phi4_mini": partial(_json_list, before="functools", after=""),
    "xlam": partial(_json_list, before="", after=""),
    "apertus": _apertus,
    "internlm": _internlm,
    "gigachat3": _gigachat,
    "gigachat3_1": _gigachat,
    "gigachat3_5": _gigachat3_5,
}
