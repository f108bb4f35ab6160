"""Options of commands, encoding of replies, and the published schema."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from typing import Any

import jsonschema
import pydantic
import pytest
from bridge_clients import validator

from proxy_engine import (
    AnswerPart,
    PartOptions,
    ReasoningOptions,
    Span,
    TextDelta,
    TokenGenerated,
    TokenLogprobs,
    ToolCall,
    Usage,
)
from proxy_engine.bridge import replies
from proxy_engine.bridge.commands import (
    COMMANDS,
    EventName,
    GenerationCommand,
    parse_command,
)
from proxy_engine.bridge.protocol_schema import protocol_schema
from proxy_engine.bridge.replies import error_reply, event_reply, to_line
from proxy_engine.options.fields import OPTION_NAMES, given_options
from proxy_engine.results.events import Finished, StreamEvent
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.parts import Logprob
from state_machines.errors import MaxTokensTooSmallError, UnsupportedSchemaError


def field_names(kind: Any) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return set(kind.model_fields)


def test_commands_have_every_option() -> None:
    own = {"id", "response_format", "tools", "tool_choice", "events"}
    assert field_names(GenerationCommand) - own == set(OPTION_NAMES)


def test_every_event_can_be_requested() -> None:
    kinds = [typing.get_origin(kind) or kind for kind in typing.get_args(StreamEvent)]
    names = {kind.model_fields["type"].default for kind in kinds}
    assert set(typing.get_args(EventName)) == names - {"finished"}
    (told, *_) = typing.get_args(replies.EventReply.model_fields["event"].annotation), ()
    assert set(told) == set(kinds) - {Finished, TokenGenerated}


def test_options_are_converted_for_the_engine() -> None:
    command = parse_command(
        {
            "cmd": "generate",
            "prompt": "x",
            "max_tokens": 3,
            "top_p": 0.5,
            "seed": None,
            "stop": ["a"],
            "logit_bias": {"12": -1.0, "3": 2},
            "parts": {"text": {"top_k": 2}, "tool_call": {}},
            "reasoning": {"max_chars": 9},
        }
    )
    assert given_options(command) == {
        "max_tokens": 3,
        "top_p": 0.5,
        "stop": ("a",),
        "logit_bias": ((3, 2.0), (12, -1.0)),
        "parts": {"text": PartOptions(top_k=2), "tool_call": PartOptions()},
        "reasoning": ReasoningOptions(max_chars=9),
    }


def line_of(reply: replies.Reply) -> Any:
    line = to_line(reply)
    assert line.isascii()
    value = json.loads(line)
    validator("Reply").validate(value)
    return value


def test_infinite_log_probabilities_are_null() -> None:
    chosen = Logprob(token_id=5, before_mask=-0.5, after_mask=0.0)
    other = Logprob(token_id=6, before_mask=-1.5, after_mask=-math.inf)
    event = TokenGenerated(
        token_id=5, text="x", logprobs=TokenLogprobs(chosen, (chosen, other), (chosen,))
    )
    told = line_of(event_reply(1, event))["logprobs"]
    assert told["chosen"] == {"token_id": 5, "before_mask": -0.5, "after_mask": 0.0}
    assert [choice["after_mask"] for choice in told["top_before_mask"]] == [0.0, None]


def test_event_reply_contains_the_engines_event() -> None:
    event = TextDelta(part="text", text="hé\ud800")
    assert line_of(event_reply(None, event)) == {
        "id": None,
        "event": {"part": "text", "type": "text_delta", "text": "hé\ud800"},
    }


def test_done_reply_contains_the_result() -> None:
    value: Any = 10**400
    for _ in range(300):
        value = [value]
    result: GenerationResult[Any] = GenerationResult(
        text="x",
        parsed=value,
        finish_reason="tool_calls",
        usage=Usage(3, 2, 0.5, 0.25),
        token_ids=(1, 2),
        model="m",
        tool_calls=(ToolCall("c", "f", {"a": [1]}, raw="raw"),),
        parts=(AnswerPart("text", "x"), AnswerPart("text", "<|end|>", is_marker=True)),
        logprobs=(TokenLogprobs(Logprob(1, -1.0, -math.inf)),) * 2,
        trace=(Span("mask", 0, 0.0, 0.1),),
    )
    told = line_of(event_reply(2, Finished(result=result)))
    assert told["done"] is True
    assert told["tokens_generated"] == 2
    assert told["result"]["parsed"] == value
    assert told["result"]["tool_calls"][0]["arguments"] == {"a": [1]}
    assert told["result"]["usage"]["prompt_seconds"] == 0.5
    assert told["result"]["parts"][1]["is_marker"]


def test_error_reply_contains_the_attributes_of_the_exception() -> None:
    error = line_of(
        error_reply(
            "g",
            UnsupportedSchemaError(
                "no such thing", pointer="/properties/a", keyword="$dynamicRef", hint="Leave it."
            ),
        )
    )["error"]
    assert error["type"] == "UnsupportedSchemaError"
    assert error["message"] == "no such thing (at #/properties/a). Leave it."
    assert (error["what"], error["hint"]) == ("no such thing", "Leave it.")
    assert error["facts"]["pointer"] == "/properties/a"
    assert error["facts"]["keyword"] == "$dynamicRef"


def test_attributes_that_are_not_json_are_sent_as_their_repr() -> None:
    error = MaxTokensTooSmallError("too few", needed=math.inf, given=object())  # type: ignore[arg-type]
    facts = line_of(error_reply(None, error))["error"]["facts"]
    assert facts["needed"] == "inf"
    assert facts["given"].startswith("<object")


def test_defect_is_reported_and_its_traceback_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = line_of(error_reply(3, ZeroDivisionError("by zero")))["error"]
    assert error["type"] == "InternalError"
    assert error["message"] == "ZeroDivisionError: by zero"
    out, err = capsys.readouterr()
    assert out == ""
    assert "ZeroDivisionError" in err


def test_published_schema_is_valid_and_closed() -> None:
    schema = protocol_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    names = {model.__name__ for model in (*COMMANDS.values(), *replies.REPLIES)}
    assert names <= set(schema["$defs"])
    for name, definition in schema["$defs"].items():
        # A reference that leads nowhere raises.
        validator(name).is_valid({})
        assert definition.get("additionalProperties") is False or name in ("Command", "Reply")


def test_each_reply_has_exactly_one_discriminating_field() -> None:
    own = [set(model.model_fields) - {"id"} for model in replies.REPLIES]
    for key in ("token", "event", "done", "error", "ok"):
        assert any(key in fields for fields in own)
    for model in replies.REPLIES:
        assert issubclass(model, pydantic.BaseModel)
        kinds = {"token", "event", "done", "error", "ok"} & set(model.model_fields)
        assert len(kinds) == 1
