"""The policy for fields of requests that the server does not know."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from live_server import Live, serving_engine

from proxy_engine import InferenceEngine
from proxy_engine.options.generation import FORMER_OPTIONS
from proxy_engine.server.endpoints.choices import ChatRequest
from proxy_engine.server.schemas import as_number
from proxy_engine.server.unknown_fields import HEADER

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": HELLO, "max_tokens": 2},
    "completions": {"prompt": "Hello", "max_tokens": 2},
    "responses": {"input": "Hello", "max_output_tokens": 2},
}


@pytest.fixture(scope="module")
def strict(brief_engine: InferenceEngine) -> Iterator[Live]:
    """A server that refuses unknown fields."""
    with serving_engine(brief_engine, unknown_fields="reject", cors_origins=("*",)) as live:
        yield live


def post(live: Live, path: str, **more: Any) -> httpx.Response:
    with live.http() as http:
        return http.post(f"/v1/{path}", json={**BODIES[path], **more})


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_ignored_fields_are_listed_in_a_header(live: Live, path: str, stream: bool) -> None:
    reply = post(
        live, path, stream=stream, temprature=1, role_mapping={}, stream_options={"fast": 1}
    )
    assert reply.status_code == 200
    names = {name.strip() for name in reply.headers[HEADER].split(",")}
    assert names == {"temprature", "role_mapping", "stream_options.fast"}
    assert HEADER not in post(live, path, stream=stream).headers


def test_errors_list_ignored_fields_as_well(live: Live) -> None:
    reply = post(live, "completions", temprature=1, model="no-such-model")
    assert reply.status_code == 404
    assert reply.headers[HEADER] == "temprature"


def test_ignored_fields_are_logged_once(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "proxy_engine.server.unknown_fields"):
        for _ in range(2):
            post(live, "completions", logged_once=1)
    records = [record for record in caplog.records if "logged_once" in str(vars(record))]
    assert len(records) == 1
    assert vars(records[0])["fields"] == {"field": "logged_once", "path": "/v1/completions"}


@pytest.mark.parametrize(
    ("more", "param", "hint"),
    [
        ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern", "Known are"),
        ({"responseFormat": {"type": "json"}}, "responseFormat", "Did you mean"),
        ({"format": "json"}, "format", "format'?"),
        ({"allowed_token_ids": [5]}, "allowed_token_ids", "Known are"),
        ({"options": {"temperature": 1, "format": "json"}}, "options.format", ""),
        ({"extra_body": {"regex": "a"}}, "extra_body.regex", "members of extra_body"),
        ({"structured_outputs": {"whitespace_pattern": "a"}}, "structured_outputs.whitespace_pattern", ""),
        ({"stream_options": {"json": True}}, "stream_options.json", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", BODIES)
def test_unknown_constraint_is_refused(
    live: Live, path: str, more: dict[str, Any], param: str, hint: str
) -> None:
    reply = post(live, path, **more)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (400, "unsupported_parameter")
    assert error["param"] == param
    assert hint in error["message"]


@pytest.mark.parametrize(
    "more",
    [
        {"format": None, "temprature": None},
        {"logprobs": None, "n": None, "stop": None, "tools_enabled": None},
        {"stream_options": {"fast": None}},
    ],
)
def test_null_stands_for_a_missing_field(live: Live, more: dict[str, Any]) -> None:
    reply = post(live, "chat/completions", **more)
    assert reply.status_code == 200
    assert HEADER not in reply.headers


@pytest.mark.parametrize("value", [False, "", [], {}])
def test_constraint_that_asks_for_nothing_is_ignored(live: Live, value: Any) -> None:
    reply = post(live, "completions", tools=value)
    assert (reply.status_code, reply.headers[HEADER]) == (200, "tools")


@pytest.mark.parametrize("name", FORMER_OPTIONS)
def test_former_option_is_refused_with_what_takes_its_place(
    live: Live, strict: Live, name: str
) -> None:
    for server in (live, strict):
        reply = post(server, "chat/completions", **{name: 5})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)
        assert FORMER_OPTIONS[name] in reply.json()["error"]["message"]


def test_empty_name_is_listed(live: Live) -> None:
    reply = post(live, "completions", **{"a": 1, "": 2})
    assert (reply.status_code, reply.headers[HEADER]) == (200, 'a, ""')


def test_response_format_of_another_endpoint_is_named(live: Live) -> None:
    form = {"type": "json_object"}
    reply = post(live, "responses", response_format=form)
    assert "Did you mean 'text.format'?" in reply.json()["error"]["message"]
    reply = post(live, "chat/completions", text={"format": form})
    assert "Did you mean 'response_format'?" in reply.json()["error"]["message"]


def test_unknown_fields_of_messages_are_listed_once(live: Live) -> None:
    turns = [
        {"role": "user", "content": "Hi", "weight": 1},
        {"role": "assistant", "content": "Ho", "reasoning_details": [{}], "tool_format": "x"},
        {"role": "user", "content": "Hi", "weight": 1},
    ]
    reply = post(live, "chat/completions", messages=turns)
    assert reply.status_code == 200
    expected = "messages[].weight, messages[].reasoning_details, messages[].tool_format"
    assert reply.headers[HEADER] == expected


def test_header_is_bounded_and_ascii(live: Live) -> None:
    names = {f"é\n,{number}{'x' * 500}": 1 for number in range(100)}
    reply = post(live, "completions", **names)
    assert reply.status_code == 200
    value = reply.headers[HEADER]
    assert value.isascii()
    assert len(value) < 4000
    assert value.startswith("%C3%A9%0A%2C0x")
    assert value.endswith(", ...")


def test_too_many_unknown_fields_are_refused(live: Live) -> None:
    reply = post(live, "completions", **{f"x{number}": 1 for number in range(1001)})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "too_many")


@pytest.mark.parametrize("path", BODIES)
def test_strict_server_refuses_unknown_fields(strict: Live, path: str) -> None:
    reply = post(strict, path, temprature=1, more=2)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (
        400,
        "unknown_parameter",
        "temprature",
    )
    assert "temprature is unknown; more is unknown. Did you mean 'temperature'?" in error["message"]


def test_strict_server_refuses_unknown_fields_of_messages(strict: Live) -> None:
    reply = post(strict, "chat/completions", messages=[{**HELLO[0], "weight": 1}])
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages[].weight")


def test_header_is_exposed_to_pages_of_other_origins(strict: Live) -> None:
    with strict.http() as http:
        reply = http.get("/health", headers={"Origin": "https://example.org"})
    assert HEADER in reply.headers["Access-Control-Expose-Headers"]


def test_unknown_field_named_like_an_option_is_not_applied() -> None:
    body = ChatRequest.model_validate({"messages": HELLO, "trace": True, "fast_forward": False})
    assert body.options() == {}
    assert [name for name, _ in body.unknown_fields()] == ["trace", "fast_forward"]


@pytest.mark.parametrize(
    ("value", "is_integer", "number"),
    [
        (256.0, True, 256),
        ("5", True, 5),
        ("-1", True, -1),
        ("5.0", True, 5),
        ("5", False, 5),
        ("0.5", False, 0.5),
        ("1e-3", False, 0.001),
        (0.5, True, 0.5),
        ("0.5", True, 0.5),
        (True, True, True),
        ("", True, ""),
        ("1_000", True, "1_000"),
        ("nan", False, "nan"),
        (" 5", True, " 5"),
        ("5" * 5000, True, "5" * 5000),
    ],
)
def test_number_is_read_from_text_and_from_integral_floats(
    value: Any, is_integer: bool, number: Any
) -> None:
    read = as_number(value, is_integer=is_integer)
    assert (read, type(read)) == (number, type(number))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_completion_tokens", "256"),
        ("max_completion_tokens", 256.0),
        ("temperature", "0.5"),
        ("n", "2"),
        ("seed", 1.0),
    ],
)
def test_numbers_of_requests_are_converted(field: str, value: Any) -> None:
    body = ChatRequest.model_validate({"messages": HELLO, field: value})
    assert getattr(body, field) == float(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_tokens", True), ("temperature", False), ("stream", 1), ("stream", "true"), ("n", 1.5)],
)
def test_booleans_are_no_numbers_and_numbers_no_booleans(
    live: Live, field: str, value: Any
) -> None:
    reply = post(live, "chat/completions", **{field: value})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)
