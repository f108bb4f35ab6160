"""Images in chat completions and responses, over HTTP."""

from __future__ import annotations

import base64
import functools
import io
import json
import logging
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_server import Live, make_settings, serving, serving_engine
from object_schemas import closed_object
from vision_models import sample_image, vision_checkpoint

from proxy_engine import InferenceEngine, MissingExtraError
from proxy_engine.server.app import create_app
from proxy_engine.server.errors import api_error

SCHEMA = closed_object(total={"type": "integer"}, paid={"type": "boolean"})
FUNCTION = {"name": "file", "parameters": {**SCHEMA, "required": ["paid"]}}


@pytest.fixture(scope="module")
def http(vision: Live) -> Iterator[httpx.Client]:
    with vision.http() as http:
        yield http


def png(seed: int, size: tuple[int, int] = (64, 48)) -> bytes:
    file = io.BytesIO()
    sample_image(seed, size).save(file, "PNG")
    return file.getvalue()


def url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def image_part(given: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": given, "detail": "high"}}


def user(*seeds: int, text: str = "What is it?") -> dict[str, Any]:
    parts = [image_part(url(png(seed))) for seed in seeds]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


@functools.cache
def client_of(live: Live) -> tuple[openai.OpenAI, str]:
    client = live.client()
    return client, client.models.list().data[0].id


def ask(live: Live, *messages: Any, **more: Any) -> Any:
    asked: dict[str, Any] = {"max_tokens": 12, "temperature": 0, **more}
    client, model = client_of(live)
    return client.chat.completions.create(model=model, messages=[*messages], **asked)


def answer(live: Live, *messages: Any, **more: Any) -> str:
    text: str = ask(live, *messages, **more).choices[0].message.content
    return text


def test_answer_depends_on_the_images(vision: Live) -> None:
    texts = [answer(vision, user(*seeds)) for seeds in [(1,), (2,), (1, 2), (2, 1)]]
    assert len(set(texts)) == 4
    assert answer(vision, user(1)) == texts[0]


def test_usage_counts_image_tokens(vision: Live) -> None:
    one, two = ask(vision, user(1)).usage, ask(vision, user(1, 2)).usage
    tokens = one.prompt_tokens_details.image_tokens
    assert 0 < tokens < one.prompt_tokens
    assert two.prompt_tokens_details.image_tokens == 2 * tokens
    assert two.prompt_tokens_details.audio_tokens == 0
    (text,) = [ask(vision, {"role": "user", "content": "Hi"}).usage.prompt_tokens_details]
    assert text.image_tokens == 0


def test_second_question_about_an_image_reads_the_rest_of_the_prompt(vision: Live) -> None:
    first = user(7, text="What is it?")
    text = answer(vision, first)
    said = {"role": "assistant", "content": text}
    usage = ask(vision, first, said, {"role": "user", "content": "Why?"}).usage
    details = usage.prompt_tokens_details
    assert details.cached_tokens > details.image_tokens > 0
    # Another image is another prompt.
    other = ask(vision, user(8), said, {"role": "user", "content": "Why?"}).usage
    assert other.prompt_tokens_details.cached_tokens < details.cached_tokens


def test_stream_has_the_text_and_usage_of_the_whole_response(vision: Live) -> None:
    whole = ask(vision, user(1))
    chunks = list(ask(vision, user(1), stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    tokens = whole.usage.prompt_tokens_details.image_tokens
    assert chunks[-1].usage.prompt_tokens_details.image_tokens == tokens


def test_image_becomes_json_and_tool_calls(vision: Live) -> None:
    schema = {"name": "receipt", "schema": SCHEMA, "strict": True}
    text = answer(
        vision,
        user(1),
        max_tokens=60,
        response_format={"type": "json_schema", "json_schema": schema},
    )
    assert set(json.loads(text)) == {"total", "paid"}
    message = (
        ask(
            vision,
            user(1),
            max_tokens=200,
            tools=[{"type": "function", "function": FUNCTION}],
            tool_choice="required",
        )
        .choices[0]
        .message
    )
    assert message.tool_calls[0].function.name == "file"


def test_concurrent_requests_with_different_images_equal_single_ones(vision: Live) -> None:
    prompts = [user(1), user(2), user(1, 2), {"role": "user", "content": "Hi"}] * 2
    single = [answer(vision, prompt) for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(lambda prompt: answer(vision, prompt), prompts))
    assert together == single


def test_client_that_leaves_ends_its_request(vision: Live) -> None:
    stream = ask(vision, user(1), max_tokens=600, stream=True, extra_body={"regex": "[a-z]{500}"})
    next(iter(stream))
    stream.close()
    assert answer(vision, user(1))
    with vision.http() as http:
        while http.get("/health").json()["running"]:
            pass


@pytest.mark.parametrize(
    ("part", "status", "code", "words"),
    [
        (image_part("https://a.example/b.png"), 400, "image_url_not_allowed", "--allow-image-urls"),
        (image_part("HTTP://a.example/b.png"), 400, "image_url_not_allowed", "--allow-image-urls"),
        (image_part("file:///etc/passwd"), 400, "invalid_media", "data: URLs only"),
        (image_part("/etc/passwd"), 400, "invalid_media", "data: URLs only"),
        (image_part("ht\ntp://a.example/b.png"), 400, "invalid_media", "data: URLs only"),
        ({"type": "image", "url": "http://a.example"}, 400, "image_url_not_allowed", "data:"),
        (image_part("data:image/png;base64,?"), 400, "invalid_media", "not base64"),
        ({"type": "image", "data": "?"}, 400, "invalid_media", "not base64"),
        (image_part(url(b"")), 400, "invalid_media", "0 bytes"),
        (image_part(url(png(1)[:200])), 400, "invalid_media", "damaged"),
        (image_part(url(b"<svg/>", "image/svg+xml")), 400, "invalid_media", "SVG"),
        (image_part(url(png(1, (200, 100)))), 400, "image_too_large", "--max-image-pixels"),
        (image_part(url(png(1) + bytes(20_000))), 413, "image_too_large", "--max-image-bytes"),
    ],
)
def test_unusable_image_is_refused_by_field(
    vision: Live, part: Any, status: int, code: str, words: str
) -> None:
    content = [{"type": "text", "text": "What is it?"}, part]
    with pytest.raises(openai.APIStatusError) as caught:
        ask(vision, {"role": "system", "content": "Hi"}, {"role": "user", "content": content})
    error: Any = caught.value.body
    assert (caught.value.status_code, error["code"]) == (status, code), error
    assert error["param"] == "messages[1].content[1]"
    assert words in error["message"]
    assert len(error["message"]) < 400


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["", "auto", "a", "%00", "é"]),
    lambda values: (
        st.lists(values, max_size=2)
        | st.dictionaries(st.sampled_from(["url", "data", "detail", "x"]), values, max_size=2)
    ),
    max_leaves=4,
)
_BYTES = st.binary(max_size=40) | st.integers(0, 225).map(lambda size: png(1)[:size])
_URLS = st.builds(
    lambda head, data: head + base64.b64encode(data).decode("ascii"),
    st.sampled_from(
        ["data:image/png;base64,", "data:;base64,", "data:image/png,", "data:", "DATA:;base64,", ""]
    ),
    _BYTES,
)
_PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["image_url", "image", "input_image", "audio", "input_audio"])},
    optional={
        "image_url": _JSON | _URLS | st.fixed_dictionaries({"url": _URLS}, optional={"x": _JSON}),
        "url": _JSON | _URLS,
        "data": _JSON | _BYTES.map(lambda data: base64.b64encode(data).decode("ascii")),
        "media_type": _JSON,
        "path": st.just("/etc/passwd"),
        "input_audio": _JSON,
    },
)


