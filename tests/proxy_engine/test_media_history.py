"""Conversations with images that go on with a model of text."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import pytest
from bridge_clients import Client
from PIL import Image
from vision_models import vision_checkpoint

from proxy_engine import (
    ImageContent,
    InferenceEngine,
    Interaction,
    Role,
    TextContent,
)

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
