"""Tokenizers that look like a model family's: its special tokens, its chat template's words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

__all__ = ["bare_tokenizer", "family_tokenizer"]


def bare_tokenizer(special: Iterable[str] = (), plain: Iterable[str] = ()) -> Tokenizer:
    """Byte-level, with special tokens and added ones that are ordinary text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<end>", *special)])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in plain])
    return tokenizer


def family_tokenizer(
    directory: Path,
    special: Iterable[str] = (),
    plain: Iterable[str] = (),
    template: str = "",
) -> TokenizerWrapper:
    """As mlx-lm loads one from files, so that it finds out about tools and reasoning itself."""
    PreTrainedTokenizerFast(
        tokenizer_object=bare_tokenizer(special, plain),
        eos_token="<end>",
        chat_template=template or None,
    ).save_pretrained(str(directory))
    return load_tokenizer(directory)
