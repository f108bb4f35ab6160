"""Vocabularies: the bytes of each token of a language model.

Reading order: :class:`Vocabulary`, ``byte_forms`` (from a printable token to its bytes),
``tokenizer_reader`` (from a tokenizer to its tokens, and its fingerprint), ``array_file`` (arrays
derived from a vocabulary, and their file).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import ClassVar, Self
from weakref import WeakKeyDictionary

from state_machines.budgets import uncharged
from state_machines.errors import VocabularyError, has_surrogate
from state_machines.notebook_view import vocabulary_html
from state_machines.vocabulary.array_file import (
    Array,
    ArrayGroups,
    pack,
    read_arrays,
    unpack,
    write_arrays,
)
from state_machines.vocabulary.tokenizer_reader import read_tokenizer

__all__ = ["LAYOUT", "PerVocabulary", "Vocabulary"]


LAYOUT = 6
"""Version of the saved arrays. Raise it whenever the same arrays would mean something else."""

_TOKENS = "tokens"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Vocabulary:
    r"""The tokens of a language model as bytes. Immutable; compared by identity.

    Args:
        token_bytes: The bytes of each token, by token id. ``None``: the id is never allowed.
        end_token_ids: Ids of the tokens that end an output; at least one.
        special_tokens: Ids of special tokens by name, with or without the mark.
        strips_first_space: Whether the tokenizer's own ``decode`` drops one space at the start of a
            whole text, as SentencePiece's first-space decoders do.

    Attributes:
        token_bytes: Length ``size``. Special and end tokens have the form ``b"\xff" + name``, which
            no UTF-8 text contains; other tokens with that byte are ``None``. Several ids may have
            the same bytes, and a token may end inside a UTF-8 character. First spaces are kept:
            these are the bytes in the *middle* of a text, where a model's answer stands.
        end_token_ids: Ids of the end tokens. They are never text.
        special_tokens: Ids of all special tokens by name without the mark, end tokens included.
        strips_first_space: See the argument.
        tables: Arrays that masks have derived from the tokens. Saved with the vocabulary.

    Raises:
        VocabularyError: A token is empty (``b""``), which would be allowed for ever; an id is out
            of range; or there is no end token.

    >>> vocabulary = Vocabulary([b"a", b"b", None, b"</s>"], end_token_ids=[3])
    >>> vocabulary.size, vocabulary.token_bytes[3], dict(vocabulary.special_tokens)
    (4, b'\xff</s>', {'</s>': 3})
    """

    SPECIAL_MARK: ClassVar[bytes] = b"\xff"
    """The first byte of a special token's form. No UTF-8 text contains it."""

    token_bytes: tuple[bytes | None, ...]
    end_token_ids: frozenset[int]
    special_tokens: Mapping[str, int]
    strips_first_space: bool = field(kw_only=True, default=False)
    tables: ArrayGroups = field(init=False)

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        *,
        end_token_ids: Iterable[int],
        special_tokens: Mapping[str, int] | None = None,
        strips_first_space: bool = False,
    ) -> None:
        if isinstance(token_bytes, str | bytes) or not isinstance(token_bytes, Iterable):
            raise VocabularyError(f"token_bytes must be a list, not {type(token_bytes).__name__}")
        forms = list(token_bytes)
        _check_forms(forms)
        ends = _checked_ids(end_token_ids, forms, "end token")
        if not ends:
            raise VocabularyError(
                "the vocabulary has no end token", hint="Give end_token_ids=[...]"
            )
        if not isinstance(special_tokens, Mapping | None):
            raise VocabularyError(
                f"special_tokens must be a mapping, not {type(special_tokens).__name__}"
            )
        names = dict(special_tokens or {})
        for name in names:
            if not isinstance(name, str) or has_surrogate(name):
                raise VocabularyError(f"the name of a special token must be text, not {name!r}")
        _checked_ids(names.values(), forms, "special token")
        # Several tokens may have one name, such as two end tokens with the same bytes.
        name_of = {token_id: name for name, token_id in names.items()}
        for token_id in sorted(ends - name_of.keys()):
            form = forms[token_id] or b""
            name = form.removeprefix(Vocabulary.SPECIAL_MARK).decode(errors="backslashreplace")
            name_of[token_id] = name
            names[name] = token_id
        # A token with the mark could write the beginning of a special token's form.
        forms = [
            None if form is not None and Vocabulary.SPECIAL_MARK in form else form for form in forms
        ]
        for token_id, name in name_of.items():
            forms[token_id] = Vocabulary.SPECIAL_MARK + name.encode()
        self._set(tuple(forms), ends, names, strips_first_space, ArrayGroups())

    def _set(
        self,
        forms: tuple[bytes | None, ...],
        ends: frozenset[int],
        names: dict[str, int],
        strips_first_space: bool,
        tables: ArrayGroups,
    ) -> None:
        object.__setattr__(self, "token_bytes", forms)
        object.__setattr__(self, "end_token_ids", ends)
        object.__setattr__(self, "special_tokens", MappingProxyType(names))
        object.__setattr__(self, "strips_first_space", strips_first_space)
        object.__setattr__(self, "tables", tables)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: object,
        *,
        end_token_ids: Iterable[int] | None = None,
        size: int | None = None,
    ) -> Vocabulary:
        """Read a ``tokenizers.Tokenizer``, a fast transformers tokenizer or mlx-lm's wrapper.

        Supports byte-level BPE, SentencePiece-like tokenizers (Metaspace, byte fallback,
        first-space decoders) and tokenizers whose tokens are plain text. Added tokens that are not
        special are ordinary text. The unknown token is special.

        Args:
            tokenizer: The tokenizer.
            end_token_ids: Replaces the tokenizer's end tokens. By default these are
                ``eos_token_ids`` (mlx-lm's wrapper), else ``eos_token_id``, else, for a bare
                ``tokenizers.Tokenizer``, every special token with the name of a widely used end
                token, such as ``</s>``, ``<|im_end|>`` or ``<|eot_id|>``.
            size: Width of the model's logits, if it differs from the vocabulary. A wider vocabulary
                is padded with unused ids, a narrower one is cut off.

        Raises:
            VocabularyError: The tokenizer is not supported, or has no end token.
        """
        token_bytes, special, ends, strips_first_space = read_tokenizer(tokenizer)
        width = max(token_bytes, default=-1) + 1 if size is None else size
        if width < 1:
            raise VocabularyError(f"size must be 1 or more, not {width}")
        forms: list[bytes | None] = [None] * width
        for token_id, form in token_bytes.items():
            if token_id < width:
                forms[token_id] = form or None
        return cls(
            forms,
            end_token_ids=[i for i in ends if i < width]
            if end_token_ids is None
            else end_token_ids,
            special_tokens={name: i for name, i in special.items() if i < width and name},
            strips_first_space=strips_first_space,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary to a file, replaced atomically.

        The arrays that masks have derived so far are saved too. After a first mask there are more
        of them, so a process that loads the file starts faster.

        Raises:
            OSError: The file cannot be written.
        """
        lengths, text = pack([form or b"" for form in self.token_bytes])
        arrays = {f"{_TOKENS}.lengths": lengths, f"{_TOKENS}.text": text}
        for group, members in self.tables.groups().items():
            arrays.update((f"{group}.{name}", array) for name, array in members.items())
        metadata = {
            "layout": LAYOUT,
            "end_token_ids": sorted(self.end_token_ids),
            "special_tokens": dict(self.special_tokens),
            "strips_first_space": self.strips_first_space,
        }
        write_arrays(Path(path), arrays, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a vocabulary that :meth:`save` has written.

        A digest detects damage, but does not authenticate the file: a forged file can give wrong
        masks. Nothing in it is executed.

        Raises:
            VocabularyError: The file is damaged, is no vocabulary, or has another layout version.
            OSError: The file cannot be read.
        """
        arrays, metadata = read_arrays(Path(path))
        if metadata["layout"] != LAYOUT:
            raise VocabularyError(
                f"{os.fspath(path)} has the layout of another version",
                hint="Save the vocabulary again",
            )
        groups: dict[str, dict[str, Array]] = {}
        for name, array in arrays.items():
            group, _, member = name.partition(".")
            groups.setdefault(group, {})[member] = array
        tokens = groups.pop(_TOKENS)
        forms = unpack(tokens["lengths"], tokens["text"])
        vocabulary = cls.__new__(cls)
        vocabulary._set(
            tuple([form or None for form in forms]),
            frozenset(metadata["end_token_ids"]),
            metadata["special_tokens"],
            metadata["strips_first_space"],
            ArrayGroups(groups),
        )
        return vocabulary

    @property
    def size(self) -> int:
        """Number of token ids: the length of a mask, and the width of the model's logits."""
        return len(self.token_bytes)

    def decode(self, token_ids: Iterable[int]) -> bytes:
        r"""Return the joined bytes of tokens; end tokens and unused ids add nothing.

        Other special tokens keep their form ``b"\xff" + name``. The result can end inside a UTF-8
        character.

        Raises:
            VocabularyError: An id is out of range.
        """
        parts: list[bytes] = []
        for token_id in token_ids:
            if not 0 <= token_id < self.size:
                raise _out_of_range("token", token_id, self.size)
            if token_id not in self.end_token_ids:
                parts.append(self.token_bytes[token_id] or b"")
        return b"".join(parts)

    def __repr__(self) -> str:
        ends = sorted(self.end_token_ids)
        return f"<Vocabulary of {self.size} tokens, end tokens {ends}>"

    def _repr_html_(self) -> str:
        """Return the vocabulary as HTML, which notebooks show."""
        return vocabulary_html(self.token_bytes, self.end_token_ids, self.special_tokens)


class PerVocabulary:
    """Base class of objects that are made once for each vocabulary.

    Args:
        vocabulary: The tokens.
    """

    _known: ClassVar[WeakKeyDictionary[Vocabulary, PerVocabulary]]
    _lock: ClassVar[Lock]

    def __init__(self, vocabulary: Vocabulary) -> None:
        del vocabulary

    def __init_subclass__(cls) -> None:
        cls._known, cls._lock = WeakKeyDictionary(), Lock()

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Self:
        """Return the object of a vocabulary, made on first use and kept as long as it lives."""
        with cls._lock:
            known = cls._known.get(vocabulary)
            if known is None:
                # The work is done once, and a checkpoint must not block a thread that has a lock.
                with uncharged():
                    known = cls._known[vocabulary] = cls(vocabulary)
        assert isinstance(known, cls)
        return known


def _check_forms(forms: Sequence[object]) -> None:
    for token_id, form in enumerate(forms):
        if form is not None and (not isinstance(form, bytes) or not form):
            raise VocabularyError(
                f"token {token_id} must be bytes of length 1 or more, not {form!r}",
                hint="Use None for unused ids",
            )


def _checked_ids(ids: Iterable[int], forms: Sequence[bytes | None], role: str) -> frozenset[int]:
    try:
        checked = frozenset(map(index, ids))
    except TypeError as error:
        raise VocabularyError(f"ids of {role}s must be integers: {error}") from error
    for token_id in sorted(checked):
        if not 0 <= token_id < len(forms):
            raise _out_of_range(role, token_id, len(forms))
        if forms[token_id] is None:
            raise VocabularyError(f"{role} {token_id} is an unused id of the vocabulary")
    return checked


def _out_of_range(role: str, token_id: int, size: int) -> VocabularyError:
    return VocabularyError(f"{role} {token_id} is not in a vocabulary of {size} tokens")
