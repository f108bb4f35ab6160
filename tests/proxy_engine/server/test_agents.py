"""Requests in the shape of coding agents, and tools that cannot be read."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Generator, Iterator
from typing import Any

import httpx
import pytest
from live_server import Live, serving_engine
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from PIL import Image

from proxy_engine import InferenceEngine
from proxy_engine.server.unknown_fields import HEADER, TOOLS_HEADER


class Recording(InferenceEngine):
    """Remembers the arguments of the last request, and waits before each stream's events."""

    prompt: Any = None
    asked: Any = None
    seconds = 0.0

    async def astream(self, prompt: Any, **asked: Any) -> Any:  # type: ignore[override]
        """Return the stream."""
        stream = await super().astream(prompt, **asked)
        self.prompt, self.asked = prompt, asked
        return _Late(stream, self.seconds) if self.seconds else stream


class _Late:
    def __init__(self, stream: Any, seconds: float) -> None:
        self._stream, self._seconds = stream, seconds
        self.cancel, self.aclose = stream.cancel, stream.aclose

    def __await__(self) -> Generator[Any, None, _Late]:
        yield from self._stream.__await__()
        return self

    def __aiter__(self) -> _Late:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(self._seconds)
        return await anext(self._stream)


@pytest.fixture(scope="module")
def engine(roomy_model: llama.Model, tiny_tokenizer: TokenizerWrapper) -> Recording:
    return Recording(roomy_model, tiny_tokenizer)


@pytest.fixture(scope="module")
def agents(engine: Recording) -> Iterator[Live]:
    with serving_engine(engine, aliases=("*",)) as live:
        yield live


