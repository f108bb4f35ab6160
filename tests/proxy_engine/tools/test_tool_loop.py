"""The loop of answers and tools, with answers that are written beforehand."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pydantic
import pytest

from proxy_engine import (
    CutShort,
    FileContent,
    ImageContent,
    Interaction,
    InvalidOptionError,
    InvalidToolError,
    MediaError,
    PromptError,
    TextContent,
    Tool,
    ToolCall,
    ToolChoice,
)
from proxy_engine.conversation.prompts import template_messages
from proxy_engine.tools.tool_loop import ToolLoop, ToolRun


@dataclass
class Answered:
    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    finish_reason: str = "stop"
    cut_short: CutShort | None = None

    def to_interaction(self) -> Interaction:
        return Interaction(
            "assistant",
            self.text or (),
            tool_calls=self.tool_calls,
            reasoning=self.reasoning or None,
        )


@dataclass
class Script:
    """Gives answers that are written beforehand, and remembers what it was asked."""

    answers: list[Answered]
    asked: list[tuple[list[dict[str, Any]], ToolChoice]] = field(default_factory=list)

    def __call__(self, conversation: Sequence[Interaction], choice: ToolChoice) -> Answered:
        self.asked.append((template_messages(conversation).messages, choice))
        return self.answers[len(self.asked) - 1]

    async def later(self, conversation: Sequence[Interaction], choice: ToolChoice) -> Answered:
        return self(conversation, choice)


class Weather(pydantic.BaseModel):
    sky: str
    day: date


def weather(city: str) -> Weather:
    if city == "Atlantis":
        raise LookupError("sunk")
    return Weather(sky="clear", day=date(2026, 1, 2))


async def add(x: int, y: int = 0) -> int:
    return x + y


def call(name: str, **arguments: Any) -> Answered:
    return Answered(tool_calls=[ToolCall("call00001", name, arguments)], finish_reason="tool_calls")


def run(script: Script, *given: Any, is_async: bool, **more: Any) -> ToolRun[Any]:
    loop: ToolLoop[Any] = ToolLoop(*given, **more)
    return asyncio.run(loop.arun(script.later)) if is_async else loop.run(script)


both = pytest.mark.parametrize("is_async", [False, True])


@both
def test_repeated_calls_of_an_answer_are_run(is_async: bool) -> None:
    """Whether an answer may repeat a call is an option of the request."""
    runs: list[int] = []

    def roll() -> int:
        runs.append(len(runs))
        return len(runs)

    script = Script([call("roll"), call("roll"), Answered("Done.")])
    done = run(script, "Roll twice.", [roll], is_async=is_async)
    results = [turn.text for turn in done.conversation if turn.role.value == "tool"]
    assert (results, runs) == (["1", "2"], [0, 1])


@both
def test_calls_are_run_until_there_is_an_answer(is_async: bool) -> None:
    script = Script(
        [
            Answered(
                "Let me see.",
                [ToolCall("1", "weather", {"city": "Bonn"}), ToolCall("2", "add", {"x": 1})],
                reasoning="hm",
            ),
            call("add", x=1, y=2),
            Answered("Clear."),
        ]
    )
    turns: list[Interaction] = []
    done = run(script, "How?", [weather, add], is_async=is_async, on_turn=turns.append)
    assert done.result.text == "Clear."
    assert (done.rounds, done.pending) == (2, ())
    assert [turn.role.value for turn in done.conversation] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "assistant"),
    ]
    assert list(done.conversation[1:]) == turns
    asked, _ = script.asked[1]
    assert asked[1]["content"] == "Let me see."
    assert asked[1]["reasoning_content"] == "hm"
    assert json.loads(asked[2]["content"]) == {"sky": "clear", "day": "2026-01-02"}
    assert asked[2]["tool_call_id"] == "1"
    assert asked[2]["name"] == "weather"
    assert asked[3]["content"] == "1"
    assert [choice.mode for _, choice in script.asked] == ["auto"] * 3
    assert [Interaction.from_dict(turn.to_dict()) for turn in turns] == turns


@both
@pytest.mark.parametrize(
    ("called", "said"),
    [
        (call("weather", city="Atlantis"), "LookupError: sunk"),
        (call("weather", town="Bonn"), "town"),
        (call("wether", city="Bonn"), "no tool 'wether'"),
        (call("circular"), "ValueError"),
    ],
)
def test_errors_are_given_to_the_model(is_async: bool, called: Answered, said: str) -> None:
    def circular() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    script = Script([called, Answered("Sorry.")])
    done = run(script, "How?", [weather, circular], is_async=is_async)
    result = done.conversation[2]
    assert said in json.loads(result.text)["error"]
    assert result.metadata == {"is_error": True}
    assert done.result.text == "Sorry."


@both
def test_last_round_forbids_tool_calls(is_async: bool) -> None:
    script = Script([call("add", x=1), call("add", x=2), Answered("3")])
    done = run(script, "?", [add], is_async=is_async, tool_choice="add", max_rounds=2)
    assert [choice.mode for _, choice in script.asked] == ["named", "auto", "none"]
    assert done.rounds == 2
    assert done.conversation[-1].text == "3"


@both
def test_tools_without_a_function_are_left_to_the_caller(is_async: bool) -> None:
    own = ToolCall("1", "own", {})
    script = Script([Answered("", [own, ToolCall("2", "add", {"x": 1})])])
    done = run(script, "?", [Tool("own"), add], is_async=is_async)
    assert done.pending == (own,)
    assert [turn.role.value for turn in done.conversation] == ["user", "assistant", "tool"]
    assert done.conversation[-1].tool_call_id == "2"
    more = [*done.conversation, Interaction.tool_result(own, "done")]
    assert [message["content"] for message in template_messages(more).messages][2:] == ["done", "1"]


@both
def test_cancelled_answer_runs_no_tools(is_async: bool) -> None:
    cancelled = call("add", x=1)
    cancelled.finish_reason = "cancelled"
    done = run(Script([cancelled]), "?", [add], is_async=is_async)
    assert len(done.conversation) == 2
    assert [pending.name for pending in done.pending] == ["add"]


@both
@pytest.mark.parametrize(
    ("pointer", "complete"),
    [("/tool_calls/1/arguments/x", 1), ("/tool_calls/0", 0), ("/tool_calls/1/name", 1), ("", 0)],
)
def test_call_that_a_limit_cut_short_is_not_run(
    is_async: bool, pointer: str, complete: int
) -> None:
    runs: list[int] = []

    def pay(x: int) -> str:
        runs.append(x)
        return "paid"

    calls = [ToolCall(str(x), "own" if x == 2 else "pay", {"x": x}) for x in range(3)]
    cut = Answered("", calls, finish_reason="length", cut_short=CutShort(pointer, "max_tokens"))
    # The same call is the model's own later.
    script = Script([cut, call("pay", x=1), Answered("Done.")])
    done = run(script, "?", [pay, Tool("own")], is_async=is_async)
    assert runs == [*range(complete), 1]
    results = [turn for turn in done.conversation if turn.role.value == "tool"]
    assert [turn.metadata.get("is_error", False) for turn in results] == [
        *[False] * complete, *[True] * (3 - complete), False
    ]  # fmt: skip
    assert "cut short" in json.loads(results[complete].text)["error"]
    assert (done.result.text, done.pending) == ("Done.", ())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, "null"),
        ({"a": (1, {"ä"})}, '{"a": [1, ["ä"]]}'),
        (TextContent("t"), "t"),
        (b"x", '"x"'),
        (slice(1), '"slice(None, 1, None)"'),
        ({"a": math.nan, "b": [-math.inf]}, '{"a": "NaN", "b": ["-Infinity"]}'),
    ],
)
def test_tool_results_become_messages(value: Any, text: str) -> None:
    def give() -> Any:
        return value

    done = run(Script([call("give"), Answered("ok")]), "?", [give], is_async=False)
    assert done.conversation[2].text == text


PICTURE = ImageContent(url="data:image/png;base64,AA==")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("half a character: \ud800", "surrogate"),
        (PICTURE, "cannot read image content"),
        (FileContent(data=b"\0", media_type="application/zip"), "cannot read file content"),
    ],
)
def test_results_that_the_model_cannot_read_are_errors(value: Any, said: str) -> None:
    def give() -> Any:
        return value

    script = Script([call("give"), Answered("ok")])
    done = run(script, "?", [give], is_async=False, media=["text"])
    assert done.conversation[2].metadata == {"is_error": True}
    assert said in done.conversation[2].text


def test_picture_of_a_tool_is_content_for_a_model_that_reads_it() -> None:
    def give() -> Any:
        return PICTURE

    answers = iter([call("give"), Answered("ok")])
    loop: ToolLoop[Any] = ToolLoop("?", [give])
    done = loop.run(lambda *_: next(answers))
    assert done.conversation[2].content == (PICTURE,)


@both
def test_damaged_picture_of_a_tool_is_an_error_for_the_model(is_async: bool) -> None:
    class Reading(Script):
        def __call__(self, conversation: Sequence[Interaction], choice: ToolChoice) -> Answered:
            if any(PICTURE in turn.content for turn in conversation):
                raise MediaError("the image is damaged")
            return super().__call__(conversation, choice)

    def look() -> Any:
        return PICTURE

    calls = [ToolCall("a", "add", {"x": 1}), ToolCall("b", "look", {})]
    script = Reading([Answered(tool_calls=calls), Answered("ok")])
    done = run(script, "?", [look, add], is_async=is_async)
    assert [turn.text for turn in done.conversation[2:4]] == [
        "1",
        '{"error": "MediaError: the image is damaged"}',
    ]
    assert done.conversation[3].metadata == {"is_error": True}
    with pytest.raises(MediaError):
        run(Reading([]), [Interaction("user", [PICTURE])], [look], is_async=is_async)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"max_rounds": 0}, InvalidOptionError),
        ({"max_rounds": True}, InvalidOptionError),
        ({"on_turn": 5}, InvalidOptionError),
        ({"tools": 5}, InvalidToolError),
        ({"tool_choice": "sub"}, InvalidOptionError),
        ({"tools": [add, add]}, InvalidToolError),
        ({"prompt": {"role": "user"}}, PromptError),
        ({"prompt": [{"role": "user", "more": 1}]}, PromptError),
    ],
)
def test_invalid_input_raises_before_the_first_answer(
    given: dict[str, Any], error: type[Exception]
) -> None:
    script = Script([])
    with pytest.raises(error):
        run(script, **({"prompt": "?", "tools": [add]} | given), is_async=False)
    assert script.asked == []
