"""Interactions: typed, immutable, and themselves again after a trip through JSON."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import Interaction, JsonContent, PromptError, Role, TextContent
from proxy_engine.conversation.content import (
    AudioContent,
    FileContent,
    ImageContent,
    ToolCall,
    new_call_id,
)
from proxy_engine.conversation.messages import template_messages, to_interactions

NESTED: list[Any] = []
for _ in range(10_000):
    NESTED = [NESTED]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
media_types = st.none() | st.sampled_from(["image/png", "audio/wav", "text/plain"])
media = st.one_of(
    st.builds(kind, url=st.just("https://example.org/x"), media_type=media_types)
    | st.builds(kind, data=st.binary(max_size=9), media_type=media_types)
    for kind in (ImageContent, AudioContent, FileContent)
)
files = st.builds(FileContent, name=st.none() | st.text(), text=st.text())
texts = st.builds(TextContent, st.text()) | st.builds(JsonContent, json_values)
contents = texts | media | files
calls = st.builds(
    ToolCall,
    st.text(),
    st.text(),
    st.dictionaries(st.text(), json_values, max_size=3),
    st.text(),
)
common: dict[str, Any] = {
    "metadata": st.dictionaries(st.text(), json_values, max_size=3),
    "id": st.none() | st.text(min_size=1),
    # In New York an hour is repeated in autumn, and left out in spring.
    "created_at": st.none()
    | st.datetimes(timezones=st.just(UTC) | st.just(ZoneInfo("America/New_York")))
    | st.just(datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=1)),
}
any_content = st.text() | contents | st.lists(contents, max_size=3)
interactions = st.one_of(
    st.builds(Interaction, st.sampled_from(Role), any_content, **common),
    st.builds(
        Interaction,
        st.sampled_from(["assistant", "agent"]),
        st.lists(contents | calls, max_size=3),
        tool_calls=st.lists(calls, max_size=2),
        reasoning=st.none() | st.text(),
        **common,
    ),
    st.builds(
        Interaction,
        st.just("tool"),
        any_content,
        tool_call_id=st.none() | st.text(),
        name=st.none() | st.text(),
        **common,
    ),
)


@given(interactions)
def test_round_trip_through_json(interaction: Interaction) -> None:
    assert Interaction.from_dict(interaction.to_dict()) == interaction
    written = json.loads(json.dumps(interaction.to_dict()))
    again = Interaction.from_dict(written)
    assert again == interaction
    assert hash(again) == hash(interaction)


@given(interactions)
def test_dicts_of_interactions_are_messages(interaction: Interaction) -> None:
    """What `to_dict` wrote is a prompt, and says the same as the interaction itself."""

    def read(item: Any) -> Any:
        try:
            return template_messages([item]).messages
        except PromptError as error:
            return str(error)

    assert read(json.loads(json.dumps(interaction.to_dict()))) == read(interaction)


@given(st.lists(interactions, max_size=3))
def test_equal_interactions_have_equal_hashes(turns: list[Interaction]) -> None:
    assert len({*turns, *map(copy.deepcopy, turns)}) == len(set(turns))
    one, other = JsonContent({"a": [1, True]}), JsonContent({"a": [1.0, 1]})
    assert one == other
    assert hash(one) == hash(other)


@given(st.sampled_from(Role), st.text() | texts | st.lists(texts, max_size=3))
def test_message_has_the_text_of_all_parts(role: Role, content: Any) -> None:
    interaction = Interaction(role, content)
    message = interaction.to_message()
    if role is Role.ASSISTANT or len(interaction.content) < 2:
        assert message == {"role": str(role), "content": interaction.text}
        assert template_messages(interaction).messages == [message]
    assert template_messages(interaction).messages == template_messages([message]).messages
    assert interaction.text == "".join(
        part.to_text()
        for part in interaction.content
        if isinstance(part, TextContent | JsonContent)
    )


def said(interaction: Interaction) -> Any:
    """What OpenAI's messages say of an interaction."""
    return (
        interaction.role,
        interaction.content,
        interaction.reasoning,
        interaction.tool_call_id,
        interaction.name,
    )


@given(
    st.one_of(
        st.builds(Interaction, st.sampled_from(["system", "user"]), st.text()),
        st.builds(
            Interaction,
            st.just("user"),
            st.tuples(
                st.builds(ImageContent, data=st.binary(), media_type=st.just("image/png")),
                st.builds(TextContent, st.text()) | media | st.builds(FileContent, text=st.text()),
            ),
        ),
        st.builds(
            Interaction,
            st.just("agent"),
            st.builds(TextContent, st.text()) | st.just(()),
            tool_calls=st.lists(
                st.builds(
                    ToolCall,
                    st.text(min_size=1),
                    st.text(),
                    st.dictionaries(st.text(), json_values, max_size=3),
                ),
                min_size=1,
                max_size=3,
            ),
            reasoning=st.none() | st.text(),
        ),
        st.builds(Interaction, st.just("tool"), st.text(), tool_call_id=st.text(), name=st.text()),
    )
)
def test_round_trip_through_openai(interaction: Interaction) -> None:
    message = json.loads(json.dumps(interaction.to_message()))
    again = Interaction.from_dict(message)
    media_type_only = [part for part in interaction.content if getattr(part, "url", None)]
    if not media_type_only:
        assert said(again) == said(interaction)
    assert again.to_message() == message


