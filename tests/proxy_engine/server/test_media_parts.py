"""Media in messages: neither counted as text nor logged."""

from __future__ import annotations

from typing import Any

import pytest

from proxy_engine.conversation.messages import RawPrompt
from proxy_engine.server.media_parts import prompt_characters, without_media

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
