"""A digest of all that a vocabulary depends on, without making the vocabulary.

It covers what :mod:`~state_machines.vocabulary.tokenizer_reader` reads. The names of the tokens,
which are nearly all of it, can be given as the files that they came from: to hash a file of 11 MB
takes 7 ms, to read the 151,000 names out of a tokenizer more than ten times as long.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator

import numpy as np

from state_machines.vocabulary.tokenizer_reader import (
    backend_of,
    read_facts,
    read_names,
    token_count,
)

__all__ = ["fingerprint"]

_SAMPLES = 1024


def fingerprint(
    tokenizer: object,
    *,
    files: Iterable[str | os.PathLike[str]] = (),
    end_token_ids: Iterable[int] | None = None,
    size: int | None = None,
) -> str:
    """Return a digest that two calls share only if ``Vocabulary.from_tokenizer`` gives them equals.

    ``files`` are those that the tokenizer was loaded from; what has been done to it since, such as
    adding tokens, counts all the same. Without files the names of all tokens are read.

    Raises :class:`VocabularyError` for what is no tokenizer, or has parts in custom code;
    :class:`OSError` where a file cannot be read.
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
    """Return names of tokens all over the vocabulary.

    They would tell a tokenizer that was not loaded from the files it is said to come from.
    """
    backend = backend_of(tokenizer)
    count = token_count(tokenizer)
    return [backend.id_to_token(i) for i in range(0, count, count // _SAMPLES + 1)]


def _all_names(tokenizer: object) -> Iterator[bytes]:
    ids = read_names(tokenizer)
    for numbers in (ids.values(), map(len, ids)):
        yield np.fromiter(numbers, "<i8", len(ids)).tobytes()
    yield "".join(ids).encode()
