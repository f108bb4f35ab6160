"""Parsing of lines as commands, and errors in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bridge_clients import validator
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.bridge.commands import (
    ChatCommand,
    GenerateCommand,
    LoadCommand,
    id_of,
    parse_command,
    parse_object,
)
from proxy_engine.bridge.errors import (
    InvalidFieldError,
    MalformedLineError,
    ProtocolError,
    UnknownCommandError,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"no JSON", "not JSON"),
        (b'{"cmd": "info"', "not JSON"),
        (b'{"cmd": "info"}{}', "not JSON"),
        (b'{"cmd": "\xff"}', "not UTF-8"),
        (b"[1, 2]", "not a JSON object, but [1, 2]"),
        (b"null", "not a JSON object"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the name 'c' twice"),
        (b"{" + b"".join(b'"%d":0,' % i for i in range(50_000)) + b'"49999":0}', "'49999' twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_line_that_is_not_a_json_object_is_refused(line: bytes, what: str) -> None:
    with pytest.raises(MalformedLineError) as caught:
        parse_object(line)
    assert what in str(caught.value)
    assert len(str(caught.value)) < 300


def test_byte_order_mark_and_carriage_return_are_accepted() -> None:
    assert parse_object(b'\xef\xbb\xbf{"cmd": "info"}\r') == {"cmd": "info"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, None), ({"id": "a"}, "a"), ({"id": 0}, 0), ({"id": -3}, -3), ({"id": None}, None)]
    + [({"id": id}, None) for id in (True, 1.0, 1.5, [], {}, "x" * 257)],
)
def test_id_is_a_short_string_or_an_integer(given: dict[str, Any], expected: Any) -> None:
    assert id_of(given) == expected
    assert type(id_of(given)) is type(expected)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({}, "Known are load, generate, chat, cancel, info, quit."),
        ({"cmd": 3}, "Known are"),
        ({"cmd": "generat"}, "Did you mean 'generate'?"),
        ({"cmd": "x" * 10_000}, "Known are"),
    ],
)
def test_unknown_command_is_refused_with_a_hint(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(UnknownCommandError) as caught:
        parse_command(given)
    assert hint in caught.value.hint
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"prompt": 3}, "/prompt"),
        ({"prompt": "x", "temprature": 1}, "/temprature"),
        ({"prompt": "x", "a/b~": 1}, "/a~1b~0"),
        ({}, "/prompt"),
        ({"prompt": "x", "max_tokens": "3"}, "/max_tokens"),
        ({"prompt": "x", "max_tokens": 3.0}, "/max_tokens"),
        ({"prompt": "x", "max_tokens": True}, "/max_tokens"),
        ({"prompt": "x", "temperature": "hot"}, "/temperature"),
        ({"prompt": "x", "response_format": "json"}, "/response_format"),
        ({"prompt": "x", "tools": {}}, "/tools"),
        ({"prompt": "x", "tools": [{}, 3]}, "/tools/1"),
        ({"prompt": "x", "events": ["token", "nothing"]}, "/events/1"),
        ({"prompt": "x", "events": ["finished"]}, "/events/0"),
        ({"prompt": "x", "logit_bias": {"a": 1}}, "/logit_bias"),
        ({"prompt": "x", "logit_bias": {"1": "a"}}, "/logit_bias"),
        ({"prompt": "x", "parts": {"text": {"max_token": 1}}}, "/parts/text/max_token"),
        ({"prompt": "x", "top_k": -2}, "/top_k"),
        ({"prompt": "x", "parts": {"text": {"top_k": -2}}}, "/parts/text/top_k"),
        ({"prompt": "x", "reasoning": {"min_chars": -1}}, "/reasoning/min_chars"),
        ({"prompt": "x", "logit_bias": {"1": 1, "01": 2}}, "/logit_bias"),
        ({"prompt": "x", "speculation": "on"}, "/speculation"),
        (
            {"prompt": "x", "speculation": {"num_draft_tokens": 0}},
            "/speculation/num_draft_tokens",
        ),
        ({"prompt": "x", "speculation": {"tokens": 1}}, "/speculation/tokens"),
        ({"prompt": "x", "draft_model": "p"}, "/draft_model"),
        ({"prompt": "x", "stop": [1]}, "/stop"),
        ({"prompt": "x", "id": True}, "/id"),
        ({"prompt": "x", "id": "x" * 257}, "/id"),
        ({"prompt": "x", "path": "p"}, "/path"),
    ],
)
def test_wrong_field_is_located(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        parse_command({"cmd": "generate", **more})
    assert caught.value.field == field
    assert field in str(caught.value)
    assert caught.value.problems[0]["field"] == field


def test_misspelled_field_gets_a_suggestion() -> None:
    with pytest.raises(InvalidFieldError, match="Did you mean 'temperature'") as caught:
        parse_command({"cmd": "chat", "temprature": 1})
    assert {problem["field"] for problem in caught.value.problems} == {"/messages", "/temprature"}


def test_null_field_equals_a_missing_field() -> None:
    for name in set(GenerateCommand.model_fields) - {"cmd", "prompt"}:
        command = parse_command({"cmd": "generate", "prompt": "x", name: None})
        assert command == parse_command({"cmd": "generate", "prompt": "x"})


@given(st.dictionaries(st.sampled_from(sorted(GenerateCommand.model_fields)) | st.text(), VALUES))
def test_command_is_accepted_if_and_only_if_it_matches_its_schema(fields: dict[str, Any]) -> None:
    given = {"prompt": "x", **fields, "cmd": "generate"}
    given = json.loads(json.dumps(given))
    is_valid = validator("GenerateCommand").is_valid(given)
    try:
        parse_command(given)
    except ProtocolError:
        assert not is_valid or _has_whole_floats(given)
    else:
        assert is_valid


def _has_whole_floats(value: Any) -> bool:
    """1.0 is an integer for JSON Schema, but not for the bridge."""
    if isinstance(value, dict | list):
        return any(map(_has_whole_floats, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


def test_commands_are_parsed_as_their_models() -> None:
    load = parse_command({"cmd": "load", "path": "p"})
    assert isinstance(load, LoadCommand)
    assert (load.id, load.path) == (None, "p")
    chat = parse_command({"cmd": "chat", "id": 4, "messages": [{"role": "user", "more": [1]}]})
    assert isinstance(chat, ChatCommand)
    assert chat.messages == [{"role": "user", "more": [1]}]
