"""Answers about audio recordings, of a model that reads images and audio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import mlx_vlm.utils
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from vision_engines import VisionEngine
from vision_models import (
    AUDIO_ARCHITECTURES,
    sample_image,
    sample_recording,
    vision_checkpoint,
)
from vision_reference import reference_tokens

from proxy_engine import (
    AudioContent,
    ImageContent,
    InferenceEngine,
    Interaction,
    MediaOptions,
    TextContent,
)
from proxy_engine.media.audio import load_audio

# Of the feature extractor of gemma4, with the numbers of all its checkpoints.
pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filter has all zero values")

Part: TypeAlias = "str | Image.Image | AudioContent"

GREEDY: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 8, "min_tokens": 8}
RATE = 16_000
FIRST, SECOND = (
    AudioContent(array=(sample_recording(seed, 0.4 + 0.2 * seed), RATE)) for seed in range(2)
)
PHOTO = sample_image(0)


@pytest.fixture(scope="module", params=AUDIO_ARCHITECTURES)
def audio(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VisionEngine]:
    path = vision_checkpoint(request.param, tmp_path_factory.mktemp("audio") / request.param)
    with VisionEngine.open(request.param, path) as opened:
        yield opened


def _prompt(parts: Sequence[Part]) -> list[Interaction]:
    content = [
        TextContent(part)
        if isinstance(part, str)
        else ImageContent(image=part)
        if isinstance(part, Image.Image)
        else part
        for part in parts
    ]
    return [Interaction("user", content)]


def _samples(recording: AudioContent) -> npt.NDArray[np.float32]:
    assert recording.data is not None
    return load_audio(recording.data, MediaOptions(), RATE).samples


def _reference(audio: VisionEngine, parts: Sequence[Part]) -> list[int]:
    """Return mlx-vlm's answer to the parts in the order of the message."""
    tokenizer = mlx_vlm.utils.load_processor(audio.path, add_detokenizer=False).tokenizer
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image" if isinstance(part, Image.Image) else "audio"}
        for part in parts
    ]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    return reference_tokens(
        audio.path,
        prompt,
        [part for part in parts if isinstance(part, Image.Image)],
        recordings=[_samples(part) for part in parts if isinstance(part, AudioContent)],
    )


def _tokens(engine: InferenceEngine, parts: Sequence[Part]) -> list[int]:
    return list(engine.generate(_prompt(parts), **GREEDY).token_ids)


MESSAGES: tuple[tuple[Part, ...], ...] = (
    (FIRST, "What is said?"),
    (SECOND, "What is said?"),
    (PHOTO, FIRST, "What is it?"),
    (FIRST, PHOTO, SECOND, "What is it?"),
)


def test_answers_to_recordings_are_those_of_mlx_vlm(audio: VisionEngine) -> None:
    expected = [_reference(audio, parts) for parts in MESSAGES]

    for engine in (audio.uncached, audio.engine):
        assert [_tokens(engine, parts) for parts in MESSAGES] == expected
        results = engine.generate_batch([_prompt(parts) for parts in MESSAGES], **GREEDY)
        assert [list(result.token_ids) for result in results] == expected
    assert len(set(map(tuple, expected))) == len(expected)


def test_tokens_of_recordings_are_counted(audio: VisionEngine) -> None:
    usage = audio.engine.generate(_prompt(MESSAGES[2]), **GREEDY).usage

    assert usage.audio_tokens > 0
    assert usage.image_tokens > 0
    assert usage.audio_tokens + usage.image_tokens < usage.prompt_tokens
