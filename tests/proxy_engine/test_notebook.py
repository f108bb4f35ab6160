"""Streams in notebooks: what the cell shows while the answer is generated."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from proxy_engine import InferenceEngine
from proxy_engine.errors import EngineError, MissingExtraError
from proxy_engine.notebook import LiveView, ashow, show
from proxy_engine.results.events import (
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenGenerated,
    ToolCallDelta,
    ToolCallStarted,
)

SCHEMA = {"enum": ["yes", "no"]}


@pytest.fixture(autouse=True)
def _shell() -> Any:
    """IPython displays nothing in a program that is not its shell."""
    InteractiveShell.instance()
    yield
    InteractiveShell.clear_instance()


def test_view_shows_the_answer_by_part() -> None:
    view = LiveView()
    view.add(PromptProgress(processed=3, total=10))
    assert str(view) == "prompt: 3 of 10 tokens"
    view.add(TokenGenerated(token_id=1, text="x"))
    view.add(ReasoningDelta(part="reasoning", text="1 < 2"))
    view.add(ToolCallStarted(part="tool_call", index=0, id="1", name="get"))
    view.add(ToolCallDelta(part="tool_call", index=0, id="1", arguments="{}"))
    view.add(TextDelta(part="text", text="Hi"))
    html = view._repr_html_()
    assert "1 &lt; 2" in html
    assert str(view) == "1 < 2\nget {}Hi"
    assert html.count("background:rgba") == 2


def test_view_states_the_speed() -> None:
    seconds = count(1.0, 0.25)
    view = LiveView(clock=lambda: next(seconds))
    for _ in range(5):
        view.add(TokenGenerated(token_id=1, text="x"))
    assert view.tokens_per_second == 4.0
    assert view.status == "5 tokens, 4.0 a second …"


def test_shown_stream_returns_its_result(roomy_engine: InferenceEngine) -> None:
    with capture_output() as captured:
        result = show(roomy_engine.stream("Hi", response_format=SCHEMA, max_tokens=30))
    assert result.parsed in {"yes", "no"}
    assert captured.outputs
    assert "text/html" in captured.outputs[0].data


def test_shown_async_stream_returns_its_result(roomy_engine: InferenceEngine) -> None:
    async def run() -> Any:
        return await ashow(roomy_engine.astream("Hi", response_format=SCHEMA))

    with capture_output():
        assert asyncio.run(run()).parsed in {"yes", "no"}


def test_stream_that_has_ended_is_refused(roomy_engine: InferenceEngine) -> None:
    stream = roomy_engine.stream("Hi", max_tokens=2)
    stream.result()
    with capture_output(), pytest.raises(EngineError, match="no more events"):
        show(stream)


def test_missing_ipython_is_named(
    roomy_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy_engine.runtime.extras.is_installed", lambda extra: False)
    with pytest.raises(MissingExtraError, match=r"proxy-engine\[notebook\]"):
        show(roomy_engine.stream("Hi"))
