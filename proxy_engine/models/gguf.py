"""Conversion of a GGUF file to a directory that ``mlx_lm.load`` reads.

GGUF is llama.cpp's container: tensors, hyper-parameters and the tokenizer in one file
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). MLX reads the container and keeps
Q4_0, Q4_1 and Q8_0 tensors packed, as its own affine quantization with groups of 32. This module
renames the tensors, converts the layout of two projections, and rebuilds the tokenizer.

Only ``llama`` architectures with a byte-level BPE tokenizer are supported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from ..runtime.backends import requires_backend

with requires_backend():
    import mlx.core as mx

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from ..errors import ModelFormatError

GROUP_SIZE = 32
"""Weights that share a scale and a bias in GGUF's Q4_0, Q4_1 and Q8_0."""

_CONTROL_TOKEN = 3
_USER_DEFINED_TOKEN = 4

_BLOCK_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_MODEL_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

# Pre-tokenizers by llama.cpp's names.
_SMOLLM = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ]
)
_PRE_TOKENIZERS: dict[str, pre_tokenizers.PreTokenizer] = {
    "smollm": _SMOLLM,
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "llama-bpe": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                Regex(
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                behavior="isolated",
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}

Metadata: TypeAlias = Mapping[str, Any]
"""GGUF keys to strings, lists of strings or arrays, as ``mx.load`` returns them."""


def convert(source: Path, destination: Path) -> None:
    """Convert a GGUF file.

    Writes ``config.json``, ``model.safetensors``, ``tokenizer.json`` and ``tokenizer_config.json``.

    Args:
        source: The GGUF file.
        destination: An existing directory.

    Raises:
        ModelFormatError: The file is not GGUF, or its model is not supported.
    """
    try:
        loaded = mx.load(str(source), format="gguf", return_metadata=True)
    except (RuntimeError, ValueError) as error:
        raise ModelFormatError(
            f"{source} is not a readable GGUF file", model=str(source)
        ) from error
    tensors, metadata = cast("tuple[dict[str, mx.array], Metadata]", loaded)
    try:
        config = read_config(metadata, tensors)
        weights = read_weights(tensors, config)
        tokenizer = read_tokenizer(metadata)
        tokenizer_config = _tokenizer_config(metadata)
    except KeyError as error:
        raise ModelFormatError(
            f"{source} lacks the GGUF key {error.args[0]!r}", model=str(source)
        ) from error
    mx.save_safetensors(str(destination / "model.safetensors"), weights, metadata={"format": "mlx"})
    tokenizer.save(str(destination / "tokenizer.json"))
    _write_json(destination / "tokenizer_config.json", tokenizer_config)
    _write_json(destination / "config.json", config)


def read_config(metadata: Metadata, tensors: Mapping[str, mx.array]) -> dict[str, Any]:
    """Return the ``config.json`` of a llama model, with the bit width of each quantized layer.

    Raises:
        ModelFormatError: The architecture is not ``llama``.
    """
    architecture = metadata["general.architecture"]
    if architecture != "llama":
        raise ModelFormatError(
            f"GGUF architecture {architecture!r} is not supported, only 'llama' is",
            model=architecture,
        )
    hidden_size = _integer(metadata, "llama.embedding_length")
    heads = _integer(metadata, "llama.attention.head_count")
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden_size,
        "intermediate_size": _integer(metadata, "llama.feed_forward_length"),
        "num_hidden_layers": _integer(metadata, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _integer(metadata, "llama.attention.head_count_kv"),
        "head_dim": hidden_size // heads,
        "rms_norm_eps": _number(metadata, "llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": _number(metadata, "llama.rope.freq_base"),
        "max_position_embeddings": _integer(metadata, "llama.context_length"),
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": _integer(metadata, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _integer(metadata, "tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float32",
    }
    quantization = _quantization(tensors, config)
    if quantization:
        config["quantization"] = quantization
    return config


def read_weights(tensors: Mapping[str, mx.array], config: Mapping[str, Any]) -> dict[str, mx.array]:
    """Return the tensors under Hugging Face's names. Packed weights stay packed.

    The other tensors, scales and biases become float32, which is exact: MLX's CPU kernels would
    convert float16 scales one at a time. They are small beside the packed weights.
    """
    heads = {
        "self_attn.q_proj": config["num_attention_heads"],
        "self_attn.k_proj": config["num_key_value_heads"],
    }
    weights = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        path = _module_path(module)
        if path is None:
            continue
        layer = path.split(".", 3)[-1]
        if layer in heads:
            tensor = _undo_rotary_permutation(tensor, heads[layer])
        if tensor.dtype != mx.uint32:
            tensor = tensor.astype(mx.float32)
        weights[f"{path}.{part}"] = tensor
    return weights


def read_tokenizer(metadata: Metadata) -> Tokenizer:
    """Return the byte-level BPE tokenizer, with special and added tokens.

    Raises:
        ModelFormatError: The tokenizer or its pre-tokenizer is not supported.
    """
    if metadata["tokenizer.ggml.model"] != "gpt2":
        raise ModelFormatError(
            f"GGUF tokenizer {metadata['tokenizer.ggml.model']!r} is not supported, only 'gpt2' "
            "(byte-level BPE) is",
            model=str(metadata["tokenizer.ggml.model"]),
        )
    rule = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if rule not in _PRE_TOKENIZERS:
        raise ModelFormatError(
            f"GGUF pre-tokenizer {rule!r} is not supported",
            model=rule,
            hint=f"Supported: {', '.join(sorted(_PRE_TOKENIZERS))}.",
        )
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    kinds: list[int] = metadata["tokenizer.ggml.token_type"].tolist()
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=merges,
            fuse_unk=False,
            byte_fallback=False,
        )
    )
    tokenizer.pre_tokenizer = _PRE_TOKENIZERS[rule]
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (_CONTROL_TOKEN, _USER_DEFINED_TOKEN):
            special = kind == _CONTROL_TOKEN
            tokenizer.add_tokens([AddedToken(token, special=special, normalized=False)])
    return tokenizer


