"""Media in requests to a model that reads text alone: refused before it runs, or placeholders."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest
from bridge_clients import Client
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from PIL import Image
from vision_models import vision_checkpoint

from proxy_engine import (
    AudioContent,
    GenerationOptions,
    ImageContent,
    InferenceEngine,
    Interaction,
    InvalidOptionError,
    MediaError,
    MediaOptions,
    Role,
    TextContent,
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
        assert tiny_engine.generate(prompt, max_tokens=2).usage.completion_tokens == 2


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


# Conversations with images that go on with a model of text.


OPTIONS: Any = {"max_tokens": 12, "temperature": 0.0}


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (56, 56), "teal").save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def vision_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InferenceEngine]:
    directory = vision_checkpoint("qwen2_vl", tmp_path_factory.mktemp("qwen2_vl"))
    with InferenceEngine(directory, on_progress=None) as engine:
        yield engine


@pytest.fixture(scope="module")
def conversation(vision_engine: InferenceEngine) -> list[Interaction]:
    """A question about an image, the answer of a multimodal model, and another question."""
    image = ImageContent(data=picture())
    question = Interaction(Role.USER, [image, TextContent("Which colour?")])
    result = vision_engine.generate([question], response_format={"enum": ["teal", "red"]})
    return [question, result.to_interaction(), Interaction(Role.USER, "Why?")]


def as_text(conversation: list[Interaction]) -> list[Interaction]:
    return [Interaction(Role.USER, "[1 image]\nWhich colour?"), *conversation[1:]]


def test_both_models_continue_the_conversation(
    conversation: list[Interaction], vision_engine: InferenceEngine, roomy_engine: InferenceEngine
) -> None:
    assert vision_engine.generate(conversation, **OPTIONS).usage.image_tokens > 0
    result = roomy_engine.generate(conversation, **OPTIONS)
    assert result.usage.image_tokens == 0
    expected = roomy_engine.generate(as_text(conversation), **OPTIONS)
    assert result.token_ids == expected.token_ids
    assert result.usage.prompt_tokens == expected.usage.prompt_tokens


def test_bridge_continues_the_conversation(
    conversation: list[Interaction], roomy_engine: InferenceEngine
) -> None:
    answers = []

    async def main() -> None:
        client = Client(lambda _: roomy_engine)
        await client.ask({"cmd": "load", "path": "p"})
        for turns in (conversation, as_text(conversation)):
            for form in ("to_dict", "to_message"):
                messages = [getattr(turn, form)() for turn in turns]
                answers.append(await client.ask({"cmd": "chat", "messages": messages, **OPTIONS}))

    asyncio.run(main())
    assert "done" in answers[0][-1]
    assert all(answer == answers[0] for answer in answers)
