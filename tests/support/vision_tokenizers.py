"""Tokenizers of small multimodal models: every byte, a few merges, the special tokens of a family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

__all__ = [
    "save_byte_level_tokenizer",
    "special_token_ids",
    "unlikely_token_ids",
    "vocabulary_size",
]

_MERGES = [('"', ":"), ("Ġ", '"'), ('"', ","), ("a", "b"), ("ab", "c"), ("1", "2"), ("}", "}")]
_TOKENS = [
    *sorted(pre_tokenizers.ByteLevel.alphabet()),
    *(left + right for left, right in _MERGES),
]


def special_token_ids(special_tokens: Sequence[str]) -> dict[str, int]:
    """Return the id of each special token of a tokenizer that has ``special_tokens`` in this order."""
    return {token: len(_TOKENS) + index for index, token in enumerate(special_tokens)}


def unlikely_token_ids(special_tokens: Sequence[str]) -> list[int]:
    """Return the tokens that are not text: the special ones, and the byte 0xFF."""
    # U+00FF spells the byte 0xFF, which no text in UTF-8 has.
    return [_TOKENS.index("\u00ff"), *special_token_ids(special_tokens).values()]


def vocabulary_size(special_tokens: Sequence[str]) -> int:
    """Return the number of tokens of a tokenizer with ``special_tokens``."""
    return len(_TOKENS) + len(special_tokens)


def save_byte_level_tokenizer(
    directory: Path,
    special_tokens: Sequence[str],
    named: Mapping[str, str],
    chat_template: str | None,
) -> None:
    """Write a tokenizer's files: byte-level BPE with few merges.

    Args:
        directory: Exists.
        special_tokens: They follow the tokens of the bytes and merges, in this order.
        named: Arguments of the tokenizer that name special tokens, such as ``bos_token``, and the
            attributes that processors read, such as ``image_token``.
        chat_template: In Jinja; ``None`` for models without one.
    """
    vocabulary = {token: index for index, token in enumerate(_TOKENS)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=_MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in special_tokens])
    standard = ("bos_token", "eos_token", "pad_token", "unk_token")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=chat_template,
        extra_special_tokens={name: t for name, t in named.items() if name not in standard},
        **{name: token for name, token in named.items() if name in standard},
    )
    tokenizer.save_pretrained(directory)
