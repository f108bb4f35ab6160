"""A Parakeet checkpoint with random weights, in NeMo's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_audio.stt.models.parakeet.parakeet import Model

VOCABULARY = ["▁a", "▁the", "b", "e", "▁to", ".", "s", "▁we"]

_MODELS = "nemo.collections.asr.models"
_PREPROCESSOR = {
    "sample_rate": 16000, "normalize": "per_feature", "window_size": 0.025, "window_stride": 0.01,
    "window": "hann", "features": 16, "n_fft": 512, "dither": 0.0,
}  # fmt: skip
_ENCODER = {
    "feat_in": 16, "n_layers": 1, "d_model": 16, "n_heads": 2, "ff_expansion_factor": 2,
    "subsampling_factor": 8, "self_attention_model": "rel_pos", "subsampling": "dw_striding",
    "conv_kernel_size": 3, "subsampling_conv_channels": 8, "pos_emb_max_len": 2000,
}  # fmt: skip

CTC_CONFIG: dict[str, Any] = {
    "target": f"{_MODELS}.ctc_bpe_models.EncDecCTCModelBPE",
    "preprocessor": _PREPROCESSOR,
    "encoder": _ENCODER,
    "decoder": {"feat_in": 16, "num_classes": len(VOCABULARY), "vocabulary": VOCABULARY},
    "decoding": {"greedy": None},
}
TDT_CONFIG: dict[str, Any] = {
    "target": f"{_MODELS}.rnnt_bpe_models.EncDecRNNTBPEModel",
    "model_defaults": {"tdt_durations": [0, 1, 2]},
    "preprocessor": _PREPROCESSOR,
    "encoder": _ENCODER,
    "decoder": {
        "blank_as_pad": True, "vocab_size": len(VOCABULARY),
        "prednet": {"pred_hidden": 16, "pred_rnn_layers": 1},
    },
    "joint": {
        "num_classes": len(VOCABULARY), "vocabulary": VOCABULARY, "num_extra_outputs": 3,
        "jointnet": {
            "encoder_hidden": 16, "pred_hidden": 16, "joint_hidden": 16, "activation": "relu",
        },
    },
    "decoding": {"model_type": "tdt", "durations": [0, 1, 2], "greedy": {"max_symbols": 3}},
}  # fmt: skip


def write_tiny_parakeet(directory: Path, config: dict[str, Any], *, seed: int = 0) -> Path:
    """Write a checkpoint, and return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(seed)
    weights = {
        name: mx.array(numbers.normal(0, 0.3, value.shape), mx.float32)
        for name, value in tree_flatten(Model.from_config(config).parameters())
        # The running variance of a normalization is positive.
        if not name.endswith("running_var")
    }
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    (directory / "config.json").write_text(json.dumps(config))
    return directory
