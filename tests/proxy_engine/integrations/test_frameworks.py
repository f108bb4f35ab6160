"""What the models of all frameworks have in common: texts, usage, images, errors and cancelling."""

from __future__ import annotations

import asyncio
import base64
import io
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import openai
import pydantic_ai.direct
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMInvalidRequestError, LMServerError
from langchain_core.messages import HumanMessage
from mlx_lm.models import llama
from PIL import Image
from pydantic_ai import messages as ai
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import ModelRequestParameters
from smolagents import ChatMessage, MessageRole
from tiny_models import make_tiny_model, make_tiny_tokenizer
from vision_models import vision_checkpoint

from proxy_engine import InferenceEngine
from proxy_engine.integrations.dspy import ProxyEngineLM
from proxy_engine.integrations.langchain import ChatProxyEngine
from proxy_engine.integrations.pydantic_ai import ProxyEngineModel as PydanticModel
from proxy_engine.integrations.smolagents import ProxyEngineModel as SmolModel

_FILE = io.BytesIO()
IMAGE = Image.new("RGB", (32, 32), "red")
IMAGE.save(_FILE, "PNG")
PNG = _FILE.getvalue()
BASE64 = base64.b64encode(PNG).decode()
DATA_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE64}"}}


@dataclass(frozen=True)
class Answer:
    """An answer as a framework returns it."""

    text: str
    prompt_tokens: int
    completion_tokens: int


def openai_content(text: str, has_image: bool) -> Any:
    return [{"type": "text", "text": text}, DATA_URL] if has_image else text


def ask_openai(engine: InferenceEngine, text: str, has_image: bool, **options: Any) -> Answer:
    message: Any = {"role": "user", "content": openai_content(text, has_image)}
    answer = engine.openai().chat.completions.create(model="", messages=[message], **options)
    assert answer.usage is not None
    counts = answer.usage.prompt_tokens, answer.usage.completion_tokens
    return Answer(answer.choices[0].message.content or "", *counts)


def stream_openai(engine: InferenceEngine, text: str) -> Generator[Any]:
    message: Any = {"role": "user", "content": text}
    with engine.openai().chat.completions.create(
        model="", messages=[message], stream=True, max_tokens=4000
    ) as stream:
        yield from stream


def ask_langchain(engine: InferenceEngine, text: str, has_image: bool, **options: Any) -> Answer:
    image: Any = {"type": "image", "base64": BASE64, "mime_type": "image/png"}
    blocks: Any = [{"type": "text", "text": text}, *([image] if has_image else [])]
    answer = ChatProxyEngine(engine, **options).invoke([HumanMessage(content_blocks=blocks)])
    usage = answer.usage_metadata
    assert usage is not None
    return Answer(str(answer.content), usage["input_tokens"], usage["output_tokens"])


def stream_langchain(engine: InferenceEngine, text: str) -> Generator[Any]:
    yield from ChatProxyEngine(engine, max_tokens=4000).stream(text)


def ask_dspy(engine: InferenceEngine, text: str, has_image: bool, **options: Any) -> Answer:
    lm = ProxyEngineLM(engine, cache=False, **options)
    (answer,) = lm(messages=[{"role": "user", "content": openai_content(text, has_image)}])
    usage = lm.history[-1]["usage"]
    return Answer(answer, usage["prompt_tokens"], usage["completion_tokens"])


def stream_dspy(engine: InferenceEngine, text: str) -> Generator[Any]:
    lm = ProxyEngineLM(engine, max_tokens=4000)
    request = lm15.Request(model="any", messages=(lm15.Message.user(text),))
    yield from lm.engine.stream(request)


def ask_pydantic_ai(engine: InferenceEngine, text: str, has_image: bool, **options: Any) -> Answer:
    image = [ai.BinaryContent(PNG, media_type="image/png")] if has_image else []
    request = ai.ModelRequest([ai.UserPromptPart([text, *image])])
    answer = pydantic_ai.direct.model_request_sync(
        PydanticModel(engine),
        [request],
        model_settings=options,  # type: ignore[arg-type]
    )
    return Answer(answer.text or "", answer.usage.input_tokens, answer.usage.output_tokens)


def stream_pydantic_ai(engine: InferenceEngine, text: str) -> Generator[Any]:
    async def events() -> AsyncGenerator[Any]:
        async with PydanticModel(engine).request_stream(
            [ai.ModelRequest.user_text_prompt(text)],
            {"max_tokens": 4000},
            ModelRequestParameters(),
        ) as stream:
            async for event in stream:
                yield event

    with asyncio.Runner() as runner:
        found = events()
        try:
            while True:
                yield runner.run(anext(found))
        finally:
            runner.run(found.aclose())


