"""A model's tokenizer: its vocabulary, cached on disk, and another chat template."""

from __future__ import annotations

import copy
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state_machines import Vocabulary, VocabularyCache
from state_machines.compiled_library import cache_directory

from .loading import LoadedModel

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

# Files that transformers may read a tokenizer from.
_PATTERNS = ("*token*.json", "*token*.py", "*.model", "*.tiktoken", "vocab.*", "merges.txt")

_FROM_TEMPLATE = ("chat_template", "chat_template_type", "tool_parser_type")
"""Entries of a tokenizer's configuration that name its template, or derive from it."""


def vocabulary_of(loaded: LoadedModel, *, cached: bool = True) -> Vocabulary:
    """Return the vocabulary of a model's tokenizer, as wide as the model's logits.

    Args:
        loaded: The model.
        cached: Read it from ``vocabularies`` in the cache directory, or write it there.

    Raises:
        VocabularyError: The tokenizer is not supported.
    """
    tokenizer, size = loaded.tokenizer, loaded.logits_width
    try:
        caches = cache_directory() / "vocabularies" if cached else None
    except RuntimeError:  # The user has no home directory.
        caches = None
    if caches is None:
        return Vocabulary.from_tokenizer(tokenizer, size=size)
    files = () if loaded.directory is None else tokenizer_files(loaded.directory)
    return VocabularyCache(caches).from_tokenizer(tokenizer, files=files, size=size)


def tokenizer_files(directory: str | os.PathLike[str]) -> list[Path]:
    """Return the tokenizer's files in a model's directory, sorted by name.

    Empty without a ``tokenizer.json``: files in other formats do not identify a tokenizer.
    """
    folder = Path(directory)
    if not (folder / "tokenizer.json").is_file():
        return []
    return sorted(
        {file for pattern in _PATTERNS for file in folder.glob(pattern) if file.is_file()}
    )


def with_chat_template(tokenizer: TokenizerWrapper, template: str) -> TokenizerWrapper:
    """Return a copy of a tokenizer with another chat template.

    mlx-lm's parser of tool calls follows from the new template, as after loading.
    """
    # Deferred: it imports transformers, as the tokenizer did.
    from mlx_lm import tokenizer_utils  # noqa: PLC0415

    inner: Any = copy.copy(tokenizer._tokenizer)
    inner.chat_template = template
    settings = getattr(inner, "init_kwargs", {})
    inner.init_kwargs = {key: settings[key] for key in settings if key not in _FROM_TEMPLATE}
    arguments = {}
    parser = tokenizer_utils._infer_tool_parser(inner)
    if parser is not None:
        module = importlib.import_module(f"mlx_lm.tool_parsers.{parser}")
        arguments = {
            "tool_parser": module.parse_tool_call,
            "tool_call_start": module.tool_call_start,
            "tool_call_end": module.tool_call_end,
        }
    return tokenizer_utils.TokenizerWrapper(
        inner, eos_token_ids=tokenizer.eos_token_ids, **arguments
    )
