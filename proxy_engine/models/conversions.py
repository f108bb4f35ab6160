"""Conversion of the embedded models to the directories that mlx-lm and mlx-audio read.

The files are pinned by their hashes.

*GGUF* is llama.cpp's container: tensors, hyper-parameters and the tokenizer in one file
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The file is a ``llama`` model with the
tokenizer of SmolLM2, in Q4_1. MLX reads the container and keeps Q4_1 and Q8_0 tensors packed, as
its own affine quantization with groups of 32. Here the tensors are renamed, the layout of two
projections is converted, and the tokenizer is rebuilt.

*CTranslate2*: OpenAI's Whisper tiny.en, in float16. ``model.bin`` is a sequence of named arrays,
all integers little-endian:

    version u32 · name of the architecture · revision u32 · number of arrays u32 · arrays
    array: name · rank u8 · dimensions u32 · type u8 · size in bytes u32 · bytes
    name: length u16 · bytes, the last one zero
"""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.gguf import translate_weight_names
from mlx_lm.models.llama import Model, ModelArgs
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_CONTROL_TOKEN, _USER_DEFINED_TOKEN = 3, 4

_CONFIG_KEYS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "rope.dimension_count",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "max_position_embeddings": "context_length",
}
# Q4_1 files have embeddings in Q8_0.
_QUANTIZATION = {
    "group_size": 32,
    "bits": 4,
    "model.embed_tokens": {"group_size": 32, "bits": 8},
}


def convert_smollm(source: Path, directory: Path) -> None:
    """Write the model as mlx-lm reads it.

    Args:
        source: The GGUF file.
        directory: Where to write.
    """
    loaded = mx.load(str(source), format="gguf", return_metadata=True)
    tensors, metadata = cast("tuple[dict[str, mx.array], dict[str, Any]]", loaded)
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    special = {
        role: int(metadata[f"tokenizer.ggml.{key}_token_id"].item())
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    }
    config = {
        "model_type": "llama",
        **{name: metadata[f"llama.{key}"].item() for name, key in _CONFIG_KEYS.items()},
        "vocab_size": len(tokens),
        "tie_word_embeddings": True,
        "bos_token_id": special["bos"],
        "eos_token_id": special["eos"],
        "quantization": _QUANTIZATION,
    }
    tokenizer_config = {
        # This class uses tokenizer.json unchanged, for every model type.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": config["max_position_embeddings"],
        **{f"{role}_token": tokens[token_id] for role, token_id in special.items()},
        "chat_template": metadata["tokenizer.chat_template"],
    }
    mx.save_safetensors(
        str(directory / "model.safetensors"),
        _text_weights(tensors, config),
        metadata={"format": "mlx"},
    )
    _text_tokenizer(metadata).save(str(directory / "tokenizer.json"))
    for name, content in (("tokenizer_config", tokenizer_config), ("config", config)):
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _text_weights(
    tensors: Mapping[str, mx.array], config: Mapping[str, Any]
) -> dict[str, mx.array]:
    """Return the tensors under Hugging Face's names. Packed weights stay packed.

    The other tensors, scales and biases become float32, which is exact: MLX's CPU kernels would
    convert float16 scales one at a time. They are small beside the packed weights.
    """
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    weights = {}
    # The arrays of this model are never evaluated.
    for path, _ in Model(ModelArgs.from_dict(config)).named_modules():
        module, kind = translate_weight_names(path), path.rpartition(".")[2]
        for part in ("weight", "scales", "biases"):
            tensor = tensors.get(f"{module}.{part}")
            if tensor is None:
                continue
            if kind in heads:
                tensor = undo_rotary_permutation(tensor, heads[kind])
            is_packed = tensor.dtype == mx.uint32
            weights[f"{path}.{part}"] = tensor if is_packed else tensor.astype(mx.float32)
    return weights


def undo_rotary_permutation(tensor: mx.array, heads: int) -> mx.array:
    """Reorder rows from llama.cpp's interleaved rotary order to Hugging Face's two halves.

    Within each head, row 2i+j becomes row j*half+i. Rows are moved as a whole, which is valid for
    packed weights, scales and biases alike.
    """
    rows, *rest = tensor.shape
    pairs = tensor.reshape(heads, rows // heads // 2, 2, *rest)
    return mx.contiguous(pairs.swapaxes(1, 2).reshape(rows, *rest))


def _text_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """Return the byte-level BPE tokenizer, with special and added tokens."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    kinds: list[int] = metadata["tokenizer.ggml.token_type"].tolist()
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (_CONTROL_TOKEN, _USER_DEFINED_TOKEN):
            is_special = kind == _CONTROL_TOKEN
            tokenizer.add_tokens([AddedToken(token, special=is_special, normalized=False)])
    return tokenizer


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
        for name, array in _whisper_weights(_arrays(sources["model.bin"].read_bytes()))
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


def _whisper_weights(arrays: Arrays) -> Iterator[tuple[str, npt.NDArray[Any]]]:
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
