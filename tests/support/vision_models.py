"""Checkpoints of small random multimodal models, as directories that mlx-vlm loads without a network.

Each has the image processor and the processor of its family, read from local configuration files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import mlx_vlm.utils
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from PIL import Image
from vision_families import FAMILIES, UNSUPPORTED_FAMILIES, Family
from vision_tokenizers import save_byte_level_tokenizer, unlikely_token_ids

__all__ = [
    "AUDIO_ARCHITECTURES",
    "VISION_ARCHITECTURES",
    "sample_image",
    "sample_recording",
    "vision_checkpoint",
]

VISION_ARCHITECTURES: tuple[str, ...] = tuple(FAMILIES)
"""Model types of the checkpoints that ``vision_checkpoint`` builds."""

AUDIO_ARCHITECTURES = tuple(name for name, family in FAMILIES.items() if family.reads_audio)
"""Model types that read audio recordings as well, at 16 kHz."""


def sample_image(seed: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Return an RGB image of coloured tiles; the same one for the same seed.

    Args:
        seed: Selects the colours.
        size: Width and height in pixels.
    """
    tiles = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(tiles).resize(size, Image.Resampling.NEAREST)


def sample_recording(seed: int, seconds: float = 0.5) -> npt.NDArray[np.float32]:
    """Return the samples of three rising tones at 16 kHz; the same ones for the same seed."""
    time = np.arange(int(16_000 * seconds)) / 16_000
    frequencies = np.random.default_rng(seed).uniform(100, 3000, (3, 1))
    tones = np.sin(2 * np.pi * frequencies * time * (1 + 0.2 * time))
    return tones.mean(axis=0).astype(np.float32)


def vision_checkpoint(name: str, directory: Path) -> Path:
    """Write the checkpoint of a family and return its directory."""
    family = {**FAMILIES, **UNSUPPORTED_FAMILIES}[name]
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in {"config.json": family.config, **family.files}.items():
        (directory / file).write_text(json.dumps(content, indent=1))
    save_byte_level_tokenizer(
        directory, family.special_tokens, family.named_tokens, family.chat_template
    )
    weights = _random_weights(_model(family), family)
    if family.tied_output:
        weights = {name: w for name, w in weights.items() if not name.endswith("lm_head.weight")}
    _make_unlikely(weights, unlikely_token_ids(family.special_tokens))
    mx.save_safetensors(str(directory / "model.safetensors"), weights, {"format": "mlx"})
    return directory


def _model(family: Family) -> Module:
    """Construct a model as ``mlx_vlm.utils.load_model`` does."""
    config = json.loads(json.dumps(family.config))
    module, _ = mlx_vlm.utils.get_model_and_args(config=config)
    config.setdefault("text_config", config.pop("llm_config", {}))
    for part in ("vision_config", "audio_config"):
        config.setdefault(part, {})
    model_config = mlx_vlm.utils.update_module_configs(
        module.ModelConfig.from_dict(config),
        module,
        config,
        ["text", "vision", "perceiver", "projector", "audio"],
    )
    model: Module = module.Model(model_config)
    return model


def _random_weights(model: Module, family: Family) -> dict[str, mx.array]:
    """Return random weights that keep the size of activations and let inputs matter.

    Vectors with a constant value, such as the weights of norms, keep it but for noise. Matrices get a
    standard deviation of ``1.5 / sqrt(inputs)``, multiplied by the family's ``gains``, so that
    the outputs of layers are not small beside the residual stream.
    """
    key = mx.random.key(family.seed)
    weights = {}
    for name, weight in tree_flatten(model.parameters()):
        key, own = mx.random.split(key)
        noise = mx.random.normal(weight.shape, key=own)
        if weight.ndim < 2:
            is_constant = bool(mx.all(weight == weight.flatten()[0]))
            weights[name] = 0.1 * noise + (weight.astype(mx.float32) if is_constant else 0)
        else:
            gain = math.prod(gain for part, gain in family.gains.items() if part in name)
            weights[name] = noise * (1.5 * gain / math.sqrt(math.prod(weight.shape[1:])))
    mx.eval(weights)
    return weights


def _make_unlikely(weights: dict[str, mx.array], token_ids: Sequence[int]) -> None:
    """Give tokens small logits."""
    names = [name for name in weights if name.endswith("lm_head.weight")]
    for name in names or [name for name in weights if name.endswith("embed_tokens.weight")]:
        weights[name][mx.array(token_ids)] *= 0.1