def function(name: str, **properties: Any) -> dict[str, Any]:
    """A function as responses have it."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "strict": False, "parameters": schema}


COUNT = function("count", n={"enum": [1, 2]})
CLOSE = function("close", target={"enum": ["a", "b"]})
CREW = {"type": "namespace", "name": "crew", "description": "Helpers.", "tools": [CLOSE]}
SHOP = {"type": "namespace", "name": "shop", "description": "A shop.", "tools": [CLOSE]}
HOSTED = [
    {"type": kind}
    for kind in (
        *("web_search", "web_search_preview", "file_search", "image_generation", "local_shell"),
        *("code_interpreter", "mcp", "computer_use_preview", "tool_search", "not_yet_known"),
    )
]


def post(live: Live, path: str, **body: Any) -> httpx.Response:
    with live.http() as http:
        return http.post(f"/v1/{path}", json={"model": "any-name", **body})


def respond(live: Live, **body: Any) -> httpx.Response:
    return post(live, "responses", **{"input": "Hi", "max_output_tokens": 150, **body})


def message(live: Live, *messages: Any, **body: Any) -> httpx.Response:
    turns = [*messages] or [{"role": "user", "content": "Hi"}]
    return post(live, "messages", **{"messages": turns, "max_tokens": 8, **body})


def chat(live: Live, *messages: Any, **body: Any) -> httpx.Response:
    turns = [*messages] or [{"role": "user", "content": "Hi"}]
    return post(live, "chat/completions", **{"messages": turns, "max_tokens": 150, **body})


def calls(reply: httpx.Response) -> list[dict[str, Any]]:
    assert reply.status_code == 200, reply.text
    return [item for item in reply.json()["output"] if item["type"] == "function_call"]


def text_of(prompt: Any) -> str:
    return json.dumps(prompt)


# Namespaces.


def test_call_of_a_namespace_has_both_names(agents: Live) -> None:
    choice = {"type": "function", "name": "close", "namespace": "crew"}
    (call,) = calls(respond(agents, tools=[COUNT, CREW, SHOP], tool_choice=choice))
    assert (call["name"], call["namespace"]) == ("close", "crew")
    assert json.loads(call["arguments"])["target"] in ("a", "b")


def test_function_beside_namespaces_has_no_namespace(agents: Live) -> None:
    choice = {"type": "function", "name": "count"}
    (call,) = calls(respond(agents, tools=[COUNT, CREW], tool_choice=choice))
    assert call["name"] == "count"
    assert "namespace" not in call


def test_equal_names_of_namespaces_do_not_collide(agents: Live, engine: Recording) -> None:
    assert calls(respond(agents, tools=[CREW, SHOP, CLOSE], tool_choice="required"))
    names = [tool.name for tool in engine.asked["tools"]]
    assert names == ["crew__close", "shop__close", "close"]
    assert engine.asked["tools"][0].description == "crew: Helpers.\n\n"


def test_joined_names_that_are_equal_are_told_apart(agents: Live, engine: Recording) -> None:
    one = {"type": "namespace", "name": "a", "tools": [function("b__c")]}
    other = {"type": "namespace", "name": "a__b", "tools": [function("c")]}
    choice = {"type": "function", "name": "c", "namespace": "a__b"}
    (call,) = calls(respond(agents, tools=[one, other], tool_choice=choice))
    assert (call["name"], call["namespace"]) == ("c", "a__b")
    assert len({tool.name for tool in engine.asked["tools"]}) == 2


def test_bare_name_of_a_tool_in_one_namespace_is_enough(agents: Live) -> None:
    choice = {"type": "function", "name": "close"}
    (call,) = calls(respond(agents, tools=[COUNT, CREW], tool_choice=choice))
    assert call["namespace"] == "crew"
    reply = respond(agents, tools=[CREW, SHOP], tool_choice=choice)
    assert reply.status_code == 400
    assert "namespace" in reply.json()["error"]["message"]


def test_streamed_events_have_the_namespace(agents: Live) -> None:
    reply = respond(agents, tools=[CREW], tool_choice="required", stream=True)
    events = [
        json.loads(line.removeprefix("data: "))
        for line in reply.text.splitlines()
        if line.startswith("data: ")
    ]
    added = next(event for event in events if event["type"] == "response.output_item.added")
    done = next(event for event in events if event["type"].endswith("arguments.done"))
    for named in (added["item"], done, events[-1]["response"]["output"][0]):
        assert (named["name"], named["namespace"]) == ("close", "crew")
    details = events[-1]["response"]["usage"]["input_tokens_details"]
    assert details["cache_write_tokens"] == 0


def test_history_names_a_call_as_the_tool_list_does(agents: Live, engine: Recording) -> None:
    (call,) = calls(
        respond(agents, tools=[COUNT, CREW], tool_choice={"type": "function", "name": "close"})
    )
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
    for given in (call, {**call, "namespace": None}):
        turns = [{"role": "user", "content": "Hi"}, given, output]
        assert respond(agents, input=turns, tools=[COUNT, CREW]).status_code == 200
        (before,) = [turn for turn in engine.prompt if turn.get("tool_calls")]
        assert before["tool_calls"][0]["function"]["name"] == "crew__close"


# Hosted tools and their items.


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_hosted_tool_is_left_out_and_listed(agents: Live, tool: dict[str, Any]) -> None:
    reply = respond(agents, tools=[COUNT, tool], tool_choice="required")
    assert [call["name"] for call in calls(reply)][:1] == ["count"]
    assert reply.headers[HEADER] == "tools[1]"
    refused = respond(agents, tools=[COUNT, tool], tool_choice={"type": tool["type"]})
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "tool_choice")
    assert "'count'" in error["message"]


def test_hosted_tools_alone_are_ignored(agents: Live) -> None:
    assert respond(agents, tools=HOSTED, max_output_tokens=4).status_code == 200
    assert chat(agents, tools=HOSTED, max_tokens=4).status_code == 200


def test_allowed_tools_without_hosted_ones_restrict_the_calls(agents: Live) -> None:
    allowed = [{"type": "web_search"}, {"type": "function", "name": "count"}]
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed}
    reply = respond(agents, tools=[CLOSE, COUNT, HOSTED[0]], tool_choice=choice)
    assert {call["name"] for call in calls(reply)} == {"count"}
    assert reply.headers[HEADER] == "tools[2], tool_choice.tools[0]"
    of_crew = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "namespace", "name": "crew"}],
    }
    reply = respond(agents, tools=[COUNT, CREW], tool_choice=of_crew)
    assert {call["name"] for call in calls(reply)} == {"close"}
    hosted = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}
    assert respond(agents, tools=[COUNT], tool_choice=hosted).status_code == 400
    hosted["mode"] = "auto"
    assert not calls(respond(agents, tools=[COUNT], tool_choice=hosted, max_output_tokens=4))


def test_items_of_hosted_tools_become_text_or_are_left_out(agents: Live, engine: Recording) -> None:
    later = function("later", word={"enum": ["x"]})
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": "abc"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "a"}},
        {"type": "compaction", "encrypted_content": "abc"},
        {"type": "not_yet_known", "value": 1},
        {"type": "local_shell_call", "call_id": "c1", "action": {"command": ["ls"]}, "status": "completed"},
        {"type": "local_shell_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "tool_search_call", "call_id": "c2", "execution": "client", "arguments": {"query": "late"}},
        {"type": "tool_search_output", "call_id": "c2", "execution": "client", "tools": [later]},
        {"type": "additional_tools", "role": "developer", "tools": [CREW]},
        {"role": "user", "content": "And?"},
    ]  # fmt: skip
    choice = {"type": "function", "name": "later"}
    reply = respond(agents, input=items, tools=[COUNT], tool_choice=choice)
    assert [call["name"] for call in calls(reply)] == ["later"]
    assert (
        reply.headers[HEADER]
        == "input[].web_search_call, input[].compaction, input[].not_yet_known"
    )
    prompt = text_of(engine.prompt)
    assert all(word in prompt for word in ("a.py", "local_shell", "tool_search", "later", "crew"))
    # The messages have described them.
    assert [tool.is_described for tool in engine.asked["tools"]] == [True, False, False]


def test_tools_in_the_first_item_are_listed_in_the_prompt(agents: Live, engine: Recording) -> None:
    run = {"type": "custom", "name": "run", "format": {"type": "text"}}
    space = {"type": "namespace", "name": "functions", "description": "", "tools": [run, CLOSE]}
    item = {"type": "additional_tools", "role": "developer", "tools": [space]}
    turns = [item, {"role": "user", "content": "Hi"}]
    choice = {"type": "custom", "name": "run", "namespace": "functions"}
    reply = respond(agents, input=turns, tool_choice=choice, parallel_tool_calls=False)
    (call,) = reply.json()["output"]
    assert (call["type"], call["name"], call["namespace"]) == (
        "custom_tool_call",
        "run",
        "functions",
    )
    assert [tool.is_described for tool in engine.asked["tools"]] == [True, True]
    assert engine.prompt == [{"role": "user", "content": "Hi"}]
    output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
    assert respond(agents, input=[*turns, call, output]).status_code == 200
    (before,) = [turn for turn in engine.prompt if turn.get("tool_calls")]
    assert before["tool_calls"][0]["custom"]["name"] == "functions__run"


# Tools that cannot be read.

BAD = {"type": "function", "name": "bad", "parameters": {"properties": {"a": {"type": "zzz"}}}}
EMPTY = function("empty", a={"type": "array", "enum": ["x"]})
UNNAMED = {"type": "function", "name": "a b", "parameters": {}}
PHP = {
    "type": "function",
    "name": "php",
    "parameters": {"type": "object", "properties": [], "required": None},
}


def nested(tool: dict[str, Any]) -> dict[str, Any]:
    """A function as chat completions have it."""
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def anthropic(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "input_schema": tool["parameters"]}


@pytest.mark.parametrize("path", ["responses", "chat/completions", "messages"])
def test_unreadable_tools_are_left_out_with_the_reason(
    agents: Live, engine: Recording, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [BAD, COUNT, EMPTY, UNNAMED, PHP]
    form, body = {
        "responses": (dict, {"input": "Hi", "max_output_tokens": 150, "tool_choice": "required"}),
        "chat/completions": (nested, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 150, "tool_choice": "required"}),
        "messages": (anthropic, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 150, "tool_choice": {"type": "any"}}),
    }[path]  # fmt: skip
    with caplog.at_level(logging.WARNING, "proxy_engine.server.unknown_fields"):
        reply = post(agents, path, tools=[form(tool) for tool in tools], **body)
    assert reply.status_code == 200, reply.text
    assert [tool.name for tool in engine.asked["tools"]] == ["count", "php"]
    header = reply.headers[TOOLS_HEADER]
    assert header.isascii()
    for name, reason in (
        ("bad", "/properties/a/type"),
        ("empty", "#/properties/a"),
        ("a%20b", "name"),
    ):
        assert f'{name};reason="' in header
        assert reason in header
    left_out = [record for record in caplog.records if record.message == "left out a tool"]
    # Each interface has its path; the log has each tool once.
    assert len(left_out) == (3 if path == "responses" else 0)


def test_tokens_are_counted_without_unreadable_tools(agents: Live) -> None:
    turns = {"messages": [{"role": "user", "content": "Hi"}]}
    tools = [anthropic(BAD), anthropic(COUNT), anthropic(UNNAMED)]
    reply = post(agents, "messages/count_tokens", tools=tools, **turns)
    alone = post(agents, "messages/count_tokens", tools=tools[1:2], **turns)
    assert reply.json() == alone.json()
    assert reply.headers[TOOLS_HEADER].count(";reason=") == 2


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([BAD], "auto"),
        ([BAD, EMPTY], "auto"),
        ([BAD, COUNT], {"type": "function", "name": "bad"}),
        ([EMPTY, COUNT], {"type": "function", "name": "empty"}),
        ([BAD, COUNT], {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "bad"}]}),
    ],
)  # fmt: skip
def test_request_fails_without_the_tool_that_it_needs(
    agents: Live, tools: list[Any], choice: Any
) -> None:
    reply = respond(agents, tools=tools, tool_choice=choice)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (400, "invalid_schema")
    assert error["param"].startswith("tools")
    assert error["schema_pointer"].startswith("/properties/a")


def test_schema_of_the_answer_is_not_repaired(agents: Live) -> None:
    schema = {"type": "object", "properties": [], "required": None}
    form = {"type": "json_schema", "name": "a", "schema": schema}
    reply = respond(agents, text={"format": form})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_schema")


def test_unknown_members_of_tools_are_listed_and_unknown_constraints_leave_them_out(
    agents: Live,
) -> None:
    reply = respond(
        agents,
        tools=[{**COUNT, "colour": 1, "defer_loading": False}, CLOSE],
        tool_choice="required",
    )
    assert calls(reply)
    assert reply.headers[HEADER] == "tools[0].colour"
    reply = respond(agents, tools=[{**COUNT, "regex": "a"}, CLOSE], tool_choice="required")
    assert {call["name"] for call in calls(reply)} == {"close"}
    assert reply.headers[TOOLS_HEADER].startswith("count;reason=")


# Anthropic's messages.


@pytest.mark.parametrize("display", ["updates", "summarized", "omitted", "not-yet-known"])
def test_any_display_of_thinking_is_accepted(agents: Live, display: str) -> None:
    thinking = {"type": "adaptive", "display": display}
    assert message(agents, thinking=thinking).status_code == 200


FIND = {
    "name": "Find",
    "input_schema": function("", q={"type": "string", "maxLength": 8})["parameters"],
}
LATER = {
    "name": "Later",
    "description": "Does it later.",
    "defer_loading": True,
    "input_schema": function("", when={"enum": ["soon"]})["parameters"],
}
REFERENCE = {"type": "tool_reference", "tool_name": "Later"}
SEARCHED = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Find", "input": {"q": "a"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [REFERENCE, REFERENCE]}]},
]  # fmt: skip


def test_deferred_tool_is_described_by_its_first_reference(agents: Live, engine: Recording) -> None:
    choice = {"type": "tool", "name": "Later"}
    tools = [FIND, LATER]
    reply = message(agents, *SEARCHED, tools=tools, tool_choice=choice, max_tokens=150)
    assert reply.status_code == 200, reply.text
    assert reply.json()["content"][0]["input"] == {"when": "soon"}
    result = next(turn for turn in engine.prompt if turn["role"] == "tool")
    first, second = (part["text"] for part in result["content"])
    assert "Does it later." in first
    assert '"when"' in first
    assert second == "Tool available: Later"
    assert [tool.is_described for tool in engine.asked["tools"]] == [True, False]


def test_deferred_tool_can_be_called_from_the_start(agents: Live, engine: Recording) -> None:
    choice = {"type": "tool", "name": "Later"}
    reply = message(agents, tools=[FIND, LATER], tool_choice=choice, max_tokens=150)
    assert reply.json()["content"][0]["name"] == "Later"
    counts = []
    for tool in (LATER, {**LATER, "defer_loading": False}):
        body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [FIND, tool]}
        counts.append(post(agents, "messages/count_tokens", **body).json()["input_tokens"])
    assert counts[0] < counts[1]


def test_tools_for_a_hosted_search_are_described_at_once(agents: Live, engine: Recording) -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    reply = message(agents, tools=[search, LATER])
    assert reply.headers[HEADER] == "tools[0]"
    assert [tool.is_described for tool in engine.asked["tools"]] == [True]


def test_messages_add_and_remove_tools(agents: Live, engine: Recording) -> None:
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Find"}}
    definition = {"type": "tool_definition", "definition": {**LATER, "name": "New"}}
    addition = {"type": "tool_addition", "tool": definition}
    turns = [{"role": "user", "content": "Hi"}, {"role": "system", "content": [removal, addition]}]
    reply = message(agents, *turns, tools=[FIND], tool_choice={"type": "any"}, max_tokens=150)
    assert [block["name"] for block in reply.json()["content"]] == ["New"]
    assert [tool.name for tool in engine.asked["tools"]] == ["New"]
    assert "Does it later." in text_of(engine.prompt)


def test_too_long_prompt_has_anthropics_wording(agents: Live, engine: Recording) -> None:
    length = engine.context_length
    assert length is not None
    reply = message(agents, {"role": "user", "content": "pear " * length})
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (400, "invalid_request_error")
    words = error["message"].split()
    assert words[:4] == ["prompt", "is", "too", "long:"]
    assert words[5:7] + words[8:] == ["tokens", ">", "maximum"]
    assert int(words[4]) > int(words[7]) == length - 1
    ours = chat(agents, {"role": "user", "content": "pear " * length}).json()["error"]
    assert ours["code"] == "context_length_exceeded"
    assert ours["context_length"] == length


def test_system_messages_and_beta_fields_of_claude_code_are_accepted(agents: Live) -> None:
    effort = {"output_config": {"effort": "medium"}}
    note = {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}
    reply = message(
        agents,
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": [note], **effort},
        tools=[FIND, LATER],
        safeguards=[{"type": "dangerous_tool_use"}],
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        thinking={"type": "adaptive", "display": "omitted"},
    )
    assert reply.status_code == 200, reply.text
    assert reply.headers[HEADER] == "safeguards, context_management, messages[].output_config"


# History that agents replay.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"city": "Li', {"arguments": '{"city": "Li'}),
        ("[1]", {"arguments": "[1]"}),
        ('"{\\"city\\": \\"Lima\\"}"', {"city": "Lima"}),
        ('{"city": "Lima"}', {"city": "Lima"}),
    ],
)
def test_unreadable_arguments_of_an_earlier_call_are_kept(
    agents: Live,
    engine: Recording,
    arguments: str,
    expected: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    user = {"role": "user", "content": "Hi"}
    with caplog.at_level(logging.WARNING, "proxy_engine.server.message_content"):
        assert chat(agents, user, said, result, max_tokens=4).status_code == 200
        prompts = [engine.prompt]
        item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
        output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
        assert respond(agents, input=[user, item, output], max_output_tokens=4).status_code == 200
        prompts.append(engine.prompt)
        with agents.http() as http:
            old = {**said, "content": "", "tool_calls": [{"function": call["function"]}]}
            body = {
                "messages": [user, old, {"role": "tool", "content": "ok"}],
                "stream": False,
                "options": {"num_predict": 4},
                "format": "",
            }
            reply = http.post("/api/chat", json={"model": "m", **body})
            assert reply.status_code == 200, reply.text
        prompts.append(engine.prompt)
    for prompt in prompts:
        (turn,) = [turn for turn in prompt if turn.get("tool_calls")]
        assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == expected
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == (3 if "arguments" in expected else 0)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"}, "[image of type image/svg+xml"),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}, "inside"),
        ({"type": "resource", "resource": {"uri": "file:///a", "blob": "AA=="}}, "[resource file:///a]"),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, "[resource file:///a]"),
    ],
)  # fmt: skip
def test_blocks_of_mcp_in_tool_results_become_text(
    agents: Live, engine: Recording, part: dict[str, Any], expected: str
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": [part]}
    reply = chat(agents, {"role": "user", "content": "Hi"}, said, result, max_tokens=4)
    assert reply.status_code == 200, reply.text
    assert engine.prompt[-1]["content"][0]["text"].startswith(expected)
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [part]}
    assert respond(agents, input=[item, output], max_output_tokens=4).status_code == 200
    assert expected in text_of(engine.prompt)


@pytest.mark.parametrize("kind", [{"mimeType": "image/png"}, {"media_type": "image/png"}, {}])
def test_image_of_mcp_is_read_by_a_model_that_reads_images(
    vision: Live, kind: dict[str, str]
) -> None:
    file = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {
        "role": "tool",
        "tool_call_id": "c",
        "content": [{"type": "image", "data": data, **kind}],
    }
    turns = [{"role": "user", "content": "Hi"}, said, result]
    with vision.http() as http:
        reply = http.post("/v1/chat/completions", json={"messages": turns, "max_tokens": 4})
    assert reply.status_code == 200, reply.text
    assert reply.json()["usage"]["prompt_tokens_details"]["image_tokens"] > 0


def test_begun_json_is_not_continued_under_a_format(agents: Live) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": COUNT["parameters"]}}
    user = {"role": "user", "content": "Hi"}
    begun = {"role": "assistant", "content": ' {"n":'}
    reply = chat(agents, user, begun, response_format=form)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (
        400,
        "conflicting_values",
        "messages[1]",
    )
    prose = {"role": "assistant", "content": "Here it is: "}
    assert chat(agents, user, prose, response_format=form).status_code == 200
    assert (
        chat(agents, user, begun, response_format=form, continue_final_message=False).status_code
        == 200
    )
    reply = message(
        agents,
        user,
        begun,
        output_config={"format": {"type": "json_schema", "schema": COUNT["parameters"]}},
    )
    assert reply.status_code == 400


# The first event.


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("responses", "response.created"),
        ("messages", "message_start"),
        ("chat/completions", '"role":"assistant"'),
    ],
)
def test_stream_begins_before_the_first_token(
    roomy_model: llama.Model, tiny_tokenizer: TokenizerWrapper, path: str, first: str
) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    if path == "responses":
        body = {"input": "Hi", "max_output_tokens": 2}
    engine = Recording(roomy_model, tiny_tokenizer)
    # Longer than a server waits for a failure, and far less than the keep-alive.
    engine.seconds = 1.0
    with (
        serving_engine(engine) as live,
        live.http() as http,
        http.stream("POST", f"/v1/{path}", json={**body, "stream": True}) as reply,
    ):
        # The headers arrive before the first event of the engine.
        assert reply.status_code == 200
        lines = [line for line in reply.iter_lines() if line]
    assert first in lines[0] or first in lines[1]
    assert not any(line.startswith(":") for line in lines)


def test_invalid_request_for_a_stream_has_a_status(agents: Live) -> None:
    reply = respond(agents, tools=[BAD], stream=True)
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"
