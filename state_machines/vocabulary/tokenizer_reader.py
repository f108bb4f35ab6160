"""Read tokens, special tokens and end tokens from a tokenizer object.

Objects are recognised by their attributes and never by their class, so neither ``transformers``
nor ``mlx_lm`` is imported. The decoder is read through the pickling state of the tokenizer's
parts: the JSON that ``to_str`` writes, without serialising hundreds of thousands of merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from state_machines.errors import VocabularyError
from state_machines.vocabulary.byte_forms import byte_form_of

__all__ = [
    "TokenizerContents",
    "TokenizerFacts",
    "backend_of",
    "read_facts",
    "read_names",
    "read_tokenizer",
    "token_count",
]

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
class TokenizerFacts:
    """All that is read from a tokenizer but for the names of its tokens. Quick to read.

    ``added_tokens``
        Id, content and whether it is special, ascending.
    ``decoder``, ``pre_tokenizer``
        In JSON; ``None`` where there is none.
    ``end_token_ids``
        What the tokenizer object itself calls its end tokens, by source, the best one first.
    """

    added_tokens: tuple[tuple[int, str, bool], ...]
    unknown_token: str | None
    byte_fallback: bool
    decoder: str | None
    pre_tokenizer: str | None
    end_token_ids: tuple[tuple[int, ...], ...]


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
    facts, ids = read_facts(tokenizer), read_names(tokenizer)
    special = {content: token_id for token_id, content, special in facts.added_tokens if special}
    unknown = facts.unknown_token
    if unknown is not None and unknown in ids:
        special.setdefault(unknown, ids[unknown])

    form = byte_form_of(
        None if facts.decoder is None else json.loads(facts.decoder),
        None if facts.pre_tokenizer is None else json.loads(facts.pre_tokenizer),
        byte_fallback=facts.byte_fallback,
    )
    token = form.token
    token_bytes = {token_id: token(name) for name, token_id in ids.items()}
    for token_id, content, _ in facts.added_tokens:
        token_bytes[token_id] = form.added_token(content)
    token_bytes.update({token_id: name.encode() for name, token_id in special.items()})
    return TokenizerContents(
        token_bytes=token_bytes,
        special_tokens=special,
        end_token_ids=_end_tokens(facts, special, token_bytes),
        strips_first_space=form.strips_first_space,
    )


def read_facts(tokenizer: object) -> TokenizerFacts:
    """Read all but the names of the tokens.

    Raises :class:`VocabularyError` if the object is no tokenizer, or parts of it are custom code.
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
    """Return the number of tokens, added ones included; ids may be higher than that."""
    count: int = backend_of(tokenizer).get_vocab_size(with_added_tokens=True)
    return count


def read_names(tokenizer: object) -> dict[str, int]:
    """Return the ids of all tokens by their printable forms, ascending."""
    backend, count = backend_of(tokenizer), token_count(tokenizer)
    # Where ids have no gaps and names no doubles, this says the same as what is asked for below.
    # Names that were made in order lie so in memory, which is what their readers gain.
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
    """Return the ``tokenizers.Tokenizer`` of a tokenizer; raise :class:`VocabularyError`."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not all(hasattr(backend, name) for name in _BACKEND_ATTRIBUTES):
        raise VocabularyError(
            f"no tokens can be read from a {type(tokenizer).__qualname__}",
            hint="Give a tokenizers.Tokenizer, a fast transformers tokenizer or mlx-lm's "
            "wrapper, or build Vocabulary(token_bytes, end_token_ids=...) from bytes",
        )
    return backend


def _part(part: Any, name: str) -> str | None:
    """Return the JSON of a tokenizer's decoder or pre-tokenizer."""
    if part is None:
        return None
    try:
        return json.dumps(json.loads(part.__getstate__()))
    except Exception as error:  # The library raises a bare Exception for parts made in Python.
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
    """End tokens by the best source; ids that the tokenizer does not have are passed over."""
    for ids in facts.end_token_ids:
        known = frozenset(token_id for token_id in ids if token_id in token_bytes)
        if known:
            return known
    return frozenset(special[name] for name in _COMMON_END_TOKENS if name in special)