@settings(max_examples=60)
@given(parts=st.lists(_PARTS, min_size=1, max_size=2))
def test_no_image_part_is_an_internal_error(http: httpx.Client, parts: list[Any]) -> None:
    bodies = {
        "chat/completions": {"messages": [{"role": "user", "content": parts}], "max_tokens": 1},
        "responses": {"input": [{"role": "user", "content": parts}], "max_output_tokens": 1},
    }
    for path, body in bodies.items():
        reply = http.post(f"/v1/{path}", json=body)
        assert reply.status_code in (200, 400, 400), reply.text
        assert reply.status_code == 200 or reply.json()["error"]["param"], reply.text


def test_too_many_images_are_refused(vision: Live) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(vision, user(1, 2, 3, 4))
    error: Any = caught.value.body
    assert error["code"] == "too_many_images"
    assert "--max-images" in error["message"]
    assert error["param"].startswith("messages")


def test_images_are_no_text_of_the_prompt(vision_engine: InferenceEngine) -> None:
    with serving_engine(vision_engine, max_prompt_characters=200) as live:
        assert answer(live, user(1, 2))


def test_log_has_no_image_data(
    vision_engine: InferenceEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, logger="proxy_engine.server"),
        serving_engine(vision_engine, log_prompts=True) as live,
    ):
        ask(live, user(1, text="Open sesame"))
        with pytest.raises(openai.BadRequestError):
            ask(live, {"role": "user", "content": [image_part(url(png(1)[:200]))]})
    logged = json.dumps([getattr(record, "fields", {}) for record in caplog.records], default=str)
    assert "Open sesame" in logged
    assert "image_url" in logged
    assert url(png(1))[22:62] not in logged + caplog.text


def test_text_model_reads_the_history_of_a_conversation_with_images(live: Live) -> None:
    said = {"role": "assistant", "content": "A cat."}
    assert answer(live, user(1), said, {"role": "user", "content": "Why?"}) is not None
    with pytest.raises(openai.BadRequestError) as caught:
        ask(live, user(1))
    error: Any = caught.value.body
    assert error["param"].startswith("messages")