def test_openai_messages_as_clients_write_them() -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"x": "ä"}'},
    }
    turn = Interaction.from_dict({"role": "assistant", "content": None, "tool_calls": [call]})
    assert turn.tool_calls == (ToolCall("call_1", "f", {"x": "ä"}),)
    assert template_messages(turn).messages[0] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": {"x": "ä"}},
            }
        ],
    }
    assert turn.to_message() == {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
    }
    assert Interaction.from_dict({"role": "developer", "content": "x"}).role is Role.SYSTEM
    echoed = {"role": "assistant", "content": "x", "audio": None, "annotations": []}
    assert Interaction.from_dict({**echoed, "reasoning": "hm"}).reasoning == "hm"
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    turn = Interaction.from_dict({"role": "user", "name": "Ann", "content": [picture]})
    assert turn.content == (ImageContent(data=b"\0\0\0", media_type="image/png"),)


@pytest.mark.parametrize(
    "message",
    [
        5,
        {"content": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": "x", "more": 1},
        {"role": "user", "content": "\ud800"},
        {"role": "user", "content": b"x"},
        {"role": ["user"], "content": "x"},
        {"role": "assistant", "tool_calls": 5},
        {"role": "assistant", "tool_calls": [{"name": "f", "why": "not"}]},
        {"role": "assistant", "tool_calls": [{"type": "custom", "name": "f"}]},
        {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[" * 10000}]},
        {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"x": math.nan}}]},
        {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"x": {1}}}]},
        {"role": "assistant", "tool_calls": [{"name": "\ud800"}]},
        {"role": "assistant", "content": "x", "reasoning": 5},
        {"role": "assistant", "content": "x", "function_call": {"name": "f", "arguments": ""}},
        {"role": "assistant", "content": "x", "audio": {"id": "1"}},
        {"role": "tool", "content": "x", "tool_call_id": 5},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "?", "format": "wav"}}]},
        {"role": "user", "content": "x", "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "assistant", "tool_calls": [{"id": "x"}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]},
        {},
        {"role": "user", "content": [{"type": "image"}]},
        {"role": "user", "content": [{"type": "image", "url": "x", "data": "AAAA"}]},
        {"role": "user", "content": [{"type": "image", "url": "x", "text": "x"}]},
        {"role": "user", "content": [{"type": "image", "data": "?"}]},
        {"role": "user", "content": [{"type": "text", "text": 1}]},
        {"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]},
        {"role": "user", "content": [{"type": "action", "id": "1", "name": "f", "arguments": {}}]},
        {"role": "assistant", "content": [{"type": "action", "id": 1, "name": "f", "arguments": {}}]},
        {"role": "assistant", "content": [{"type": "action", "id": "1", "name": "f", "arguments": []}]},
        {"role": "assistant", "content": "x", "tool_call_id": "1"},
        {"role": "user", "content": "x", "reasoning": "x"},
        {"role": "user", "content": "x", "created_at": "yesterday"},
        {"role": "user", "content": "x", "created_at": "2026-01-01T00:00:00"},
        {"role": "user", "content": "x", 5: "x", "nickname": "x"},
        {"role": "user", "content": "x", "metadata": 5},
        {"role": "user", "content": "x", "id": 5},
        {"role": "user", "content": [{"type": "json", "value": math.nan}]},
        {"role": "user", "content": [{"type": "json", "value": NESTED}]},
        NESTED,
    ],
)  # fmt: skip
def test_malformed_messages_are_refused(message: Any) -> None:
    for read in (Interaction.from_dict, lambda message: template_messages([message])):
        with pytest.raises(PromptError):
            read(message)


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "messages[1].content[0]"),
        ({"role": "user", "content": ["x", {"type": "image"}]}, "messages[1].content[0]"),
        ({"role": "assistant", "tool_calls": [{"name": 5}]}, "messages[1].tool_calls[0]"),
        (
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]},
            "messages[1].tool_calls[0]",
        ),
        ({"role": "nobody", "content": "x"}, "messages[1].role"),
        ({"role": "user", "content": "x", "more": 1}, "messages[1]"),
        ({"content": "x", "role": "user", "created_at": 5}, "messages[1].created_at"),
        (5, "messages[1]"),
    ],
)
def test_errors_name_the_position_in_the_prompt(message: Any, where: str) -> None:
    with pytest.raises(PromptError) as caught:
        to_interactions([Interaction("user", "x"), message])
    assert caught.value.where == where
    assert str(caught.value).startswith(f"{where}: ")


