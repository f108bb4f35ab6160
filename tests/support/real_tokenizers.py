"""Tokenizers of real models that have a chat template, each loaded once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from data_files import tokenizer_files
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

__all__ = ["REAL_TEMPLATES", "real_tokenizer"]

REAL_TEMPLATES = [
    path
    for path in tokenizer_files("tokenizer_config.json")
    if json.loads(path.read_text(encoding="utf-8")).get("chat_template")
]
"""The configurations; empty where the tokenizers are missing."""


@cache
def real_tokenizer(configuration: Path) -> TokenizerWrapper:
    """Return the tokenizer of a configuration with its chat template."""
    backend = Tokenizer.from_file(str(configuration.with_name("tokenizer.json")))
    template = json.loads(configuration.read_text(encoding="utf-8"))["chat_template"]
    return TokenizerWrapper(
        PreTrainedTokenizerFast(
            tokenizer_object=backend, bos_token="<s>", eos_token="</s>", chat_template=template
        )
    )
