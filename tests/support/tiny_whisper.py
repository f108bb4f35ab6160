"""A Whisper checkpoint with random weights and a multilingual tokenizer, made in a test."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

FIRST_SPECIAL = 50257
"""Id of the end token of multilingual Whisper models; the other special tokens follow."""

DIMENSIONS = {
    "n_mels": 80,
    # Fixed by mlx-audio's window of 3,000 frames.
    "n_audio_ctx": 1500,
    "n_audio_state": 32,
    "n_audio_head": 2,
    "n_audio_layer": 0,
    # From this size on, mlx-audio takes a model for a multilingual one.
    "n_vocab": 51865,
    "n_text_ctx": 48,
    "n_text_state": 32,
    "n_text_head": 2,
    "n_text_layer": 2,
}

_READABLE = "abcdefghijklmnopqrstuvwxyzĠ,.0123456789"

_MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("Ġ", "a"), ("1", "2"), ('"', ":")]


def whisper_special_tokens() -> list[str]:
    """The special tokens of a multilingual model in the order of their ids."""
    languages = [f"<|{code}|>" for code in list(LANGUAGES)[:99]]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    times = [f"<|{number * 0.02:.2f}|>" for number in range(1501)]
    names = [f"<|{task}|>" for task in tasks]
    return ["<|endoftext|>", "<|startoftranscript|>", *languages, *names, *times]


def tiny_whisper_tokenizer() -> Tokenizer:
    """Byte-level BPE with few ordinary tokens; special tokens have the ids of real models."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = letters + [left + right for left, right in _MERGES]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    special = whisper_special_tokens()
    vocabulary |= {token: FIRST_SPECIAL + number for number, token in enumerate(special)}
    tokenizer = Tokenizer(models.BPE(vocabulary, _MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special[:107]])
    # As in real tokenizers, timestamps are added tokens that are not special.
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in special[107:]])
    return tokenizer


def write_tiny_whisper(
    directory: Path, *, seed: int = 17, weights_file: str = "model.safetensors", **dimensions: int
) -> Path:
    """Write a checkpoint as mlx-community has them, and return its directory.

    Args:
        directory: Where to write.
        seed: Seed of the weights.
        weights_file: Name of the file of weights, which may end in ``.npz``.
        dimensions: Changes of ``DIMENSIONS``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = DIMENSIONS | dimensions
    weights = tiny_whisper_weights(config, seed)
    if weights_file.endswith(".npz"):
        mx.savez(str(directory / weights_file), **weights)
    else:
        mx.save_safetensors(str(directory / weights_file), weights)
    _write(directory / "config.json", {"model_type": "whisper", **config})
    write_tiny_processor(directory, config["n_mels"])
    return directory


def tiny_whisper_weights(config: dict[str, int], seed: int) -> dict[str, mx.array]:
    """Return random weights by the names of mlx-audio."""
    model = Model(ModelDimensions(**config))
    numbers = np.random.default_rng(seed)
    weights = {}
    for name, value in tree_flatten(model.parameters()):
        if not name.split(".")[-1].startswith("_"):
            spread = 1.0 if "embedding" in name else 0.3
            noise = numbers.normal(0, spread, value.shape)
            if "cross_attn.out" in name:
                # So that tokens depend on the recording.
                noise *= 4
            if "token_embedding" in name:
                noise *= _loudness(config["n_vocab"])[:, None]
            weights[name] = mx.array(noise, mx.float16)
    return weights


def write_tiny_processor(directory: Path, n_mels: int = 80) -> None:
    """Write the tokenizer and the feature extractor."""
    tiny_whisper_tokenizer().save(str(directory / "tokenizer.json"))
    end = "<|endoftext|>"
    _write(directory / "tokenizer_config.json", {
        "tokenizer_class": "WhisperTokenizer",
        "bos_token": end, "eos_token": end, "unk_token": end, "pad_token": end,
    })  # fmt: skip
    _write(directory / "preprocessor_config.json", {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "feature_size": n_mels, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400,
        "chunk_length": 30, "n_samples": 480000, "nb_max_frames": 3000,
    })  # fmt: skip


def _loudness(size: int) -> np.ndarray:
    """Scales of the tokens' embeddings, shape (vocabulary,): how readily they are written."""
    scales = np.zeros(size)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    scales[[letters.index(letter) for letter in _READABLE]] = 2.5
    scales[len(letters) : len(letters) + len(_MERGES)] = 2.5
    scales[FIRST_SPECIAL:] = 0.1
    # The first times only: of few tokens, the best one outweighs the others together.
    scales[FIRST_SPECIAL + 107 : FIRST_SPECIAL + 157] = 2.0
    return scales


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
