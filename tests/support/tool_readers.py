"""Readers of tool calls for families that mlx-lm has no parser for, written after their templates."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping

from call_walks import Call

__all__ = ["READERS"]


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
        r"<\|channel\|>commentary to=functions\.(?P<name>\S+) "
        r"<\|constrain\|>json<\|message\|>(?P<arguments>.*)<\|call\|>",
        text,
        re.DOTALL,
    )
    assert match is not None
    return [Call(match["name"], json.loads(match["arguments"]))]


def _deepseek_v3_2(text: str) -> list[Call]:
    """As DeepSeek's own encoding module reads it back."""
    mark = "｜DSML｜"
    match = re.fullmatch(f"<{mark}function_calls>\n(.*)\n</{mark}function_calls>", text, re.DOTALL)
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


READERS: Mapping[str, Callable[[str], list[Call]]] = {
    "llama3": _llama3,
    "llama3_python_tag": _llama3,
    "deepseek_r1": _deepseek_r1,
    "deepseek_v3_1": _deepseek_v3_1,
    "deepseek_v3_2": _deepseek_v3_2,
    "gemma3": _gemma3,
    "gpt_oss": _gpt_oss,
    "json_fence": _json_fence,
    "llama4": _llama4,
}
