"""Media in messages: neither counted as text nor logged."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from live_server import Live, serving_engine
from recordings import sine, speech_file, wav
from vision_models import AUDIO_ARCHITECTURES, vision_checkpoint

from proxy_engine import InferenceEngine, MediaOptions
from proxy_engine.conversation.messages import RawPrompt
from proxy_engine.server.message_content import prompt_characters, without_media

DATA = "A" * 5000


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{DATA}"},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "image", "data": DATA, "media_type": "image/png"},
        {"type": "audio", "data": DATA},
    ],
)
def test_media_count_no_characters_and_are_shown_by_size(part: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]
    assert prompt_characters(messages) < 100
    (shown,) = without_media(messages)
    assert shown["content"][0]["text"] == "What is it?"
    assert shown["content"][1]["type"] == part["type"]
    assert shown["content"][1]["characters"] > len(DATA)
    assert DATA not in str(shown)
    assert part in messages[0]["content"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": f"data:image/png;base64,{DATA}"},
        {"role": "user", "content": [{"type": "text", "text": DATA}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_data": DATA}}]},
        {
            "role": "assistant",
            "tool_calls": [{"name": "f", "arguments": {"type": "image", "data": DATA}}],
        },
        {"role": "assistant", "reasoning_content": DATA},
        {"role": "user", "content": [{"type": ["image"], "data": DATA}]},
    ],
)
def test_everything_else_counts(message: dict[str, Any]) -> None:
    assert prompt_characters([message]) > len(DATA)
    assert without_media([message]) == [message]


@pytest.mark.parametrize("prompt", ["text", RawPrompt("text")])
def test_other_prompts_are_unchanged(prompt: Any) -> None:
    assert without_media(prompt) is prompt


# Recordings in chat completions and responses, over HTTP.


WAV = speech_file("speech.wav").read_bytes()
MP3 = speech_file("speech.mp3").read_bytes()


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose model reads recordings."""
    name = AUDIO_ARCHITECTURES[0]
    directory = vision_checkpoint(name, tmp_path_factory.mktemp("models") / name)
    media = MediaOptions(max_audio_bytes=40_000, max_audio_seconds=1.1)
    with InferenceEngine(directory, media=media) as engine, serving_engine(engine) as live:
        yield live


def part(data: bytes, form: str = "wav") -> dict[str, Any]:
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "input_audio", "input_audio": {"data": encoded, "format": form}}


def ask(live: Live, *parts: dict[str, Any]) -> Any:
    content = [*parts, {"type": "text", "text": "What was said?"}]
    return live.client().chat.completions.create(
        model=live.client().models.list().data[0].id,
        messages=[{"role": "user", "content": content}],  # type: ignore[list-item, misc]
        max_tokens=8,
        temperature=0,
    )


def test_answer_depends_on_the_recording(hearing: Live) -> None:
    spoken, tone = ask(hearing, part(WAV)), ask(hearing, part(wav(sine(1.0))))
    assert spoken.choices[0].message.content != tone.choices[0].message.content
    details = spoken.usage.prompt_tokens_details
    assert 0 < details.audio_tokens < spoken.usage.prompt_tokens
    assert ask(hearing).usage.prompt_tokens_details.audio_tokens == 0


def test_mp3_is_read(hearing: Live) -> None:
    usage = ask(hearing, part(MP3, "mp3")).usage
    assert usage.prompt_tokens_details.audio_tokens > 0


@pytest.mark.parametrize(
    ("data", "form", "code", "words"),
    [
        (b"", "wav", "invalid_media", "0 bytes"),
        (WAV[:5000], "wav", "invalid_media", "cut off"),
        (wav(sine(1.2)), "wav", "audio_too_long", "--max-audio-seconds"),
    ],
)
def test_invalid_recording_is_refused_by_its_part(
    hearing: Live, data: bytes, form: str, code: str, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(hearing, part(data, form))
    error: Any = caught.value.body
    assert error["param"] == "messages[0].content[0]"
    assert error["code"] == code
    assert words in error["message"]


def test_large_recording_is_too_large(hearing: Live) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(hearing, part(bytes(50_000)))
    assert caught.value.status_code == 413
    assert caught.value.code == "audio_too_large"


def test_model_that_reads_no_audio_refuses_recordings(vision: Live, live: Live) -> None:
    for server in (vision, live):
        with pytest.raises(openai.BadRequestError, match="audio") as caught:
            ask(server, part(WAV))
        error: Any = caught.value.body
        assert error["param"] == "messages[0].content[0]"


def test_response_reads_recordings(hearing: Live) -> None:
    content = [part(WAV), {"type": "input_text", "text": "What was said?"}]
    response = hearing.client().responses.create(
        model=hearing.client().models.list().data[0].id,
        input=[{"role": "user", "content": content}],  # type: ignore[list-item, misc]
        max_output_tokens=8,
    )
    assert response.usage is not None
    assert response.usage.input_tokens_details.model_dump()["audio_tokens"] > 0
