"""Calls that have a result are not repeated, if the request says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from scripted_answers import ScriptedModel

from proxy_engine import Choice, GenerationOptions, InferenceEngine, InvalidOptionError, Tool

HERMES: Any = {"tool_format": "hermes", "max_tokens": 80}
USER = {"role": "user", "content": "x"}


def roll() -> str:
    """Roll a die."""
    return "4"


def flip(on: bool) -> str:
    """Flip the switch."""
    return f"it is {on}"


def _call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@pytest.fixture(params=[_call("roll", "{}"), _call("flip", '{"on": true}')])
def stubborn(request: Any, tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    """An engine whose model always makes the same call if it can."""
    model = ScriptedModel(tiny_tokenizer, dict.fromkeys(range(40), request.param))
    with InferenceEngine(model, tiny_tokenizer) as engine:
        yield engine


def _runs(run: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for turn in run.conversation for call in turn.tool_calls]


def test_tool_loop_runs_no_call_twice(stubborn: InferenceEngine) -> None:
    run = stubborn.run_tools("x", [roll, flip], **HERMES)
    calls = list(map(str, _runs(run)))
    assert len(set(calls)) == len(calls) == run.rounds
    assert 1 <= run.rounds <= 3
    assert not run.result.tool_calls
    later = asyncio.run(stubborn.arun_tools("x", [roll, flip], **HERMES))
    assert _runs(later) == _runs(run)


@pytest.mark.parametrize("allowed", [True, ["roll", "flip"]])
def test_tool_loop_repeats_calls_that_may_be_repeated(
    stubborn: InferenceEngine, allowed: Any
) -> None:
    run = stubborn.run_tools(
        "x", [roll, flip], allow_repeated_calls=allowed, max_rounds=3, **HERMES
    )
    assert run.rounds == 3
    assert len(set(map(str, _runs(run)))) == 1


def test_only_named_tools_may_repeat_calls(stubborn: InferenceEngine) -> None:
    run = stubborn.run_tools(
        "x", [roll, flip], allow_repeated_calls=["roll"], max_rounds=4, **HERMES
    )
    flips = [arguments["on"] for name, arguments in _runs(run) if name == "flip"]
    assert len(set(flips)) == len(flips)


def test_requests_may_repeat_calls_by_default(stubborn: InferenceEngine) -> None:
    first = stubborn.generate("x", tools=[roll, flip], **HERMES)
    (call,) = first.tool_calls
    history = [USER, first.to_message(), {"role": "tool", "tool_call_id": call.id, "content": "y"}]

    def again(**options: Any) -> list[tuple[str, Any]]:
        calls = stubborn.generate(history, tools=[roll, flip], **HERMES, **options).tool_calls
        return [(each.name, each.arguments) for each in calls]

    assert again() == [(call.name, call.arguments)]
    assert (call.name, call.arguments) not in again(allow_repeated_calls=False)
    # Another question may need the same call.
    history.append(USER)
    assert again(allow_repeated_calls=False) == [(call.name, call.arguments)]


def test_engine_decides_for_its_tool_loops(tiny_tokenizer: TokenizerWrapper) -> None:
    model = ScriptedModel(tiny_tokenizer, dict.fromkeys(range(40), _call("roll", "{}")))
    options = GenerationOptions(allow_repeated_calls=True, **HERMES)
    with InferenceEngine(model, tiny_tokenizer, options=options) as engine:
        assert engine.run_tools("x", [roll], max_rounds=2).rounds == 2
        assert engine.run_tools("x", [roll], max_rounds=2, allow_repeated_calls=False).rounds == 1


def test_input_of_a_custom_tool_is_not_repeated(tiny_tokenizer: TokenizerWrapper) -> None:
    text = _call("pick", '{"input": "a"}')
    model = ScriptedModel(tiny_tokenizer, dict.fromkeys(range(40), text))
    pick = Tool.from_grammar("pick", Choice(["a", "b"]), function=str.upper)
    with InferenceEngine(model, tiny_tokenizer) as engine:
        run = engine.run_tools("x", [pick], max_rounds=5, **HERMES)
    inputs = [arguments["input"] for _, arguments in _runs(run)]
    assert inputs[0] == "a"
    assert len(set(inputs)) == len(inputs) <= 2


def test_required_call_that_is_not_left_is_an_error(tiny_engine: InferenceEngine) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
    history: list[Any] = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
    ]
    options: Any = {"tools": [roll], "allow_repeated_calls": False, **HERMES}
    for choice in ("required", "roll"):
        with pytest.raises(InvalidOptionError, match="every call that is possible") as caught:
            tiny_engine.generate(history, tool_choice=choice, **options)
        assert caught.value.option == "tool_choice"
    assert not tiny_engine.generate(history, tool_choice="auto", **options).tool_calls


@pytest.mark.parametrize("allowed", ["roll", 5, [5], {"roll": True}])
def test_wrong_values_are_refused(tiny_engine: InferenceEngine, allowed: Any) -> None:
    with pytest.raises(InvalidOptionError, match="allow_repeated_calls"):
        tiny_engine.generate("x", tools=[roll], allow_repeated_calls=allowed)


def test_unknown_names_are_refused(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(InvalidOptionError, match="Did you mean 'roll'"):
        tiny_engine.generate("x", tools=[roll], allow_repeated_calls=["rol"])
