"""Read tokens, special tokens and end tokens from a tokenizer object.

Objects are recognised by their attributes and never by their class, so neither ``transformers``
nor ``mlx_lm`` is imported. The decoder is read through the pickling state of the tokenizer's
parts: the JSON that ``to_str`` writes, without serialising hundreds of thousands of merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from state_machines.errors import VocabularyError
from state_machines.vocabulary.byte_forms import byte_form_of

__all__ = ["TokenizerContents", "read_tokenizer"]

# Markers that end a text or a chat turn in widely used model families. Only asked where the
# tokenizer object does not know its end tokens, and only where they are special tokens.
_COMMON_END_TOKENS = (
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|EOT|>",
    "<｜end▁of▁sentence｜>",
)


@dataclass(frozen=True)
class TokenizerContents:
    """What a tokenizer says about its tokens.

    ``token_bytes`` maps ids to bytes (special tokens: their bare names); ids that are missing
    are unused.
    """

    token_bytes: Mapping[int, bytes]
    special_tokens: Mapping[str, int]
    end_token_ids: frozenset[int]
    strips_first_space: bool


def read_tokenizer(tokenizer: object) -> TokenizerContents:
    """Read a ``tokenizers.Tokenizer``, a transformers fast tokenizer or a wrapper around one.

    End tokens come from the first of these that names any: ``eos_token_ids`` (mlx-lm's wrapper,
    which adds the generation configuration's), ``eos_token_id`` (transformers), and the special
    tokens that have a widely used end token's name.

    Raises :class:`VocabularyError` if the object is no such tokenizer, or its tokens have no
    byte form.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not all(hasattr(backend, name) for name in _BACKEND_ATTRIBUTES):
        raise VocabularyError(
            f"no tokens can be read from a {type(tokenizer).__qualname__}",
            hint="Give a tokenizers.Tokenizer, a fast transformers tokenizer or mlx-lm's "
            "wrapper, or build Vocabulary(token_bytes, end_token_ids=...) from bytes",
        )
    added = backend.get_added_tokens_decoder()
    special = {token.content: token_id for token_id, token in added.items() if token.special}
    ids = backend.get_vocab(with_added_tokens=True)
    unknown = getattr(backend.model, "unk_token", None)
    if unknown in ids:
        special.setdefault(unknown, ids[unknown])

    form = byte_form_of(
        _part(backend.decoder, "decoder"),
        _part(backend.pre_tokenizer, "pre-tokenizer"),
        byte_fallback=bool(getattr(backend.model, "byte_fallback", False)),
    )
    token = form.token
    token_bytes = {token_id: token(name) for name, token_id in ids.items()}
    for token_id, added_token in added.items():
        token_bytes[token_id] = form.added_token(added_token.content)
    token_bytes.update({token_id: name.encode() for name, token_id in special.items()})
    return TokenizerContents(
        token_bytes=token_bytes,
        special_tokens=special,
        end_token_ids=_end_tokens(tokenizer, special, token_bytes),
        strips_first_space=form.strips_first_space,
    )


_BACKEND_ATTRIBUTES = (
    "get_vocab",
    "get_added_tokens_decoder",
    "decoder",
    "pre_tokenizer",
    "model",
)


def _part(part: Any, name: str) -> Mapping[str, Any] | None:
    """The JSON of a tokenizer's decoder or pre-tokenizer."""
    if part is None:
        return None
    try:
        state: Mapping[str, Any] = json.loads(part.__getstate__())
    except Exception as error:  # The library raises a bare Exception for parts made in Python.
        raise VocabularyError(
            f"the tokenizer's {name} is custom code, so its tokens have no known byte form",
            hint="Build Vocabulary(token_bytes, end_token_ids=...) from bytes instead",
        ) from error
    return state


def _end_tokens(
    tokenizer: object, special: Mapping[str, int], token_bytes: Mapping[int, bytes]
) -> frozenset[int]:
    """End tokens by the best source; ids that the tokenizer does not have are passed over."""
    for attribute in ("eos_token_ids", "eos_token_id"):
        value = getattr(tokenizer, attribute, None)
        if value is None:
            continue
        ids: Iterable[int] = (value,) if isinstance(value, int) else value
        known = frozenset(token_id for token_id in ids if token_id in token_bytes)
        if known:
            return known
    return frozenset(special[name] for name in _COMMON_END_TOKENS if name in special)
