"""Messages with images through the bridge."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bridge_clients import Client
from vision_models import sample_image, vision_checkpoint

from proxy_engine import InferenceEngine
from proxy_engine.bridge.commands import LoadCommand
from proxy_engine.bridge.process import load_engine


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vision_checkpoint("qwen2_vl", tmp_path_factory.mktemp("models") / "qwen2_vl")


@pytest.fixture(scope="module")
def engine(directory: Path) -> Iterator[InferenceEngine]:
    with load_engine(LoadCommand(cmd="load", path=str(directory))) as engine:
        yield engine


def chat(url: str) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]
    messages = [{"role": "user", "content": parts}]
    return {"cmd": "chat", "messages": messages, "max_tokens": 8, "temperature": 0}


def data_url(seed: int) -> str:
    file = io.BytesIO()
    sample_image(seed).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def replies(engine: InferenceEngine, *urls: str) -> list[list[dict[str, Any]]]:
    found = []

    async def main() -> None:
        client = Client(lambda command: engine)
        await client.ask({"cmd": "load", "path": "p"})
        found.extend([await client.ask(chat(url)) for url in urls])

    asyncio.run(main())
    return found


def test_answer_depends_on_the_image(engine: InferenceEngine) -> None:
    first, second = replies(engine, data_url(1), data_url(2))
    assert "done" in first[-1]
    assert first != second


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9/a.png", "allow_urls"),
        ("https://a.example/b.png", "allow_urls"),
        ("file:///etc/passwd", ""),
        ("/etc/passwd", ""),
    ],
)
def test_bridge_opens_neither_urls_nor_files(
    engine: InferenceEngine, url: str, reason: str
) -> None:
    (((reply),),) = replies(engine, url)
    assert reply["error"].startswith("chat: ")
    assert "messages[0].content[0]" in reply["error"]
    assert reason in reply["error"]


def test_urls_can_be_allowed(directory: Path) -> None:
    command = LoadCommand(cmd="load", path=str(directory), allow_image_urls=True)
    with load_engine(command) as engine:
        # A private address is refused after the URL was accepted.
        ((reply,),) = replies(engine, "http://127.0.0.1:9/a.png")
    assert reply["error"].startswith("chat: ")
    assert "allow_urls" not in reply["error"]