def test_answers_of_openais_client_are_taken_back() -> None:
    """As its models write them: with every field that the client knows, most of them null."""
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    for answer in (
        {"role": "assistant", "content": "x", "refusal": None},
        {"role": "assistant", "content": "x", "reasoning_content": "hm", "annotations": []},
        {"role": "assistant", "content": None, "tool_calls": calls},
    ):
        message = openai.types.chat.ChatCompletionMessage.model_validate(answer)
        parsed = openai.types.chat.ParsedChatCompletionMessage[Any].model_validate(answer)
        for dumped in (message.model_dump(), message.model_dump(exclude_unset=True), answer):
            assert said(Interaction.from_dict(dumped)) == said(Interaction.from_dict(answer))
            assert template_messages([dumped]).messages == template_messages([answer]).messages
        assert (
            template_messages([parsed.model_dump()]).messages
            == template_messages([answer]).messages
        )
    assert template_messages(
        [{"role": "assistant", "content": None, "refusal": "No."}]
    ).messages == [{"role": "assistant", "content": "No."}]


def test_interactions_have_an_id_a_time_and_metadata_of_their_own() -> None:
    metadata = {"a": 1}
    first, second = (Interaction("user", "x", metadata=metadata) for _ in range(2))
    assert first.id != second.id
    assert first.created_at.tzinfo is not None
    metadata["a"] = 2
    assert first.metadata == {"a": 1}
    with pytest.raises(TypeError):
        first.metadata["a"] = 3  # type: ignore[index]


def test_tool_calls_and_their_results() -> None:
    call = ToolCall(new_call_id(), "f", {"x": [1]}, raw="<f>")
    turn = Interaction("assistant", "Let me see.", tool_calls=[call], reasoning="hm")
    assert turn.tool_calls == (call,)
    assert turn.text == "Let me see."
    assert turn.to_message()["reasoning_content"] == "hm"
    template_messages(turn).messages[0]["tool_calls"][0]["function"]["arguments"]["x"].append(2)
    assert call.arguments == {"x": [1]}
    result = Interaction.tool_result(call, {"y": None}, metadata={"seconds": 1})
    assert result.to_message() == {
        "role": "tool",
        "content": '{"y": null}',
        "tool_call_id": call.id,
        "name": "f",
    }
    assert Interaction.tool_result(call, "plain").text == "plain"
    assert len(call.id) == 9
    assert call.id.isalnum()


def test_files_are_read_as_their_text() -> None:
    for content in (
        FileContent(name="a.txt", text="text"),
        FileContent(name="a.txt", data=b"text", media_type="text/plain; charset=utf-8"),
        FileContent(name="a.txt", data=b"text", media_type="application/json"),
    ):
        assert (
            template_messages(Interaction("user", content)).messages[0]["content"]
            == "a.txt:\ntext\n"
        )
    assert FileContent(text="text").to_text() == "text"


@pytest.mark.parametrize(
    "content",
    [
        ImageContent(url="https://example.org/x.png"),
        AudioContent(data=b"x"),
        FileContent(name="x.pdf", data=b"x", media_type="application/pdf"),
    ],
)
def test_media_content_is_refused(content: Any) -> None:
    with pytest.raises(PromptError, match=f"read {content.kind} content"):
        template_messages(Interaction("user", [content]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Interaction("user", [1]),  # type: ignore[list-item]
        lambda: Interaction("user", "x", created_at=datetime(2026, 1, 1)),
        lambda: Interaction("user", 5),  # type: ignore[arg-type]
        lambda: Interaction("assistant", "x", tool_calls=5),  # type: ignore[arg-type]
        lambda: TextContent(5),  # type: ignore[arg-type]
        *(
            partial(make, value)
            for value in ({1}, math.inf, NESTED, "\ud800", 10**5000)
            for make in (JsonContent, lambda value: ToolCall("1", "f", {"x": value}))
        ),
    ],
)
def test_malformed_parts_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(PromptError):
        make()


def test_interactions_can_be_pickled_and_copied() -> None:
    turn = Interaction(
        "assistant",
        "Wait",
        tool_calls=[ToolCall("c1", "f", {"a": [1]})],
        reasoning="So",
        metadata={"seen": [1, 2]},
    )
    for again in (pickle.loads(pickle.dumps(turn)), copy.deepcopy(turn), copy.copy(turn)):
        assert again == turn
        assert again.to_dict() == turn.to_dict()
    assert copy.deepcopy(turn).metadata["seen"] is not turn.metadata["seen"]


def test_fields_without_effect_are_accepted() -> None:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        "cache_control": {"type": "ephemeral"},
        "reasoning_details": [{"type": "reasoning.text", "text": "y"}],
        "annotations": [{"type": "url_citation"}],
    }
    assert Interaction.from_dict(message).text == "x"


def test_other_spellings_of_ids_media_and_actions_are_read() -> None:
    turn = Interaction.from_dict(
        {
            "event_id": "e1",
            "role": "agent",
            "content": [
                {"type": "image", "image_url": "https://example.org/a.png"},
                {"type": "file", "file_url": "https://example.org/a.txt"},
                {"type": "action", "action": {"id": "c1", "name": "f", "arguments": {"x": 1}}},
            ],
        }
    )
    assert turn.id == "e1"
    image, file, call = turn.content
    assert isinstance(image, ImageContent)
    assert isinstance(file, FileContent)
    assert (image.url, file.url) == ("https://example.org/a.png", "https://example.org/a.txt")
    assert call == ToolCall("c1", "f", {"x": 1})