def test_model_that_reads_images_is_loaded_on_request(
    tmp_path: Path, tiny_model_directory: Path, image_at: str
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path / "text")
    vision_checkpoint("smolvlm", tmp_path / "vision")
    settings = make_settings(
        model=str(tmp_path / "text"),
        model_directories=str(tmp_path),
        max_images=1,
        allow_image_urls=True,
    )
    with serving(create_app(settings)) as live:
        client: Any = live.client()
        listed = {model.id: model.input_modalities for model in client.models.list().data}
        assert listed["text"] == ["text"]
        assert listed["vision"] == ["text", "image"]

        def chat(model: str, *seeds: int) -> Any:
            return client.chat.completions.create(
                model=model, messages=[user(*seeds, text="a")], max_tokens=3
            )

        assert chat("vision", 1).usage.prompt_tokens_details.image_tokens > 0
        with pytest.raises(openai.BadRequestError, match="--max-images"):
            chat("vision", 1, 2)
        private = {"role": "user", "content": [image_part(image_at)]}
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="vision", messages=[private])
        error: Any = caught.value.body
        assert error["param"] == "messages[0].content[0]"
        assert error["message"].endswith("has an address that is not public")
        assert chat("text").model == "text"
        with pytest.raises(openai.BadRequestError):
            chat("text", 1)


def test_missing_extra_is_an_error_of_the_server() -> None:
    error = api_error(MissingExtraError("reading images requires mlx-vlm", extra="vision"))
    assert (error.status, error.code) == (503, "missing_extra")
    assert "pip install 'proxy-engine[vision]'" in error.message


class _Image(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        self.wfile.write(png(1))

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def image_at() -> Iterator[str]:
    """The URL of an image on this computer."""
    server = HTTPServer(("127.0.0.1", 0), _Image)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/1.png"
    server.shutdown()
    server.server_close()
    thread.join()


def test_urls_are_fetched_if_allowed(vision_engine: InferenceEngine, image_at: str) -> None:
    content = [image_part(image_at), {"type": "text", "text": "What is it?"}]
    with serving_engine(vision_engine, allow_image_urls=True) as live:
        text = answer(live, {"role": "user", "content": content})
        assert text == answer(live, user(1))
        for given in ("file:///etc/passwd", "/etc/passwd", "ftp://127.0.0.1/a.png"):
            with pytest.raises(openai.BadRequestError) as caught:
                ask(live, {"role": "user", "content": [image_part(given)]})
            error: Any = caught.value.body
            assert error["code"] == "invalid_media"


def respond(live: Live, given: Any, **more: Any) -> Any:
    asked: dict[str, Any] = {"max_output_tokens": 12, "temperature": 0, **more}
    client, model = client_of(live)
    return client.responses.create(model=model, input=given, **asked)


def item(*parts: Any) -> Any:
    shown = [
        {"type": "input_image", "image_url": url(png(part)), "detail": "auto"}
        if isinstance(part, int)
        else {"type": "input_text", "text": part}
        for part in parts
    ]
    return {"role": "user", "content": shown}


def test_response_reads_images(vision: Live) -> None:
    response = respond(vision, [item(1, "What is it?")])
    assert response.output_text == answer(vision, user(1))
    assert response.usage.input_tokens_details.image_tokens > 0
    assert respond(vision, [item(2, "What is it?")]).output_text != response.output_text


def test_previous_response_keeps_its_images(vision: Live) -> None:
    first = respond(vision, [item(1, "What is it?")])
    second = respond(vision, "Why?", previous_response_id=first.id)
    tokens = first.usage.input_tokens_details.image_tokens
    assert second.usage.input_tokens_details.image_tokens == tokens
    third = respond(vision, [item(2, "And this?")], previous_response_id=second.id)
    assert third.usage.input_tokens_details.image_tokens == 2 * tokens
    said = {"role": "assistant", "content": first.output_text}
    assert second.output_text == answer(vision, user(1), said, {"role": "user", "content": "Why?"})


def test_result_of_a_function_has_images(vision: Live) -> None:
    def conversation(seed: int) -> list[Any]:
        call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
        shown = [{"type": "input_image", "image_url": url(png(seed))}]
        result = {"type": "function_call_output", "call_id": "c", "output": shown}
        return [{"role": "user", "content": "Look."}, call, result]

    responses = [respond(vision, conversation(seed)) for seed in (1, 2)]
    assert responses[0].output_text != responses[1].output_text
    assert responses[0].usage.input_tokens_details.image_tokens > 0


def test_unusable_image_of_a_response_is_refused_by_field(vision: Live) -> None:
    bad = {"type": "input_image", "image_url": url(b"no image")}
    result = {"type": "function_call_output", "call_id": "c", "output": [bad]}
    cases: list[tuple[list[Any], str]] = [
        ([item("a"), {"role": "user", "content": [bad]}], "input[1].content[0]"),
        ([item("a"), {"role": "assistant", "content": "b"}, result], "input[2].output[0]"),
    ]
    for items, param in cases:
        with pytest.raises(openai.BadRequestError) as caught:
            respond(vision, items, instructions="Be brief.")
        error: Any = caught.value.body
        assert (error["code"], error["param"]) == ("invalid_media", param)
    bad["image_url"] = "https://a.example/b.png"
    with pytest.raises(openai.BadRequestError) as caught:
        respond(vision, cases[0][0])
    assert "--allow-image-urls" in str(caught.value)
