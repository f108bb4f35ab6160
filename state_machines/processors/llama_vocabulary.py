"""The vocabulary of a model that llama-cpp-python has loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import llama_cpp

from state_machines.vocabulary import Vocabulary

_SPECIAL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
_FIRST_BUFFER = 256


def read_llama(llama: Any, end_token_ids: Iterable[int] | None = None) -> Vocabulary:
    """Return the vocabulary of a ``llama_cpp.Llama``.

    User-defined tokens are ordinary text. Control tokens and the unknown token are special.

    Args:
        llama: The model.
        end_token_ids: Replaces the tokens at which llama.cpp ends a generation.

    Raises:
        VocabularyError: The model has no end token.
    """
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    forms: list[bytes | None] = []
    special: dict[str, int] = {}
    ends: list[int] = []
    for token_id in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        piece = _piece(vocab, token_id)
        attributes = llama_cpp.llama_vocab_get_attr(vocab, token_id)
        is_unused = attributes & llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
        forms.append(None if is_unused or not piece else piece)
        if piece and attributes & _SPECIAL:
            special[piece.decode(errors="backslashreplace")] = token_id
        if piece and llama_cpp.llama_vocab_is_eog(vocab, token_id):
            ends.append(token_id)
    return Vocabulary(
        forms,
        end_token_ids=ends if end_token_ids is None else end_token_ids,
        special_tokens=special,
    )


def _piece(vocab: Any, token_id: int) -> bytes:
    """Return the bytes of a token, and the name of a special one."""
    size = _FIRST_BUFFER
    while True:
        buffer = ctypes.create_string_buffer(size)
        # A negative result is the size that is needed.
        written = int(llama_cpp.llama_token_to_piece(vocab, token_id, buffer, size, 0, True))
        if written >= 0:
            return buffer.raw[:written]
        size = -written
