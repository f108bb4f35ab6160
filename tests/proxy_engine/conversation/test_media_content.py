"""Sources of images and recordings: data, URLs, files, Pillow's images, arrays; never by a dict."""

from __future__ import annotations

import base64
import copy
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from proxy_engine import (
    AudioContent,
    ImageContent,
    Interaction,
    MediaError,
    MediaOptions,
    PromptError,
)
from proxy_engine.conversation.content import Content
from proxy_engine.media.audio import load_audio
from proxy_engine.media.images import load_image

PICTURE = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
SAMPLES = np.sin(np.arange(1600) / 20).astype(np.float32) / 2
OPTIONS = MediaOptions()


def content_from_dict(part: Any) -> Content:
    return Interaction.from_dict({"role": "user", "content": [part]}).content[0]


def png() -> bytes:
    file = io.BytesIO()
    PICTURE.save(file, "PNG")
    return file.getvalue()


def test_file_is_read_when_the_content_is_created(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(png())
    content = ImageContent(path=path)
    path.unlink()
    assert content == ImageContent(path=_written(tmp_path, png()))
    assert content == ImageContent(data=png(), media_type="image/png")
    assert str(tmp_path) not in json.dumps(content.to_dict())
    assert (np.asarray(load_image(content, OPTIONS).image) == np.asarray(PICTURE)).all()


def _written(directory: Path, data: bytes) -> str:
    path = directory / "again"
    path.write_bytes(data)
    return str(path)


def test_image_of_pillow_is_encoded_without_loss() -> None:
    content = ImageContent(image=PICTURE)
    assert content.media_type == "image/png"
    assert (np.asarray(load_image(content, OPTIONS).image) == np.asarray(PICTURE)).all()
    assert ImageContent(image=PICTURE) == content
    assert hash(ImageContent(image=PICTURE.copy())) == hash(content)


@pytest.mark.parametrize("channels", [None, 1, 2])
def test_array_is_encoded_as_wav(channels: int | None) -> None:
    samples = SAMPLES if channels is None else np.stack([SAMPLES] * channels, axis=1)
    content = AudioContent(array=(samples, 16_000))
    assert content.media_type == "audio/wav"
    loaded = load_audio(content, OPTIONS, 16_000)
    assert loaded.samples == pytest.approx(SAMPLES, abs=1 / 32_768)


def test_integer_samples_are_encoded_exactly() -> None:
    samples = np.array([-32_768, -1, 0, 1, 32_767], np.int16)
    loaded = load_audio(AudioContent(array=(samples, 8_000)), OPTIONS, 8_000)
    assert (loaded.samples * 32_768 == samples).all()


@pytest.mark.parametrize(
    ("kind", "sources"),
    [
        (ImageContent, {}),
        (ImageContent, {"data": b"x", "url": "x"}),
        (ImageContent, {"data": b"x", "image": PICTURE}),
        (ImageContent, {"image": PICTURE, "path": "x"}),
        (ImageContent, {"data": "x"}),
        (ImageContent, {"url": b"x"}),
        (ImageContent, {"path": 5}),
        (ImageContent, {"image": np.zeros((2, 2, 3))}),
        (ImageContent, {"image": "x"}),
        (ImageContent, {"data": b"x", "media_type": 5}),
        (AudioContent, {}),
        (AudioContent, {"array": SAMPLES}),
        (AudioContent, {"array": (SAMPLES,)}),
        (AudioContent, {"array": (SAMPLES, "16000")}),
        (AudioContent, {"array": (["x"], 16_000)}),
        (AudioContent, {"array": ([], 16_000)}),
        (AudioContent, {"array": (SAMPLES, 16_000), "data": b"x"}),
        (AudioContent, {"path": []}),
    ],
)
def test_wrong_sources_are_refused(kind: Any, sources: dict[str, Any]) -> None:
    with pytest.raises(PromptError):
        kind(**sources)


@pytest.mark.parametrize("kind", [ImageContent, AudioContent])
def test_file_that_cannot_be_read_is_named(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "missing.png", str(tmp_path), "nul\0byte"):
        with pytest.raises(MediaError, match="cannot read the"):
            kind(path=path)
    with pytest.raises(MediaError, match=r"missing\.png.*No such file"):
        kind(path="missing.png")


@given(
    st.sampled_from(["path", "image", "array", "file", "local_path"]),
    st.sampled_from(["image", "audio", "image_url", "input_image", "input_audio"]),
    st.just("/etc/passwd") | st.just("file:///etc/passwd") | st.just({"url": "/etc/passwd"}),
)
def test_dict_names_no_file(key: str, kind: str, value: Any) -> None:
    for part in ({"type": kind, key: value}, {"type": kind, "url": "https://x.org", key: value}):
        with pytest.raises(PromptError):
            content_from_dict(part)


@pytest.mark.parametrize("url", ["/etc/passwd", "file:///etc/passwd", "FILE:/etc/passwd", "passwd"])
def test_path_in_a_url_is_not_read(url: str) -> None:
    for part in (
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": url},
        {"type": "input_image", "image_url": url},
        {"type": "image", "url": url},
        {"type": "audio_url", "audio_url": {"url": url}},
    ):
        content = content_from_dict(part)
        assert isinstance(content, ImageContent | AudioContent)
        with pytest.raises(MediaError, match="not a URL that can be read"):
            (load_image if content.kind == "image" else load_audio)(content, OPTIONS)  # type: ignore[operator]


def test_forms_of_images_are_equal() -> None:
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": url, "detail": "high"}},
        {"type": "image_url", "image_url": url},
        {"type": "input_image", "image_url": url},
        {"type": "input_image", "image_url": url, "detail": "auto"},
        ImageContent(data=png()).to_dict(),
    ]
    assert {content_from_dict(part) for part in parts} == {ImageContent(data=png())}


@pytest.mark.parametrize("form", ["wav", "mp3", "flac"])
def test_input_audio_round_trip(form: str) -> None:
    data = base64.b64encode(b"x").decode()
    part = {"type": "input_audio", "input_audio": {"data": data, "format": form}}
    content = content_from_dict(part)
    assert content == AudioContent(
        data=b"x", media_type="audio/mpeg" if form == "mp3" else f"audio/{form}"
    )
    assert Interaction("user", content).to_message()["content"] == [part]
    assert content_from_dict(content.to_dict()) == content


@pytest.mark.parametrize(
    "content",
    [
        ImageContent(image=PICTURE),
        ImageContent(url="https://example.org/x.png", media_type="image/png"),
        AudioContent(array=(SAMPLES, 16_000)),
    ],
)
def test_content_can_be_copied_and_pickled(content: Any) -> None:
    for again in (
        copy.deepcopy(content),
        pickle.loads(pickle.dumps(content)),
        content_from_dict(json.loads(json.dumps(content.to_dict()))),
        replace(content),
    ):
        assert again == content
        assert hash(again) == hash(content)
    turn = Interaction("user", ["What?", content][1:])
    assert Interaction.from_dict(json.loads(json.dumps(turn.to_message()))).content == (
        (content,) if content.data else (ImageContent(url=content.url),)
    )
