"""``/v1/audio``: OpenAI's client against a small Whisper model with random weights."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_server import Live, make_settings, serving, serving_engine
from openai.types.audio import TranscriptionVerbose
from recordings import sine, speech_file, wav
from tiny_parakeet import CTC_CONFIG, write_tiny_parakeet
from tiny_whisper import write_tiny_whisper

from proxy_engine import InferenceEngine, Transcript
from proxy_engine.server.app import create_app
from proxy_engine.server.models import ModelChoice
from proxy_engine.server.unknown_fields import HEADER

PATH = "/v1/audio/transcriptions"
SPEECH = speech_file().read_bytes()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("models") / "tiny-whisper")


@pytest.fixture(scope="module")
def whisper(directory: Path) -> Iterator[InferenceEngine]:
    with InferenceEngine(str(directory), on_progress=None) as engine:
        yield engine


@pytest.fixture(scope="module")
def speech(whisper: InferenceEngine) -> Iterator[Live]:
    """A server with a speech model."""
    with serving_engine(whisper) as live:
        yield live


@pytest.fixture(scope="module")
def expected(whisper: InferenceEngine) -> Transcript[Any]:
    """The transcript by the library."""
    return whisper.transcribe(speech_file(), temperature=0.1)


@pytest.fixture(scope="module")
def http(speech: Live) -> Iterator[httpx.Client]:
    with speech.http() as http:
        yield http


def post(
    http: httpx.Client, content: bytes = SPEECH, path: str = PATH, **fields: Any
) -> httpx.Response:
    # One temperature: random weights never pass the thresholds of the others.
    data = {"temperature": 0.1, **fields}
    return http.post(path, files={"file": ("speech.wav", content)}, data=data)


def error_of(reply: httpx.Response) -> dict[str, Any]:
    error = reply.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return {"status": reply.status_code, **error}


def transcribe(live: Live, **arguments: Any) -> Any:
    given = {"model": model_name(live), "file": speech_file(), "temperature": 0.1, **arguments}
    return live.client().audio.transcriptions.create(**given)


def model_name(live: Live) -> str:
    return live.client().models.list().data[0].id


def test_text_and_token_counts_are_those_of_the_library(
    speech: Live, expected: Transcript[Any]
) -> None:
    transcription = transcribe(speech)
    assert transcription.text == expected.text
    usage = transcription.usage
    assert usage.type == "tokens"
    assert usage.output_tokens == expected.usage.completion_tokens
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    # 50 positions of the encoder for each second.
    details = usage.input_token_details
    assert details.audio_tokens == 51
    assert details.text_tokens == usage.input_tokens - 51 > 0


def test_lead_in_is_left_out_of_the_text(http: httpx.Client) -> None:
    reply = post(http, regex="[0-9]{3}", lead_in="(?=a)[a-z]{2,5}", response_format="verbose_json")
    text, lead_in = reply.json()["text"], reply.json().get("lead_in", "")
    assert re.fullmatch("[0-9]{3}", text)
    assert re.fullmatch("(a[a-z]{1,4})?", lead_in)
    assert reply.json()["segments"][0]["text"] == text


def test_subtitles_are_text(speech: Live, expected: Transcript[Any]) -> None:
    assert transcribe(speech, response_format="srt") == expected.to_srt()


def test_verbose_json_has_segments_and_words(speech: Live) -> None:
    verbose = transcribe(
        speech, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert isinstance(verbose, TranscriptionVerbose)
    assert verbose.duration == pytest.approx(1.018, abs=0.001)
    assert verbose.segments
    assert "".join(one.text for one in verbose.segments).strip() == verbose.text
    assert verbose.words
    assert "".join(one.word for one in verbose.words) == verbose.text.replace(" ", "")


def test_stream_has_the_text_in_pieces(speech: Live, expected: Transcript[Any]) -> None:
    events = [*transcribe(speech, stream=True)]
    assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * (len(events) - 1)
    done = events[-1]
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in events[:-1]).strip() == done.text == expected.text
    assert done.usage.output_tokens == expected.usage.completion_tokens


def test_translation_is_its_own_task(http: httpx.Client) -> None:
    path = "/v1/audio/translations"
    assert post(http, path=path, response_format="verbose_json").json()["task"] == "translate"
    # The transcript is in English, whatever the spoken language.
    assert post(http, path=path, language="de").headers[HEADER] == "language"


@pytest.mark.parametrize(
    ("field", "value", "pattern"),
    [
        ("regex", "[0-9]{3}-[0-9]{4}", r"[0-9]{3}-[0-9]{4}"),
        ("choice", ["lights on", "lights off"], "lights (on|off)"),
        ("grammar", 'root ::= "go " ("left" | "right")', "go (left|right)"),
        ("json_schema", '{"type": "object", "properties": {"n": {"enum": ["on", "off"]}}, "required": ["n"], "additionalProperties": false}', r'\{\s*"n"\s*:\s*"(on|off)"\s*\}'),
    ],
)  # fmt: skip
def test_transcript_matches_its_constraint(
    speech: Live, http: httpx.Client, field: str, value: Any, pattern: str
) -> None:
    from_form = post(http, **{field: value}).json()["text"]
    assert re.fullmatch(pattern, from_form)
    if isinstance(value, list):
        # OpenAI's client adds brackets to the names of lists.
        from_client = transcribe(speech, extra_body={field: value}).text
        assert from_client == from_form


@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"regex": "a", "choice": ["b"]}, 400, "regex", "conflicting_values"),
        ({"regex": "(a"}, 400, "regex", "invalid_pattern"),
        ({"json_schema": "{"}, 400, "json_schema", "invalid_schema"),
        ({"grammar": "root ::= ("}, 400, "grammar", "invalid_grammar"),
        ({"lead_in": "a"}, 400, "lead_in", "invalid_value"),
        ({"lead_in": "(", "regex": "a"}, 400, "lead_in", "invalid_value"),
        ({"language": "xx"}, 400, "language", "invalid_value"),
        ({"stream": "true", "response_format": "srt"}, 400, "response_format", "unsupported"),
        ({"timestamp_granularities[]": "word"}, 400, "timestamp_granularities", "unsupported"),
        ({"timestamp_granularities": "word", "response_format": "verbose_json", "regex": "a"}, 400, "timestamp_granularities", "unsupported"),
        ({"model": "no/such"}, 404, "model", "model_not_found"),
        ({"temperature": "2"}, 400, "temperature", "invalid_value"),
        ({"temperature": "nan"}, 400, "temperature", "invalid_value"),
        ({"response_format": "diarized_json"}, 400, "response_format", "invalid_value"),
        ({"timestamp_granularities": "letter"}, 400, "timestamp_granularities", "invalid_value"),
        ({"json_mode": "1"}, 400, "json_mode", "unsupported_parameter"),
    ],
)  # fmt: skip
def test_invalid_field_is_named(
    http: httpx.Client, fields: dict[str, Any], status: int, param: str, code: str
) -> None:
    error = error_of(post(http, **fields))
    assert (error["status"], error["param"], error["code"]) == (status, param, code)


@pytest.mark.parametrize(
    ("content", "media_type", "words"),
    [
        (b"", "audio/wav", "0 bytes"),
        (b"no audio" * 9, "audio/wav", "no known format"),
        (SPEECH[:5000], "audio/wav", "cut off"),
        (wav(sine(0.1), rate=0), "audio/wav", "damaged"),
    ],
)
def test_invalid_recording_is_refused(
    http: httpx.Client, content: bytes, media_type: str, words: str
) -> None:
    reply = http.post(PATH, files={"file": ("a.wav", content, media_type)})
    error = error_of(reply)
    assert (error["status"], error["param"], error["code"]) == (400, "file", "invalid_media")
    assert words in error["message"]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"file": "a"}', {"Content-Type": "application/json"}, 400),
        (b"file=a", {"Content-Type": "application/x-www-form-urlencoded"}, 400),
        (b"", {}, 400),
        (b"a", {"Content-Type": "multipart/form-data"}, 400),
        (b"a", {"Content-Type": "multipart/form-data; boundary=b"}, 400),
        (b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\na\r\n--b--\r\n', {"Content-Type": "multipart/form-data; boundary=b"}, 400),
    ],
)  # fmt: skip
def test_body_without_a_file_is_refused(
    http: httpx.Client, content: bytes, headers: dict[str, str], status: int
) -> None:
    assert error_of(http.post(PATH, content=content, headers=headers))["status"] == status


def test_second_file_is_refused(http: httpx.Client) -> None:
    part = ("file", ("a.wav", SPEECH))
    assert error_of(http.post(PATH, files=[part, part]))["status"] == 400


def test_limits_of_size_and_length(directory: Path) -> None:
    settings = make_settings(
        model=str(directory), max_audio_bytes=40_000, max_audio_seconds=1.03, api_key="secret"
    )
    with serving(create_app(settings)) as live, live.http() as http:
        assert error_of(post(http))["status"] == 401
        http.headers["Authorization"] = "Bearer secret"
        assert post(http, choice="yes").json()["text"] == "yes"
        assert http.get("/v1/models").json()["data"][0]["input_modalities"] == ["audio"]
        long = error_of(post(http, wav(sine(1.1))))
        assert (long["status"], long["code"], long["param"]) == (400, "audio_too_long", "file")
        assert "--max-audio-seconds" in long["message"]
        large = error_of(post(http, bytes(50_000)))
        assert (large["status"], large["code"], large["param"]) == (413, "audio_too_large", "file")
        assert "--max-audio-bytes" in large["message"]


def test_larger_body_is_refused_while_it_arrives(whisper: InferenceEngine) -> None:
    def content() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(10):
            yield bytes(2**20)

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    with serving_engine(whisper, max_audio_bytes=1_000) as live, live.http() as http:
        reply = http.post(PATH, content=content(), headers=headers)
        assert error_of(reply)["code"] == "body_too_large"
        assert reply.status_code == 413
        # With its size in a header.
        assert error_of(post(http, bytes(9 * 2**20)))["code"] == "body_too_large"


def test_model_of_text_is_refused_for_recordings(live: Live) -> None:
    with live.http() as http:
        error = error_of(post(http, model=model_name(live)))
    assert (error["status"], error["param"], error["code"]) == (400, "model", "unsuitable_model")
    assert "reads audio" in error["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
        ("completions", {"prompt": "Hello"}),
        ("responses", {"input": "Hello", "stream": True}),
    ],
)
def test_speech_model_is_refused_for_prompts(
    speech: Live, http: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    error = error_of(http.post(f"/v1/{path}", json={**body, "model": model_name(speech)}))
    assert (error["status"], error["param"], error["code"]) == (400, "model", "unsuitable_model")
    assert "/v1/audio/transcriptions" in error["message"]


def test_recordings_are_counted_and_logged(
    speech: Live, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = speech.services.metrics
    names = ("answers_started_total", "request_success_total", "e2e_request_latency_seconds_count")
    before = [metrics.value(name) for name in names]
    tokens = metrics.value("generation_tokens_total")
    with caplog.at_level("INFO"):
        usage = post(http).json()["usage"]
        assert post(http, b"").status_code == 400
    assert [metrics.value(name) for name in names] == [count + 2 for count in before]
    assert metrics.value("generation_tokens_total") == tokens + usage["output_tokens"]
    assert metrics.value("request_success_total", finished_reason="failed") >= 1
    fields = [record.__dict__.get("fields", {}) for record in caplog.records]
    assert any(one.get("audio_seconds") == 1.02 for one in fields)


async def test_full_queue_refuses_recordings(whisper: InferenceEngine) -> None:
    with serving_engine(whisper, max_running=1, max_queue=0) as live, live.http() as http:
        async with live.services.admission.admit(1, ModelChoice(transcribes=True)):
            error = error_of(await asyncio.to_thread(post, http))
        assert (error["status"], error["code"]) == (503, "queue_full")
        assert post(http, choice="yes").status_code == 200


@pytest.mark.parametrize("is_streamed", [False, True])
def test_disconnect_cancels_the_transcription(speech: Live, is_streamed: bool) -> None:
    metrics = speech.services.metrics
    before = metrics.value("request_success_total", finished_reason="cancelled")
    request: dict[str, Any] = {"files": {"file": ("a.wav", wav(sine(240)))}}
    with httpx.Client(base_url=speech.url, timeout=60) as client:
        if is_streamed:
            with client.stream("POST", PATH, **request, data={"stream": "true"}) as reply:
                assert "delta" in next(reply.iter_lines())
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post(PATH, **request, timeout=0.3)
    wait_until(
        lambda: metrics.value("request_success_total", finished_reason="cancelled") == before + 1
    )
    wait_until(lambda: not speech.services.admission.running)
    with speech.http() as http:
        assert post(http, choice="yes").json()["text"] == "yes"


def test_shutdown_ends_running_transcriptions(whisper: InferenceEngine) -> None:
    request: dict[str, Any] = {"files": {"file": ("a.wav", wav(sine(240)))}}
    with serving_engine(whisper) as live:
        admission = live.services.admission
        with (
            live.http() as http,
            http.stream("POST", PATH, **request, data={"stream": "true"}) as reply,
        ):
            lines = reply.iter_lines()
            assert "delta" in next(lines)
            admission.close()
            admission.cancel_all()
            rest = [line for line in lines if line]
    assert any("shutting_down" in line for line in rest)
    assert not any("transcript.text.done" in line for line in rest)


def test_shutdown_refuses_recordings_that_are_read(whisper: InferenceEngine) -> None:
    replies: list[httpx.Response] = []

    def run() -> None:
        with speech.http() as http:
            replies.append(post(http, wav(sine(120))))

    with serving_engine(whisper) as speech:
        admission = speech.services.admission
        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: bool(admission.running))
        admission.close()
        admission.cancel_all()
        thread.join(60)
    assert error_of(replies[0])["code"] == "shutting_down"


def test_parakeet_model_transcribes_without_constraints(tmp_path: Path) -> None:
    model = write_tiny_parakeet(tmp_path / "parakeet", CTC_CONFIG, seed=7)
    with serving(create_app(make_settings(model=str(model)))) as live, live.http() as http:
        verbose = post(http, response_format="verbose_json").json()
        assert verbose["text"]
        assert verbose["segments"][0]["avg_logprob"] is None
        error = error_of(post(http, choice="yes"))
        assert (error["status"], error["param"]) == (400, "model")
        assert "without constraints" in error["message"]
        error = error_of(post(http, path="/v1/audio/translations"))
        assert (error["status"], error["param"]) == (400, "model")
        assert error_of(post(http, language="de"))["param"] == "language"


def test_documentation_describes_the_form(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    body = document["paths"][PATH]["post"]["requestBody"]["content"]["multipart/form-data"]
    name = body["schema"]["$ref"].rsplit("/", 1)[1]
    properties = document["components"]["schemas"][name]["properties"]
    assert {"file", "language", "regex", "stream"} <= set(properties)
    json.dumps(document)


def wait_until(is_reached: Any) -> None:
    for _ in range(3_000):
        if is_reached():
            return
        time.sleep(0.01)
    raise AssertionError("not reached")
