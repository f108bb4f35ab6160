"""Conversion of the default model's GGUF file to a directory that ``mlx_lm.load`` reads.

GGUF is llama.cpp's container: tensors, hyper-parameters and the tokenizer in one file
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). MLX reads the container and keeps
Q4_1 and Q8_0 tensors packed, as its own affine quantization with groups of 32. This module renames
the tensors, converts the layout of two projections, and rebuilds the tokenizer.

The file is pinned by its hash: a ``llama`` model with the tokenizer of SmolLM2, in Q4_1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
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
        str(directory / "model.safetensors"), _weights(tensors, config), metadata={"format": "mlx"}
    )
    _tokenizer(metadata).save(str(directory / "tokenizer.json"))
    for name, content in (("tokenizer_config", tokenizer_config), ("config", config)):
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _weights(tensors: Mapping[str, mx.array], config: Mapping[str, Any]) -> dict[str, mx.array]:
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


def _tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
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
