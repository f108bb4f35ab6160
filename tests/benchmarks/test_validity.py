"""The judges of the validity matrix, and a small part of it."""

from __future__ import annotations

import pytest

pytest.importorskip("lark")

import validity
from validity_cases import CASES

from proxy_engine import GenerationResult, ToolCall, Usage
from proxy_engine.results.parts import AnswerPart

USAGE = Usage(1, 1, 0.0, 0.0)


def result(text: str, *calls: ToolCall) -> GenerationResult[None]:
    return GenerationResult(
        text, None, "stop", USAGE, (), "", tool_calls=calls, parts=(AnswerPart("text", text),)
    )


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("text", ["", "{", "<think>x</think>", '{"name": NaN}'])
def test_judges_find_wrong_answers(kind: str, text: str) -> None:
    assert all(case.judge(result(text)) for case in CASES[kind])


def test_judges_accept_right_answers() -> None:
    clock = result("00:59")
    assert CASES["regex"][2].judge(clock) == ""
    assert CASES["Lark"][0].judge(result("(1+2)*30")) == ""
    number = result("12")
    assert CASES["schema"][3].judge(number) == ""
    call = ToolCall("1", "weather", {"city": "Oslo", "days": 2})
    assert CASES["tools"][0].judge(result("", call)) == ""
    late = ToolCall("1", "weather", {"city": "Oslo", "days": 20})
    assert CASES["tools"][0].judge(result("", late))


@pytest.mark.model
def test_answers_of_a_random_model_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "AT_ONCE", (1, 2))
    drafts = {name: validity.SPECULATION[name] for name in ("none", "copy")}
    monkeypatch.setattr(validity, "SPECULATION", drafts)
    figures = list(validity.measure(2, ["regex"]))
    assert all(figure["valid"] == figure["answers"] for figure in figures)
    assert sum(figure.get("equal", 0) for figure in figures) == 12
    assert validity.rows_of(figures)[1][:3] == ["regex", "none", "6 / 6"]
