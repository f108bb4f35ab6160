"""Whisper models in CTranslate2's format, converted to the files that mlx-audio loads.

``model.bin`` is a sequence of named arrays, all integers little-endian:

    version u32 · name of the architecture · revision u32 · number of arrays u32 · arrays
    array: name · rank u8 · dimensions u32 · type u8 · size in bytes u32 · bytes
    name: length u16 · bytes, the last one zero
"""

from __future__ import annotations

import itertools
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..runtime.backends import requires_backend

with requires_backend():
    import mlx.core as mx

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
"""NumPy's types by the numbers of the format."""

_END = "<|endoftext|>"
_WINDOW_POSITIONS = 1500


def convert_whisper(model: Path, config: Path, tokenizer: Path, directory: Path) -> None:
    """Write a Whisper model as mlx-audio reads it.

    Args:
        model: ``model.bin``, with unquantized weights.
        config: ``config.json`` beside it.
        tokenizer: ``tokenizer.json`` beside it.
        directory: Where to write.

    Raises:
        ValueError: The file is no Whisper model.
    """
    arrays = read_arrays(model.read_bytes())
    weights = dict(_weights(arrays))
    width = weights["decoder.token_embedding.weight"].shape
    sizes = {
        side: {
            f"n_{name}_state": int(width[1]),
            f"n_{name}_head": int(arrays[f"{side}/num_heads"]),
            f"n_{name}_layer": _layers(arrays, side),
        }
        for side, name in (("encoder", "audio"), ("decoder", "text"))
    }
    mel_bands = int(weights["encoder.conv1.weight"].shape[-1])
    dimensions = {
        "n_mels": mel_bands,
        "n_vocab": int(width[0]),
        "n_audio_ctx": _WINDOW_POSITIONS,
        "n_text_ctx": int(weights["decoder.positional_embedding"].shape[0]),
    }
    given = json.loads(config.read_text(encoding="utf-8"))
    files: dict[str, Any] = {
        "config.json": {
            "model_type": "whisper", **dimensions, **sizes["encoder"], **sizes["decoder"],
        },
        "generation_config.json": {"alignment_heads": given["alignment_heads"]},
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer",
            **dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), _END),
        },
        "preprocessor_config.json": {
            "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": mel_bands,
            "sampling_rate": 16_000, "n_fft": 400, "hop_length": 160, "chunk_length": 30,
            "n_samples": 480_000, "nb_max_frames": 3_000, "processor_class": "WhisperProcessor",
        },
    }  # fmt: skip
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content), encoding="utf-8")
    shutil.copyfile(tokenizer, directory / "tokenizer.json")
    contiguous = {name: mx.array(np.ascontiguousarray(array)) for name, array in weights.items()}
    mx.save_safetensors(
        str(directory / "model.safetensors"), contiguous, metadata={"format": "mlx"}
    )


def read_arrays(content: bytes) -> Arrays:
    """Return the arrays of a ``model.bin`` by name, as views.

    Raises:
        ValueError: The file is no Whisper model, or is cut off.
    """
    at = 0

    def read(form: str) -> tuple[int, ...]:
        nonlocal at
        values = struct.unpack_from(f"<{form}", content, at)
        at += struct.calcsize(f"<{form}")
        return values

    def read_name() -> str:
        nonlocal at
        (length,) = read("H")
        at += length
        return content[at - length : at].rstrip(b"\0").decode()

    found: Arrays = {}
    try:
        read("I")
        architecture = read_name()
        if architecture != "WhisperSpec":
            raise ValueError(f"the model is a {architecture}, no Whisper")
        _, count = read("II")
        for _ in range(count):
            name = read_name()
            shape = read(f"{read('B')[0]}I")
            kind, size = read("BI")
            values = np.frombuffer(content[at : at + size], _TYPES[kind])
            found[name] = values.reshape(shape)
            at += size
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"the file is no model of CTranslate2: {error}") from error
    return found


def _layers(arrays: Arrays, side: str) -> int:
    numbers = itertools.count()
    return next(n for n in numbers if f"{side}/layer_{n}/ffn/linear_0/weight" not in arrays)


def _weights(arrays: Arrays) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the weights by the names of mlx-audio."""
    for number in (1, 2):
        # (output, input, kernel) to (output, kernel, input).
        kernel = arrays[f"encoder/conv{number}/weight"]
        yield f"encoder.conv{number}.weight", kernel.transpose(0, 2, 1)
        yield f"encoder.conv{number}.bias", arrays[f"encoder/conv{number}/bias"]
    yield "decoder.token_embedding.weight", arrays["decoder/embeddings/weight"]
    yield "decoder.positional_embedding", arrays["decoder/position_encodings/encodings"]
    yield from _norm(arrays, "encoder/layer_norm", "encoder.ln_post")
    yield from _norm(arrays, "decoder/layer_norm", "decoder.ln")
    for side in ("encoder", "decoder"):
        for number in range(_layers(arrays, side)):
            yield from _layer(arrays, f"{side}/layer_{number}", f"{side}.blocks.{number}")


def _layer(arrays: Arrays, source: str, target: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    own = f"{source}/self_attention"
    yield from _norm(arrays, f"{own}/layer_norm", f"{target}.attn_ln")
    yield from _linear(arrays, f"{own}/linear_0", target, "attn.query", "attn.key", "attn.value")
    yield from _linear(arrays, f"{own}/linear_1", target, "attn.out")
    other = f"{source}/attention"
    if f"{other}/linear_0/weight" in arrays:
        yield from _norm(arrays, f"{other}/layer_norm", f"{target}.cross_attn_ln")
        yield from _linear(arrays, f"{other}/linear_0", target, "cross_attn.query")
        keys_values = ("cross_attn.key", "cross_attn.value")
        yield from _linear(arrays, f"{other}/linear_1", target, *keys_values)
        yield from _linear(arrays, f"{other}/linear_2", target, "cross_attn.out")
    yield from _norm(arrays, f"{source}/ffn/layer_norm", f"{target}.mlp_ln")
    yield from _linear(arrays, f"{source}/ffn/linear_0", target, "mlp1")
    yield from _linear(arrays, f"{source}/ffn/linear_1", target, "mlp2")


def _norm(arrays: Arrays, source: str, target: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    yield f"{target}.weight", arrays[f"{source}/gamma"]
    yield f"{target}.bias", arrays[f"{source}/beta"]


def _linear(
    arrays: Arrays, source: str, block: str, *names: str
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the weights of layers that CTranslate2 has as one."""
    for kind in ("weight", "bias"):
        parts = np.split(arrays[f"{source}/{kind}"], len(names))
        for name, part in zip(names, parts, strict=True):
            # Whisper's keys have no bias; CTranslate2 stores zeros.
            if kind == "weight" or not name.endswith("key"):
                yield f"{block}.{name}.{kind}", part
