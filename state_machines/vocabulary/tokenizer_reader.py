"""Read tokens, special tokens and end tokens from a tokenizer object.

Objects are recognised by their attributes, not by their class, so neither ``transformers`` nor
``mlx_lm`` is imported. The decoder is read through the pickling state of the tokenizer's parts: the
JSON that ``to_str`` writes, without serialising hundreds of thousands of merges.

The fingerprint of a tokenizer is a digest of all that its vocabulary depends on. The names of
the tokens, nearly all of the data, can be represented by the files that they were loaded from:
hashing a file of 11 MB takes 7 ms, reading 151,000 names from a tokenizer more than ten times as
long.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from state_machines.errors import VocabularyError
from state_machines.vocabulary.byte_forms import byte_form_of

# Tokens that end a text or a chat turn in widely used model families. Used only if the tokenizer
# object does not name its end tokens, and only if they are special tokens.
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
class TokenizerFacts:
    """The data of a tokenizer except the names of its tokens. Fast to read.

    Attributes:
        added_tokens: Id, content and whether it is special; ascending.
        unknown_token: The token for unknown text, if there is one.
        byte_fallback: Whether the model spells unknown characters by byte tokens.
        decoder: The JSON of the decoder, parsed, if there is one.
        pre_tokenizer: The JSON of the pre-tokenizer, parsed, if there is one.
        end_token_ids: The end tokens of each source that names some, in order of preference.
    """

    added_tokens: tuple[tuple[int, str, bool], ...]
    unknown_token: str | None
    byte_fallback: bool
    decoder: Any
    pre_tokenizer: Any
    end_token_ids: tuple[tuple[int, ...], ...]


def read_tokenizer(
    tokenizer: object,
) -> tuple[dict[int, bytes], dict[str, int], frozenset[int], bool]:
    """Read a ``tokenizers.Tokenizer``, a transformers fast tokenizer or a wrapper around one.

    End tokens come from the first source that names any: ``eos_token_ids`` (mlx-lm's wrapper, with
    those of the generation configuration), ``eos_token_id`` (transformers), and the special tokens
    with the name of a widely used end token.

    Returns:
        The bytes of tokens by id, for special tokens their names; missing ids are unused. The ids
        of special tokens by name. The end tokens. Whether the first space of a text is dropped, see
        :class:`~state_machines.vocabulary.byte_forms.ByteForm`.

    Raises:
        VocabularyError: The object is no such tokenizer, or its tokens have no byte form.
    """
    facts, ids = read_facts(tokenizer), read_names(tokenizer)
    special = {content: token_id for token_id, content, special in facts.added_tokens if special}
    unknown = facts.unknown_token
    if unknown is not None and unknown in ids:
        special.setdefault(unknown, ids[unknown])

    form = byte_form_of(facts.decoder, facts.pre_tokenizer, byte_fallback=facts.byte_fallback)
    token = form.token
    token_bytes = {token_id: token(name) for name, token_id in ids.items()}
    for token_id, content, _ in facts.added_tokens:
        token_bytes[token_id] = token(content)
    token_bytes.update({token_id: name.encode() for name, token_id in special.items()})
    ends = _end_tokens(facts, special, token_bytes)
    return token_bytes, special, ends, form.strips_first_space


def read_facts(tokenizer: object) -> TokenizerFacts:
    """Read everything except the names of the tokens.

    Raises:
        VocabularyError: The object is no tokenizer, or has parts in custom code.
    """
    backend = backend_of(tokenizer)
    added = backend.get_added_tokens_decoder().items()
    return TokenizerFacts(
        added_tokens=tuple(sorted((i, token.content, bool(token.special)) for i, token in added)),
        unknown_token=getattr(backend.model, "unk_token", None),
        byte_fallback=bool(getattr(backend.model, "byte_fallback", False)),
        decoder=_part(backend.decoder, "decoder"),
        pre_tokenizer=_part(backend.pre_tokenizer, "pre-tokenizer"),
        end_token_ids=tuple(_named_end_tokens(tokenizer)),
    )


def token_count(tokenizer: object) -> int:
    """Return the number of tokens, with added tokens; an id may be higher."""
    count: int = backend_of(tokenizer).get_vocab_size(with_added_tokens=True)
    return count


def read_names(tokenizer: object) -> dict[str, int]:
    """Return the ids of all tokens by their printable forms, ascending."""
    backend, count = backend_of(tokenizer), token_count(tokenizer)
    # If ids have no gaps and names are unique, this equals ``get_vocab``, which is slower. Names
    # created in order are adjacent in memory, which speeds up reading them.
    ids = dict(zip(map(backend.id_to_token, range(count)), range(count), strict=True))
    if len(ids) < count or None in ids:
        found: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        ids = dict(sorted(found.items(), key=itemgetter(1)))
    return ids


_BACKEND_ATTRIBUTES = (
    "get_vocab",
    "get_vocab_size",
    "get_added_tokens_decoder",
    "id_to_token",
    "decoder",
    "pre_tokenizer",
    "model",
)


def backend_of(tokenizer: object) -> Any:
    """Return the ``tokenizers.Tokenizer`` of a tokenizer.

    Raises:
        VocabularyError: The object is no tokenizer.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not all(hasattr(backend, name) for name in _BACKEND_ATTRIBUTES):
        raise VocabularyError(
            f"a {type(tokenizer).__qualname__} is not a supported tokenizer",
            hint="Give a tokenizers.Tokenizer, a fast transformers tokenizer or mlx-lm's "
            "wrapper, or build Vocabulary(token_bytes, end_token_ids=...) from bytes",
        )
    return backend


