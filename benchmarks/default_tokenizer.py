"""The tokenizer of benchmarks that name none. Needs ``tests/support`` on the module path."""

from __future__ import annotations

from arguments import NamedTokenizer
from data_files import tokenizer_files

__all__ = ["default_tokenizer"]

_FOLDER = "tokenizer-llama3_2-"


def default_tokenizer() -> NamedTokenizer:
    """Return Llama 3.2's. Raises ``SystemExit`` where it cannot be downloaded."""
    for path in tokenizer_files():
        if path.parent.name.startswith(_FOLDER):
            return NamedTokenizer("Llama 3.2", path)
    raise SystemExit("Llama 3.2's tokenizer cannot be downloaded; name one with --tokenizer")
