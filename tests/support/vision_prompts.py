"""Prompts with images for the processor of a small multimodal model, and their forward passes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import make_prompt_cache
from vision_models import sample_image, sample_recording

from proxy_engine.conversation.prompts import EncodedPrompt
from proxy_engine.models.loading import LoadedModel
from proxy_engine.multimodal.chat_template import media_content

__all__ = ["encoded", "image", "logits_behind", "read_prompt", "recording", "rendered"]


def image(seed: int, size: tuple[int, int] = (64, 48)) -> Any:
    """Return an image with its digest."""
    pixels = sample_image(seed, size)
    return SimpleNamespace(image=pixels, digest=hashlib.sha256(pixels.tobytes()).digest())


def recording(seed: int) -> Any:
    """Return a recording with its digest."""
    samples = sample_recording(seed)
    return SimpleNamespace(samples=samples, digest=hashlib.sha256(samples.tobytes()).digest())


def rendered(loaded: LoadedModel, turns: Sequence[Sequence[str]]) -> str:
    """Return a conversation as the chat template writes it.

    Args:
        loaded: The model.
        turns: Messages of the user and the assistant by turns: texts, and ``<image>`` or
            ``<audio>`` for a medium.
    """
    messages = []
    counts = {"image": 0, "audio": 0}
    for index, pieces in enumerate(turns):
        parts: list[dict[str, Any]] = []
        for piece in pieces:
            kind = piece.strip("<>")
            if kind in counts:
                counts[kind] += 1
                parts.append({"type": kind, "number": counts[kind]})
            else:
                parts.append({"type": "text", "text": piece})
        content = media_content(loaded.model_type, parts)
        messages.append({"role": ("user", "assistant")[index % 2], "content": content})
    return str(
        loaded.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    )


def encoded(loaded: LoadedModel, turns: Sequence[Sequence[str]], *media: Any) -> EncodedPrompt:
    """Return a conversation with its media as tokens; recordings have ``samples``."""
    assert loaded.processor is not None
    recordings = [medium for medium in media if hasattr(medium, "samples")]
    images = [medium for medium in media if hasattr(medium, "image")]
    return loaded.processor.encode(rendered(loaded, turns), images, recordings)


def read_prompt(
    loaded: LoadedModel,
    prompt: EncodedPrompt,
    step: int = 2048,
    cache: list[Any] | None = None,
    cached: int = 0,
) -> tuple[list[Any], int, npt.NDArray[np.float32]]:
    """Process a prompt in passes as a prefill does.

    Args:
        loaded: The model.
        prompt: The prompt.
        step: Tokens of a pass.
        cache: Holds the first ``cached`` tokens; ``None``: an empty cache.
        cached: Tokens that need not be processed.

    Returns:
        The cache, the rope delta, and the logits behind the last token.
    """
    cache = make_prompt_cache(loaded.model) if cache is None else cache
    ids, inputs = prompt.token_ids, prompt.inputs
    delta = 0
    if inputs is not None:
        inputs.prepare(cache, cached)
        delta = inputs.rope_delta
    start = cached
    logits = mx.zeros((1, 1, 1))
    while start < len(ids):
        end = min(start + step, len(ids))
        given: dict[str, Any] = {"rope_deltas": mx.array([[delta]])} if delta else {}
        if inputs is not None:
            end = max(end, inputs.single_pass_end)
            if start < inputs.media_end:
                given = dict(inputs.arguments(start, end))
        logits = loaded.model(mx.array(ids[start:end])[None], cache=cache, **given)
        mx.eval(logits, [layer.state for layer in cache])
        start = end
    if inputs is not None:
        inputs.release()
    return cache, delta, np.array(logits[0, -1])


def logits_behind(
    loaded: LoadedModel, caches: Any, tokens: Sequence[Sequence[int]], deltas: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Return the logits behind each token of each row, shape (rows, tokens, vocabulary)."""
    given = {"rope_deltas": mx.array(deltas)[:, None]} if any(deltas) else {}
    return np.array(loaded.model(mx.array(tokens), cache=caches, **given))