def _part(part: Any, name: str) -> Any:
    """Return the parsed JSON of a tokenizer's decoder or pre-tokenizer."""
    if part is None:
        return None
    try:
        return json.loads(part.__getstate__())
    except Exception as error:  # The library raises a bare Exception for parts in Python.
        raise VocabularyError(
            f"the tokenizer's {name} is custom code, so its tokens have no known byte form",
            hint="Build Vocabulary(token_bytes, end_token_ids=...) from bytes instead",
        ) from error


def _named_end_tokens(tokenizer: object) -> Iterator[tuple[int, ...]]:
    for attribute in ("eos_token_ids", "eos_token_id"):
        value = getattr(tokenizer, attribute, None)
        if value is not None:
            yield (value,) if isinstance(value, int) else tuple(sorted(value))


def _end_tokens(
    facts: TokenizerFacts, special: Mapping[str, int], token_bytes: Mapping[int, bytes]
) -> frozenset[int]:
    """Return the end tokens of the first source that names tokens of the tokenizer."""
    for ids in facts.end_token_ids:
        known = frozenset(token_id for token_id in ids if token_id in token_bytes)
        if known:
            return known
    return frozenset(special[name] for name in _COMMON_END_TOKENS if name in special)


_SAMPLES = 1024
"""Names that are compared although the files are hashed."""


def fingerprint(
    tokenizer: object,
    *,
    files: Iterable[str | os.PathLike[str]] = (),
    end_token_ids: Iterable[int] | None = None,
    size: int | None = None,
) -> str:
    """Return a digest; equal digests mean equal results of ``Vocabulary.from_tokenizer``.

    Args:
        tokenizer: As for ``Vocabulary.from_tokenizer``.
        files: Files that the tokenizer was loaded from. Changes since then, such as added tokens,
            count as well. Without files the names of all tokens are read.
        end_token_ids: As for ``Vocabulary.from_tokenizer``.
        size: As for ``Vocabulary.from_tokenizer``.

    Raises:
        VocabularyError: The object is no tokenizer, or has parts in custom code.
        OSError: A file cannot be read.
    """
    ends = None if end_token_ids is None else sorted(set(end_token_ids))
    digest = hashlib.sha256(repr((read_facts(tokenizer), ends, size)).encode())
    contents = [_file_digest(path) for path in files]
    if contents:
        digest.update(repr((contents, _some_names(tokenizer))).encode())
    else:
        for part in _all_names(tokenizer):
            digest.update(part)
    return digest.hexdigest()


def _file_digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _some_names(tokenizer: object) -> list[str | None]:
    """Return names sampled from the whole vocabulary, to detect files of another tokenizer."""
    backend = backend_of(tokenizer)
    count = token_count(tokenizer)
    return [backend.id_to_token(i) for i in range(0, count, count // _SAMPLES + 1)]


def _all_names(tokenizer: object) -> Iterator[bytes]:
    ids = read_names(tokenizer)
    for numbers in (ids.values(), map(len, ids)):
        yield np.fromiter(numbers, "<i8", len(ids)).tobytes()
    yield "".join(ids).encode()
