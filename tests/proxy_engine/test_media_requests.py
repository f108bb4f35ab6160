"""Media in requests to a model that reads text alone: refused before it runs, or placeholders."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import (
    AudioContent,
    GenerationOptions,
    ImageContent,
    InferenceEngine,
    Interaction,
    InvalidOptionError,
    MediaError,
    MediaOptions,
)

URL = f"data:image/png;base64,{base64.b64encode(b'no image').decode()}"
PICTURE = {"type": "image_url", "image_url": {"url": URL}}


def said(role: str, *parts: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content}


HISTORY = [said("user", "a ", PICTURE, PICTURE), said("assistant", "b"), said("user", "c")]


def test_image_in_the_newest_turn_is_refused_before_the_model_runs(
    tiny_engine: InferenceEngine,
) -> None:
    prompt = [said("user", "a"), said("assistant", "b"), said("user", "c", PICTURE)]
    for call in (tiny_engine.generate, tiny_engine.stream):
        with pytest.raises(
            MediaError, match=r"messages\[2\]\.content\[1\]: the model does not read image"
        ):
            call(prompt)
    assert tiny_engine.running_requests == tiny_engine.queued_requests == 0


def test_history_has_placeholders(tiny_engine: InferenceEngine) -> None:
    result = tiny_engine.generate(HISTORY, max_tokens=4, seed=1)
    plain = [said("user", "a [2 images]"), *HISTORY[1:]]
    assert result.text == tiny_engine.generate(plain, max_tokens=4, seed=1).text
    assert result.usage.prompt_tokens == len(
        tiny_engine.tokenizer.apply_chat_template(
            [{**turn, "content": text} for turn, text in zip(plain, ("a [2 images]", "b", "c"), strict=True)],
            add_generation_prompt=True,
        )
    )  # fmt: skip


def test_history_can_be_an_error(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper, tiny_engine: InferenceEngine
) -> None:
    with pytest.raises(MediaError, match=r"messages\[0\]\.content\[1\]"):
        tiny_engine.generate(HISTORY, media_in_history="error")
    options = GenerationOptions(media_in_history="error", max_tokens=4)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        with pytest.raises(MediaError):
            engine.generate(HISTORY)
        engine.generate(HISTORY, media_in_history="placeholder")
    with pytest.raises(InvalidOptionError):
        tiny_engine.generate("x", media_in_history="nothing")  # type: ignore[arg-type]


def test_media_that_are_not_read_are_not_loaded(tiny_engine: InferenceEngine) -> None:
    """A placeholder needs neither the URL nor the file."""
    contents = (
        ImageContent(url="http://127.0.0.1:1/x.png"),
        ImageContent(data=b"damaged"),
        AudioContent(data=b""),
    )
    for content in contents:
        prompt = [Interaction("user", [content]), *HISTORY[1:]]
        tiny_engine.generate(prompt, max_tokens=2)


def test_media_options_are_checked(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    with pytest.raises(InvalidOptionError, match="media should be an instance of MediaOptions"):
        InferenceEngine(tiny_model, tiny_tokenizer, media={"max_images": 1})  # type: ignore[arg-type]
    for wrong in (
        {"max_images": -1},
        {"max_image_pixels": 10**9},
        {"max_image_bytes": 0},
        {"url_timeout": 0},
        {"allow_urls": "yes"},
        {"allow_file_urls": True},
    ):
        with pytest.raises(InvalidOptionError, match=next(iter(wrong))):
            MediaOptions(**wrong)  # type: ignore[arg-type]
