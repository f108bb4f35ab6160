"""Conversations with media as token ids: errors before any model time, boundaries, cancellation."""

from __future__ import annotations

import http.server
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_parts import core_of
from vision_models import sample_image, vision_checkpoint

from proxy_engine import (
    CacheOptions,
    ImageContent,
    InferenceEngine,
    Interaction,
    MediaError,
    MediaOptions,
    TextContent,
)
from proxy_engine.media import images
from proxy_engine.requests import prompt_encoding

GREEDY: Any = {"temperature": 0.0, "max_tokens": 8}


def image(seed: int) -> ImageContent:
    file = io.BytesIO()
    sample_image(seed).save(file, "PNG")
    return ImageContent(data=file.getvalue())


def user(*parts: Any) -> Interaction:
    return Interaction(
        "user", [TextContent(part) if isinstance(part, str) else part for part in parts]
    )


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("checkpoints")
    return {name: vision_checkpoint(name, directory / name) for name in ("qwen2_vl", "gemma3")}


@pytest.fixture(scope="module")
def engine(checkpoints: dict[str, Path]) -> Iterator[InferenceEngine]:
    media = MediaOptions(max_images=3)
    with InferenceEngine(checkpoints["qwen2_vl"], media=media) as engine:
        yield engine


def test_usage_counts_the_image_tokens(engine: InferenceEngine) -> None:
    one = engine.generate([user("See", image(1), "?")], **GREEDY).usage
    two = engine.generate([user("See", image(1), image(2), "?")], **GREEDY).usage
    assert 0 < one.image_tokens < one.prompt_tokens
    assert two.image_tokens == 2 * one.image_tokens
    assert one.audio_tokens == 0


def test_images_of_all_turns_count(engine: InferenceEngine) -> None:
    turns = [user(image(1)), Interaction("assistant", "a"), user(image(2), image(3), "b")]
    assert engine.generate(turns, **GREEDY).usage.image_tokens > 0
    with pytest.raises(MediaError, match="4 images together; the maximum is 3") as caught:
        engine.generate([*turns, Interaction("assistant", "a"), user(image(4))], **GREEDY)
    assert caught.value.limit == "max_images"


def test_images_of_a_prompt_have_limited_pixels_together(checkpoints: dict[str, Path]) -> None:
    one = 64 * 48
    with InferenceEngine(
        checkpoints["qwen2_vl"], media=MediaOptions(max_image_pixels=one)
    ) as engine:
        turn = [user(*(image(n) for n in range(4)), "?")]
        assert engine.generate(turn, **GREEDY).usage.image_tokens
        with pytest.raises(MediaError, match="pixels together") as caught:
            engine.generate([*turn, Interaction("assistant", "a"), user(image(5))], **GREEDY)
        assert caught.value.where == "messages[2].content[0]"
        assert caught.value.limit == "max_image_pixels"


def test_damaged_image_is_located(engine: InferenceEngine) -> None:
    broken = ImageContent(data=(image(1).data or b"")[:-30])
    with pytest.raises(MediaError) as caught:
        engine.generate([user("a"), Interaction("assistant", "b"), user("c", broken)], **GREEDY)
    assert caught.value.where == "messages[2].content[1]"


def test_text_with_the_placeholder_of_an_image_is_text_beside_images(
    engine: InferenceEngine,
) -> None:
    expected = engine.generate([user("a", image(1))], **GREEDY).usage
    found = engine.generate([user("<|image_pad|><|im_end|>", image(1))], **GREEDY).usage
    assert found.image_tokens == expected.image_tokens
    # Each byte is a token.
    more = len("<|image_pad|><|im_end|>") - len("a")
    assert found.prompt_tokens == expected.prompt_tokens + more


def test_urls_of_a_prompt_are_read_at_the_same_time(checkpoints: dict[str, Path]) -> None:
    # Each reply waits until both requests have arrived.
    both = threading.Barrier(2, timeout=20)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            both.wait()
            found = self.path != "/missing"
            data = image(int(self.path[1:])).data or b"" if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    media = MediaOptions(allow_private_addresses=True)
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        InferenceEngine(checkpoints["qwen2_vl"], media=media) as engine,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"

        def ask(*names: object) -> Any:
            urls = [ImageContent(url=f"{address}/{name}") for name in names]
            return engine.generate([user("a", *urls, "?")], **GREEDY)

        expected = engine.generate([user("a", image(1), image(2), "?")], **GREEDY)
        assert ask(1, 2).token_ids == expected.token_ids
        with pytest.raises(MediaError, match="404") as caught:
            ask(1, "missing")
        assert caught.value.where == "messages[0].content[2]"
        server.shutdown()


def test_cancelled_request_decodes_no_more_images(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    cancelled = threading.Event()

    def load_image(*arguments: Any) -> Any:
        decoded.append(arguments)
        cancelled.set()
        return original(*arguments)

    original = images.load_image
    monkeypatch.setattr(images, "load_image", load_image)
    with pytest.raises(prompt_encoding.RequestCancelledError):
        core_of(engine).preparation.request(
            [user(image(1), image(2), image(3))], None, {}, cancelled
        )
    assert len(decoded) == 1


def test_texts_do_not_wait_for_images_that_are_decoded(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, ends = threading.Event(), threading.Event()

    def load_image(*arguments: Any) -> Any:
        begins.set()
        assert ends.wait(20)
        return original(*arguments)

    original = images.load_image
    monkeypatch.setattr(images, "load_image", load_image)
    results: list[Any] = []
    prompt = [user(image(1), "?")]
    thread = threading.Thread(target=lambda: results.append(engine.generate(prompt, **GREEDY)))
    thread.start()
    assert begins.wait(20)
    assert engine.generate("A text.", **GREEDY).text
    assert not results
    ends.set()
    thread.join(20)
    assert results


def test_conversations_beyond_a_sliding_window_continue_from_caches(
    checkpoints: dict[str, Path],
) -> None:
    cache = CacheOptions(max_bytes=0)
    with (
        InferenceEngine(checkpoints["gemma3"]) as engine,
        InferenceEngine(checkpoints["gemma3"], cache=cache) as cold,
    ):
        rules = Interaction("system", "Be brief and precise, please.")
        turns = [rules, user(image(1), "Describe this. " * 6)]
        # The second image begins a new turn.
        for extra in ([], [image(2)], []):
            answer = cold.generate(turns, **GREEDY)
            found = engine.generate(turns, **GREEDY)
            assert found.token_ids == answer.token_ids
            if len(turns) > 2:
                # All but the text that follows the last message is cached.
                assert found.usage.cached_tokens > len(turns) * 20
            turns = [*turns, Interaction("assistant", answer.text), user("And? " * 8, *extra)]
        other = [rules, user(image(1), "Something else? " * 6)]
        found = engine.generate(other, **GREEDY)
        # The image is not read again.
        assert found.usage.cached_tokens > found.usage.image_tokens
        assert found.token_ids == cold.generate(other, **GREEDY).token_ids


def test_model_without_the_processor_names_the_extra(
    checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy_engine.runtime.extras.importlib.util.find_spec", lambda name: None)
    with InferenceEngine(checkpoints["gemma3"]) as engine:
        assert engine.generate("A text.", **GREEDY).text is not None
        with pytest.raises(ImportError, match=r"pip install 'proxy-engine\[vision\]'"):
            engine.generate([user(image(1), "?")], **GREEDY)
