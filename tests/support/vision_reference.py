"""Greedy answers of mlx-vlm's own generation, to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx_vlm.utils
import numpy as np
import numpy.typing as npt
from mlx_vlm.generate import generate_step
from mlx_vlm.prompt_utils import apply_chat_template
from PIL import Image

__all__ = ["reference_prompt", "reference_steps", "reference_tokens"]

Recording = npt.NDArray[np.float32]


def reference_prompt(
    path: Path, prompt: str | Sequence[Mapping[str, Any]], images: int = 0, recordings: int = 0
) -> str:
    """Return the prompt that mlx-vlm makes of messages, or of one message of the user.

    Args:
        path: Directory of a checkpoint.
        prompt: A text, or messages whose content is a text or a list of parts.
        images: Number of images. Those without a part come before the text.
        recordings: Number of recordings.
    """
    config = mlx_vlm.utils.load_config(path)
    # Importing the architecture registers its processor.
    mlx_vlm.utils.get_model_and_args(config)
    processor = mlx_vlm.utils.load_processor(path, add_detokenizer=False)
    given = prompt if isinstance(prompt, str) else [dict(message) for message in prompt]
    # The checkpoint's template: mlx-vlm's processor of internvl_chat has another one.
    template = getattr(processor, "tokenizer", processor).chat_template
    own = {} if template is None else {"chat_template": template}
    rendered = apply_chat_template(
        processor, config, given, num_images=images, num_audios=recordings, **own
    )
    # Of models without a chat template, mlx-vlm returns the content of the last message.
    return str(rendered["content"] if isinstance(rendered, dict) else rendered)


def reference_tokens(
    path: Path,
    prompt: str,
    images: Sequence[Image.Image] = (),
    max_tokens: int = 8,
    *,
    recordings: Sequence[Recording] = (),
) -> list[int]:
    """Return the ids of the tokens of :func:`reference_steps`."""
    steps = reference_steps(path, prompt, images, max_tokens, recordings=recordings)
    return [token for token, _ in steps]


def reference_steps(
    path: Path,
    prompt: str,
    images: Sequence[Image.Image] = (),
    max_tokens: int = 8,
    *,
    recordings: Sequence[Recording] = (),
) -> list[tuple[int, npt.NDArray[np.float32]]]:
    """Return the tokens that mlx-vlm's ``generate_step`` chooses greedily.

    Each call loads the model, since models keep state of the last request. Generation does not stop
    at end tokens.

    Args:
        path: Directory of a checkpoint.
        prompt: The rendered prompt, with a placeholder for each image.
        images: In the order of their placeholders.
        max_tokens: Number of tokens.
        recordings: Samples at the processor's rate.

    Returns:
        The id of each token, and the logarithms of all tokens' probabilities at its position.
    """
    model, processor = mlx_vlm.utils.load(str(path))
    inputs = mlx_vlm.utils.prepare_inputs(
        processor,
        images=list(images) or None,
        audio=list(recordings) or None,
        prompts=prompt,
        image_token_index=getattr(model.config, "image_token_index", None),
        add_special_tokens=mlx_vlm.utils.should_add_special_tokens(
            model.config.model_type, processor
        ),
    )
    steps = generate_step(
        inputs.pop("input_ids"),
        model,
        inputs.pop("pixel_values", None),
        inputs.pop("attention_mask", None),
        max_tokens=max_tokens,
        temperature=0.0,
        **inputs,
    )
    return [(int(token), np.array(logprobs, np.float32)) for token, logprobs in steps]
