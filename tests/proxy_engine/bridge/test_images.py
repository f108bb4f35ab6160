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


def chat(id: str, url: str) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]
    messages = [{"role": "user", "content": parts}]
    return {"cmd": "chat", "id": id, "messages": messages, "max_tokens": 8, "temperature": 0}


def data_url(seed: int) -> str:
    file = io.BytesIO()
    sample_image(seed).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def test_answer_depends_on_the_image(engine: InferenceEngine) -> None:
    async def main() -> None:
        client = Client(lambda command: engine)
        client.send({"cmd": "load"})
        first, second = [
            await client.ask(chat(id, data_url(seed))) for id, seed in (("a", 1), ("b", 2))
        ]
        assert first["result"]["token_ids"] != second["result"]["token_ids"]
        assert first["result"]["usage"]["image_tokens"] > 0

    asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/a.png", "https://a.example/b.png", "file:///etc/passwd", "/etc/passwd"],
)
def test_bridge_opens_neither_urls_nor_files(engine: InferenceEngine, url: str) -> None:
    async def main() -> None:
        client = Client(lambda command: engine)
        client.send({"cmd": "load"})
        error = (await client.ask(chat("a", url)))["error"]
        assert error["type"] == "MediaError"
        assert error["facts"]["where"] == "messages[0].content[0]"
        assert error["facts"]["limit"] == ("allow_urls" if url.startswith("http") else None)

    asyncio.run(main())


def test_urls_can_be_allowed(directory: Path) -> None:
    command = LoadCommand(cmd="load", path=str(directory), allow_image_urls=True)

    async def main(engine: InferenceEngine) -> None:
        client = Client(lambda command: engine)
        client.send({"cmd": "load"})
        # A private address is refused after the URL was accepted.
        error = (await client.ask(chat("a", "http://127.0.0.1:9/a.png")))["error"]
        assert error["type"] == "MediaError"
        assert error["facts"]["limit"] != "allow_urls"

    with load_engine(command) as engine:
        asyncio.run(main(engine))
