"""Conversion of the embedded speech model from CTranslate2's format to that of mlx-audio.

``model.bin`` is a sequence of named arrays, all integers little-endian:

    version u32 · name of the architecture · revision u32 · number of arrays u32 · arrays
    array: name · rank u8 · dimensions u32 · type u8 · size in bytes u32 · bytes
    name: length u16 · bytes, the last one zero

The files are pinned by their hashes: OpenAI's Whisper tiny.en, in float16.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
"""NumPy's types by the numbers of the format."""

_END = "<|endoftext|>"
_FILES: dict[str, dict[str, Any]] = {
    "config.json": {
        "model_type": "whisper", "n_mels": 80, "n_vocab": 51_864,
        "n_audio_ctx": 1500, "n_audio_state": 384, "n_audio_head": 6, "n_audio_layer": 4,
        "n_text_ctx": 448, "n_text_state": 384, "n_text_head": 6, "n_text_layer": 4,
    },
    "tokenizer_config.json": {
        "tokenizer_class": "WhisperTokenizer",
        **dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), _END),
    },
    "preprocessor_config.json": {
        "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80,
        "sampling_rate": 16_000, "n_fft": 400, "hop_length": 160, "chunk_length": 30,
        "n_samples": 480_000, "nb_max_frames": 3_000, "processor_class": "WhisperProcessor",
    },
}  # fmt: skip
"""The files besides weights and tokenizer, except for the alignment heads."""

_MODULES = {
    "encoder/conv1": ("encoder.conv1",),
    "encoder/conv2": ("encoder.conv2",),
    "encoder/layer_norm": ("encoder.ln_post",),
    "decoder/embeddings": ("decoder.token_embedding",),
    "decoder/layer_norm": ("decoder.ln",),
}
# CTranslate2 joins the layers that have the same input.
_LAYER_MODULES = {
    "self_attention/layer_norm": ("attn_ln",),
    "self_attention/linear_0": ("attn.query", "attn.key", "attn.value"),
    "self_attention/linear_1": ("attn.out",),
    "attention/layer_norm": ("cross_attn_ln",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
    "ffn/layer_norm": ("mlp_ln",),
    "ffn/linear_0": ("mlp1",),
    "ffn/linear_1": ("mlp2",),
}
_PARAMETERS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.+)")


def convert_whisper(sources: Mapping[str, Path], directory: Path) -> None:
    """Write the model as mlx-audio reads it.

    Args:
        sources: ``model.bin``, ``config.json`` and ``tokenizer.json``, by name.
        directory: Where to write.
    """
    config = json.loads(sources["config.json"].read_text(encoding="utf-8"))
    files = _FILES | {"generation_config.json": {"alignment_heads": config["alignment_heads"]}}
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content), encoding="utf-8")
    shutil.copyfile(sources["tokenizer.json"], directory / "tokenizer.json")
    weights = {
        name: mx.array(np.ascontiguousarray(array))
        for name, array in _weights(_arrays(sources["model.bin"].read_bytes()))
    }
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})


def _arrays(content: bytes) -> Arrays:
    """Return the arrays of a ``model.bin`` by name."""
    file = io.BytesIO(content)

    def read(form: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))

    def read_name() -> str:
        return file.read(*read("H")).rstrip(b"\0").decode()

    read("I")
    read_name()
    _, count = read("II")
    arrays: Arrays = {}
    for _ in range(count):
        name = read_name()
        shape = read(f"{read('B')[0]}I")
        kind, size = read("BI")
        arrays[name] = np.frombuffer(file.read(size), _TYPES[kind]).reshape(shape)
    return arrays


def _weights(arrays: Arrays) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the weights by the names of mlx-audio."""
    for name, array in arrays.items():
        source, _, parameter = name.rpartition("/")
        if name == "decoder/position_encodings/encodings":
            yield "decoder.positional_embedding", array
        # The rest are numbers, and the encoder's positions, which mlx-audio computes.
        modules = _modules(source) if parameter in _PARAMETERS else ()
        for module in modules:
            part = np.split(array, len(modules))[modules.index(module)]
            if part.ndim == 3:
                # Of convolutions, (output, input, kernel) to (output, kernel, input).
                part = part.transpose(0, 2, 1)
            # Whisper's keys have no bias; CTranslate2 stores zeros.
            if parameter != "bias" or not module.endswith("key"):
                yield f"{module}.{_PARAMETERS[parameter]}", part


def _modules(source: str) -> tuple[str, ...]:
    layer = _LAYER.fullmatch(source)
    if layer is None:
        return _MODULES.get(source, ())
    side, number, module = layer.groups()
    return tuple(f"{side}.blocks.{number}.{name}" for name in _LAYER_MODULES[module])
