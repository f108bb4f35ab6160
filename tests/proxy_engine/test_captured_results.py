"""Captured texts of grammars in results."""

from __future__ import annotations

import pytest
from patched_limits import patch_limits

from proxy_engine import InferenceEngine
from proxy_engine.requests.running import _captures
from state_machines import GrammarStateMachine
from state_machines.root import Structured


class _Values:
    def __init__(self, *values: tuple[Structured, str]) -> None:
        self.values = list(values)


def test_captures_of_all_parts_are_together() -> None:
    grammar = GrammarStateMachine.from_lark('start: w "!"\nw[capture]: /[a-z]+/')
    part = Structured("x", grammar=grammar)
    assert _captures(_Values((part, "ab!"))) == {"w": "ab"}  # type: ignore[arg-type]
    assert _captures(_Values((part, "ab!"), (part, "c!"))) == {"w": ["ab", "c"]}  # type: ignore[arg-type]
    assert _captures(_Values((part, "ab"))) == {}  # type: ignore[arg-type]


def test_captures_that_take_too_much_work_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = GrammarStateMachine.from_lark('start: w "!"\nw[capture]: /[a-z]+/')
    patch_limits(monkeypatch, mask_steps=100)
    part = Structured("words", grammar=grammar)
    assert _captures(_Values((part, "a" * 500 + "!"))) == {}  # type: ignore[arg-type]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "'words'" in record.getMessage()
    assert "100 steps" in record.getMessage()


def test_result_has_the_captured_text_without_its_suffix(tiny_engine: InferenceEngine) -> None:
    grammar = GrammarStateMachine.from_lark('start: w "!"\nw[capture="x", suffix=";"]: /[a-z]{3}/')
    result = tiny_engine.generate("hello", response_format=grammar, max_tokens=10)
    assert result.captures == {"x": result.text.removesuffix(";!")}
