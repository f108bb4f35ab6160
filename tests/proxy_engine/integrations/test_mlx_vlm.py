"""Logits processors in mlx-vlm's own generate loops."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import pytest
from pydantic import BaseModel, Field
from vision_models import sample_image, vision_checkpoint

from proxy_engine.integrations.mlx_vlm import logits_processor

mlx_vlm = pytest.importorskip("mlx_vlm")

MAX_TOKENS = 48


class Receipt(BaseModel):
    currency: Literal["EUR", "USD"]
    total: int = Field(ge=0, le=999)
    paid: list[bool] = Field(max_length=2)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A small random model and its processor."""
    directory = vision_checkpoint("qwen2_5_vl", tmp_path_factory.mktemp("models") / "model")
    return mlx_vlm.load(str(directory))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("images") / "image.png"
    sample_image(0).save(path)
    return str(path)


def prompt_of(loaded: tuple[Any, Any], text: str, images: int) -> str:
    model, processor = loaded
    prompt = mlx_vlm.apply_chat_template(processor, model.config, text, num_images=images)
    assert isinstance(prompt, str)
    return prompt


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("with_image", [False, True])
def test_generate_writes_texts_of_the_schema(
    with_image: bool, temperature: float, loaded: tuple[Any, Any], image: str
) -> None:
    mx.random.seed(3)
    model, processor = loaded
    result = mlx_vlm.generate(
        model,
        processor,
        prompt_of(loaded, "What is this?", int(with_image)),
        image=[image] if with_image else None,
        max_tokens=MAX_TOKENS,
        temperature=temperature,
        logits_processors=[logits_processor(Receipt, processor, max_tokens=MAX_TOKENS)],
    )
    Receipt.model_validate_json(result.text)


def test_stream_has_the_text(loaded: tuple[Any, Any], image: str) -> None:
    model, processor = loaded
    pieces = mlx_vlm.stream_generate(
        model,
        processor,
        prompt_of(loaded, "Read.", 1),
        image=[image],
        max_tokens=MAX_TOKENS,
        logits_processors=[logits_processor(Receipt, processor, max_tokens=MAX_TOKENS)],
    )
    Receipt.model_validate_json("".join(piece.text for piece in pieces))


def test_batch_clones_the_processor(loaded: tuple[Any, Any], image: str) -> None:
    model, processor = loaded
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        response = mlx_vlm.batch_generate(
            model,
            processor,
            images=[image, image],
            prompts=["Read.", "Read the total."],
            max_tokens=MAX_TOKENS,
            logits_processors=[logits_processor(Receipt, processor, max_tokens=MAX_TOKENS)],
        )
    assert [Receipt.model_validate_json(text) for text in response.texts]


def test_end_tokens_are_those_of_the_stopping_criteria(loaded: tuple[Any, Any]) -> None:
    _, processor = loaded
    expected = set(processor.tokenizer.stopping_criteria.eos_token_ids)
    for given in (processor, processor.tokenizer):
        assert logits_processor(Receipt, given).vocabulary.end_token_ids == expected
