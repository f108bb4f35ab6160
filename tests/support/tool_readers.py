"""Readers of tool calls for families that mlx-lm has no parser for, written after their templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from call_walks import Call

__all__ = ["READERS"]


def _llama3(text: str) -> list[Call]:
    value = json.loads(text.removeprefix("<|python_tag|>"))
    assert set(value) == {"name", "parameters"}
    return [Call(value["name"], value["parameters"])]


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


READERS: Mapping[str, Callable[[str], list[Call]]] = {
    "llama3": _llama3,
    "llama3_python_tag": _llama3,
    "deepseek_r1": _deepseek_r1,
    "deepseek_v3_1": _deepseek_v3_1,
    "gpt_oss": _gpt_oss,
}