def _tokenizer_config(metadata: Metadata) -> dict[str, Any]:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {
        # This class uses tokenizer.json unchanged, for every model type.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": bool(_optional(metadata, "tokenizer.ggml.add_bos_token", default=False)),
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": _integer(metadata, "llama.context_length"),
    }
    for role, key in (
        ("bos_token", "bos_token_id"),
        ("eos_token", "eos_token_id"),
        ("unk_token", "unknown_token_id"),
        ("pad_token", "padding_token_id"),
    ):
        index = _optional(metadata, f"tokenizer.ggml.{key}", default=None)
        if index is not None:
            config[role] = tokens[int(index)]
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    return config


def _module_path(module: str) -> str | None:
    """Return Hugging Face's path of a GGUF module; ``None`` if a llama model has no such module."""
    if module in _MODEL_TENSORS:
        return _MODEL_TENSORS[module]
    prefix, _, rest = module.partition(".")
    index, _, kind = rest.partition(".")
    if prefix == "blk" and kind in _BLOCK_TENSORS:
        return f"model.layers.{index}.{_BLOCK_TENSORS[kind]}"
    return None


def _undo_rotary_permutation(tensor: mx.array, heads: int) -> mx.array:
    """Reorder rows from llama.cpp's interleaved rotary order to Hugging Face's two halves.

    Within each head, row 2i+j becomes row j*half+i. Rows are moved as a whole, which is valid for
    packed weights, scales and biases alike.
    """
    rows, *rest = tensor.shape
    half = rows // heads // 2
    pairs = tensor.reshape(heads, half, 2, *rest)
    return mx.contiguous(pairs.swapaxes(1, 2).reshape(rows, *rest))


def _quantization(tensors: Mapping[str, mx.array], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return mlx-lm's ``quantization`` entry: the most frequent width, and layers that differ."""
    bits: dict[str, int] = {}
    for name, scales in tensors.items():
        module, _, part = name.rpartition(".")
        path = _module_path(module)
        if part == "scales" and path is not None:
            packed = tensors[f"{module}.weight"].shape[-1]
            bits[path] = packed * 32 // (scales.shape[-1] * GROUP_SIZE)
    if not bits:
        return {}
    widths = list(bits.values())
    default = max(set(widths), key=widths.count)
    result: dict[str, Any] = {"group_size": GROUP_SIZE, "bits": default}
    for path, width in sorted(bits.items()):
        if width != default:
            result[path] = {"group_size": GROUP_SIZE, "bits": width}
    return result


def _optional(metadata: Metadata, key: str, *, default: Any) -> Any:
    value = metadata.get(key, default)
    return value.item() if isinstance(value, mx.array) else value


def _number(metadata: Metadata, key: str) -> float:
    value: float = metadata[key].item()
    return value


def _integer(metadata: Metadata, key: str) -> int:
    return int(metadata[key].item())


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