def smolagents_messages(text: str, has_image: bool) -> list[Any]:
    image = [{"type": "image", "image": IMAGE}] if has_image else []
    return [ChatMessage(MessageRole.USER, [{"type": "text", "text": text}, *image])]


def ask_smolagents(engine: InferenceEngine, text: str, has_image: bool, **options: Any) -> Answer:
    answer = SmolModel(engine, **options).generate(smolagents_messages(text, has_image))
    usage = answer.token_usage
    return Answer(answer.content, usage.input_tokens, usage.output_tokens)


def stream_smolagents(engine: InferenceEngine, text: str) -> Generator[Any]:
    model = SmolModel(engine, max_tokens=4000)
    yield from model.generate_stream(smolagents_messages(text, has_image=False))


@dataclass(frozen=True)
class Framework:
    """How a framework asks an engine, and its errors for a wrong request and a closed engine."""

    ask: Callable[..., Answer]
    stream: Callable[[InferenceEngine, str], Generator[Any]]
    refusal: type[Exception]
    failure: type[Exception]


OPENAI_ERRORS = openai.BadRequestError, openai.InternalServerError
FRAMEWORKS = {
    "openai": Framework(ask_openai, stream_openai, *OPENAI_ERRORS),
    "langchain": Framework(ask_langchain, stream_langchain, *OPENAI_ERRORS),
    "dspy": Framework(ask_dspy, stream_dspy, LMInvalidRequestError, LMServerError),
    "pydantic-ai": Framework(ask_pydantic_ai, stream_pydantic_ai, ModelHTTPError, ModelHTTPError),
    "smolagents": Framework(ask_smolagents, stream_smolagents, *OPENAI_ERRORS),
}


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    return FRAMEWORKS[request.param]


@pytest.fixture(scope="module")
def engine() -> Iterator[InferenceEngine]:
    with InferenceEngine(make_tiny_model(context=8192), make_tiny_tokenizer()) as engine:
        yield engine


@pytest.fixture(scope="module")
def vision_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InferenceEngine]:
    path = vision_checkpoint("qwen2_vl", tmp_path_factory.mktemp("vision") / "qwen2_vl")
    with InferenceEngine(path, on_progress=None, cache_vocabulary=False) as engine:
        yield engine


def test_text_and_usage_are_those_of_the_engine(
    engine: InferenceEngine, framework: Framework
) -> None:
    expected = engine.generate("Hello", max_tokens=9)
    answer = framework.ask(engine, "Hello", has_image=False, max_tokens=9)
    usage = expected.usage
    assert answer == Answer(expected.text, usage.prompt_tokens, usage.completion_tokens)


def test_closed_stream_cancels_its_request(
    engine: InferenceEngine, framework: Framework, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, forward = 0, llama.Model.__call__

    def counted(model: llama.Model, *arguments: Any, **options: Any) -> Any:
        nonlocal passes
        passes += 1
        return forward(model, *arguments, **options)

    monkeypatch.setattr(llama.Model, "__call__", counted)
    with closing(framework.stream(engine, "Hello")) as stream:
        next(stream)
        assert engine.running_requests == 1
    while engine.running_requests:
        time.sleep(0.001)
    assert passes < 2000


def test_image_is_a_part_of_the_prompt_of_a_model_that_reads_images(
    engine: InferenceEngine, vision_engine: InferenceEngine, framework: Framework
) -> None:
    with_image, without = (
        framework.ask(vision_engine, "What?", has_image, max_tokens=4)
        for has_image in (True, False)
    )
    # The image is more than its two markers.
    assert with_image.prompt_tokens > without.prompt_tokens + 2
    with pytest.raises(framework.refusal, match="image"):
        framework.ask(engine, "What?", has_image=True, max_tokens=4)


def test_profiles_say_whether_the_model_reads_images(
    engine: InferenceEngine, vision_engine: InferenceEngine
) -> None:
    for found, reads_images in ((engine, False), (vision_engine, True)):
        profile = ChatProxyEngine(found).profile
        assert profile is not None
        assert profile["image_inputs"] is reads_images
        assert PydanticModel(found).profile["supports_image_input"] is reads_images


def test_refused_request_raises_the_error_of_the_framework(
    engine: InferenceEngine, framework: Framework
) -> None:
    with pytest.raises(framework.refusal, match="the prompt is empty"):
        framework.ask(engine, "", has_image=False)


def test_closed_engine_raises_the_error_of_the_framework(framework: Framework) -> None:
    with InferenceEngine(make_tiny_model(), make_tiny_tokenizer()) as engine:
        pass
    with pytest.raises(framework.failure, match="the engine is closed"):
        framework.ask(engine, "Hello", has_image=False, max_tokens=9)
