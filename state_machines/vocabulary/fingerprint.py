"""A digest of everything in a tokenizer that its vocabulary depends on.

The digest covers what :mod:`~state_machines.vocabulary.tokenizer_reader` reads. The names of the
tokens, nearly all of the data, can be represented by the files that they were loaded from: hashing
a file of 11 MB takes 7 ms, reading 151,000 names from a tokenizer more than ten times as long.
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
