"""The default model's GGUF file to an mlx-lm directory, with a tiny file of the same form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.gguf import translate_weight_names
from tokenizers import pre_tokenizers

from proxy_engine.models.conversions import convert_smollm, undo_rotary_permutation

HIDDEN, HEADS, KV_HEADS, LAYERS, FEED_FORWARD = 64, 4, 2, 2, 96
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = ["<|im_start|>", "<|im_end|>", *LETTERS, "Ġa", "bc", "<extra>"]
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


def metadata() -> dict[str, Any]:
    kinds = [CONTROL, CONTROL] + [NORMAL] * (len(TOKENS) - 3) + [USER_DEFINED]
    integers = {
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.block_count": LAYERS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.dimension_count": HIDDEN // HEADS,
        "llama.context_length": 128,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 1,
    }
    floats = {"llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0}
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": mx.array(kinds, dtype=mx.int32),
        "tokenizer.ggml.merges": ["Ġ a", "b c"],
        "tokenizer.chat_template": "{{ messages[0]['content'] }}",
        **{key: mx.array(value, dtype=mx.uint32) for key, value in integers.items()},
        **{key: mx.array(value, dtype=mx.float32) for key, value in floats.items()},
    }


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the rows of q and k, written from its definition."""
    half = weight.shape[0] // heads // 2
    result = np.empty_like(weight)
    for head in range(heads):
        first = head * 2 * half
        for row in range(half):
            result[first + 2 * row] = weight[first + row]
            result[first + 2 * row + 1] = weight[first + half + row]
    return result


def hugging_face_weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens": (len(TOKENS), HIDDEN),
        "model.norm": (HIDDEN,),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        shapes |= {
            f"{prefix}.self_attn.q_proj": (HIDDEN, HIDDEN),
            f"{prefix}.self_attn.k_proj": (kv, HIDDEN),
            f"{prefix}.self_attn.v_proj": (kv, HIDDEN),
            f"{prefix}.self_attn.o_proj": (HIDDEN, HIDDEN),
            f"{prefix}.mlp.gate_proj": (FEED_FORWARD, HIDDEN),
            f"{prefix}.mlp.up_proj": (FEED_FORWARD, HIDDEN),
            f"{prefix}.mlp.down_proj": (HIDDEN, FEED_FORWARD),
            f"{prefix}.input_layernorm": (HIDDEN,),
            f"{prefix}.post_attention_layernorm": (HIDDEN,),
        }
    return {name: random.random(shape, np.float32) for name, shape in shapes.items()}


def gguf_tensors() -> dict[str, mx.array]:
    tensors = {}
    for name, weight in hugging_face_weights().items():
        if name.endswith("q_proj"):
            weight = permute(weight, HEADS)
        elif name.endswith("k_proj"):
            weight = permute(weight, KV_HEADS)
        tensors[f"{translate_weight_names(name)}.weight"] = mx.array(weight)
    return tensors


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("gguf")
    mx.save_gguf(str(directory / "tiny.gguf"), gguf_tensors(), metadata())
    destination = directory / "converted"
    destination.mkdir()
    convert_smollm(directory / "tiny.gguf", destination)
    # The tiny file has dense weights: MLX writes no packed ones.
    config = json.loads((destination / "config.json").read_text(encoding="utf-8"))
    assert config.pop("quantization")["bits"] == 4
    (destination / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return destination


def test_converted_weights_have_hugging_face_names_and_order(converted: Path) -> None:
    model, _ = mlx_lm.load(str(converted))
    found = dict(tree_flatten(model.parameters()))
    expected = {f"{name}.weight": weight for name, weight in hugging_face_weights().items()}
    assert set(found) == set(expected)
    for name, weight in expected.items():
        np.testing.assert_array_equal(np.array(found[name]), weight, err_msg=name)


def test_packed_weights_are_permuted_like_dense_ones() -> None:
    weight = mx.array(hugging_face_weights()["model.layers.0.self_attn.q_proj"])
    permuted = mx.array(permute(np.array(weight), HEADS))
    expected = mx.quantize(weight, group_size=32, bits=4)
    for part, packed in zip(mx.quantize(permuted, group_size=32, bits=4), expected, strict=True):
        assert mx.array_equal(undo_rotary_permutation(part, HEADS), packed).item()


def test_converted_tokenizer_encodes_like_the_original(converted: Path) -> None:
    _, tokenizer = mlx_lm.load(str(converted))
    for text in ("", "a bc 123", "naïve 日本 🙂\n\t", "<|im_end|> <extra>x"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
    digits = tokenizer.encode("123", add_special_tokens=False)
    assert [tokenizer.decode([i]) for i in digits] == ["1", "2", "3"]
    assert tokenizer.encode("<|im_end|>", add_special_tokens=False) == [1]
    assert tokenizer.eos_token_ids == {1}
    assert tokenizer.all_special_ids == [0, 1]
    assert tokenizer.decode([0, 2, len(TOKENS) - 1], skip_special_tokens=True) == "!<extra>"
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert chat == "a"
