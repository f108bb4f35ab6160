"""The immutable vocabulary: one bytes object a token id."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from state_machines.errors import VocabularyError
from state_machines.vocabulary.array_file import read_arrays, write_arrays
from state_machines.vocabulary.tables import Array, Tables, pack, unpack
from state_machines.vocabulary.tokenizer_reader import read_tokenizer

__all__ = ["LAYOUT", "Vocabulary"]

LAYOUT = 2
"""The number of what is saved: another one wherever the same arrays would mean something else."""

_TOKENS = "tokens"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Vocabulary:
    r"""The tokens of a language model as bytes. Immutable; equal to itself alone.

    ``token_bytes``
        Length ``size``, indexed by token id. ``None``: the id is never allowed (padding, unused).
        Special and end tokens have the form ``b"\xff" + name``, which no UTF-8 text contains;
        other tokens with that byte are never allowed, either.
        Several ids may have the same bytes, and a token may end inside a UTF-8 character.
    ``end_token_ids``
        Any of these ends the output. They are at least one, and never count as text.
    ``special_tokens``
        Name to id of all special tokens, end tokens included. A name is given without the mark.
    ``strips_first_space``
        The tokenizer's own ``decode`` drops one space at the start of a whole text
        (SentencePiece's first-space decoders). ``token_bytes`` are what tokens mean in the
        *middle* of a text, where a model's answer stands, and keep that space.
    ``tables``
        What masks have derived from the tokens by now. Saved with the vocabulary.

    Raises :class:`VocabularyError` for a token without bytes (``b""``), which would be allowed
    for ever, for ids out of range, and without end tokens. Names may be given with or without
    the mark.

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
    tables: Tables = field(init=False)

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        *,
        end_token_ids: Iterable[int],
        special_tokens: Mapping[str, int] | None = None,
        strips_first_space: bool = False,
    ) -> None:
        if isinstance(token_bytes, str | bytes) or not isinstance(token_bytes, Iterable):
            raise VocabularyError(
                f"the bytes of tokens are a list, not {type(token_bytes).__name__}"
            )
        forms = list(token_bytes)
        _check_forms(forms)
        ends = _checked_ids(end_token_ids, forms, "end token")
        if not ends:
            raise VocabularyError(
                "the vocabulary has no end token", hint="Name them with end_token_ids=[...]"
            )
        if not isinstance(special_tokens, Mapping | None):
            raise VocabularyError(
                f"special tokens are a mapping, not {type(special_tokens).__name__}"
            )
        names = dict(special_tokens or {})
        for name in names:
            if not isinstance(name, str) or not _is_encodable(name):
                raise VocabularyError(f"the name of a special token is text, not {name!r}")
        _checked_ids(names.values(), forms, "special token")
        named = set(names.values())
        for token_id in sorted(ends - named):
            form = forms[token_id] or b""
            names[form.removeprefix(Vocabulary.SPECIAL_MARK).decode(errors="backslashreplace")] = (
                token_id
            )
        # No text has that byte, but the form of a special token could be begun with it.
        forms = [
            None if form is not None and Vocabulary.SPECIAL_MARK in form else form for form in forms
        ]
        for name, token_id in names.items():
            forms[token_id] = Vocabulary.SPECIAL_MARK + name.encode()
        self._set(tuple(forms), ends, names, strips_first_space, Tables())

    def _set(
        self,
        forms: tuple[bytes | None, ...],
        ends: frozenset[int],
        names: dict[str, int],
        strips_first_space: bool,
        tables: Tables,
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

        Byte-level BPE, SentencePiece-like tokenizers (Metaspace, byte fallback, first-space
        decoders) and tokenizers whose tokens are plain text are understood; others raise.

        ``end_token_ids`` replaces what the tokenizer says. By default these are the wrapper's
        ``eos_token_ids``, else ``eos_token_id``, else (a bare ``tokenizers.Tokenizer`` knows
        none) every special token with a widely used end token's name, such as ``</s>``,
        ``<|im_end|>`` or ``<|eot_id|>``: a chat model may stop with any of them, and a special
        token is never text.

        ``size`` is the width of the model's logits where it differs from the vocabulary: a wider
        one is filled up with unused ids, a narrower one cuts off tokens the model cannot give.

        Added tokens that are not special are ordinary text. The unknown token is special.

        Raises :class:`VocabularyError`, see above and :class:`Vocabulary`.
        """
        contents = read_tokenizer(tokenizer)
        width = max(contents.token_bytes, default=-1) + 1 if size is None else size
        if width < 1:
            raise VocabularyError(f"a vocabulary of {width} tokens cannot write anything")
        forms: list[bytes | None] = [None] * width
        for token_id, form in contents.token_bytes.items():
            if token_id < width:
                forms[token_id] = form or None
        found = contents.end_token_ids if end_token_ids is None else end_token_ids
        return cls(
            forms,
            end_token_ids=[i for i in found if end_token_ids is not None or i < width],
            special_tokens={
                name: token_id
                for name, token_id in contents.special_tokens.items()
                if token_id < width and name
            },
            strips_first_space=contents.strips_first_space,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary to a file, which :meth:`load` reads in milliseconds.

        With it goes what masks have derived from its tokens; so after a first mask there is more
        to save, and less to do for who loads it. The file is in the safetensors format. It takes
        its name in one step: readers see what was there before, or all of it. Raises
        :class:`OSError` where it cannot be written.
        """
        lengths, text = pack([form or b"" for form in self.token_bytes])
        arrays = {f"{_TOKENS}.lengths": lengths, f"{_TOKENS}.text": text}
        for group, members in self.tables.groups().items():
            arrays.update((f"{group}.{name}", array) for name, array in members.items())
        metadata = {
            "layout": str(LAYOUT),
            "end_token_ids": json.dumps(sorted(self.end_token_ids)),
            "special_tokens": json.dumps(dict(self.special_tokens)),
            "strips_first_space": json.dumps(self.strips_first_space),
        }
        write_arrays(Path(path), arrays, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a vocabulary that :meth:`save` has written.

        Raises :class:`VocabularyError` for a file that is damaged, no vocabulary, or of another
        version's layout; :class:`OSError` where there is none or it cannot be read. A digest
        guards against damage, not against who writes such a file in bad faith: its masks can be
        wrong, but nothing in it is executed.
        """
        arrays, metadata = read_arrays(Path(path))
        if metadata.get("layout") != str(LAYOUT):
            raise VocabularyError(f"{os.fspath(path)} has another version's layout")
        groups: dict[str, dict[str, Array]] = {}
        for name, array in arrays.items():
            group, _, member = name.partition(".")
            groups.setdefault(group, {})[member] = array
        tokens = groups.pop(_TOKENS)
        forms = unpack(tokens["lengths"], tokens["text"])
        vocabulary = cls.__new__(cls)
        vocabulary._set(
            tuple([form or None for form in forms]),
            frozenset(json.loads(metadata["end_token_ids"])),
            json.loads(metadata["special_tokens"]),
            json.loads(metadata["strips_first_space"]),
            Tables(groups),
        )
        return vocabulary

    @property
    def size(self) -> int:
        """Number of ids: the length of a mask and the width of the model's logits."""
        return len(self.token_bytes)

    def decode(self, token_ids: Iterable[int]) -> bytes:
        r"""Join the tokens' bytes. End tokens and unused ids add nothing.

        Other special tokens keep their form ``b"\xff" + name``. The result can stop inside a
        UTF-8 character. Raises :class:`VocabularyError` for an id out of range.
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


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_forms(forms: Sequence[object]) -> None:
    for token_id, form in enumerate(forms):
        if form is not None and (not isinstance(form, bytes) or not form):
            raise VocabularyError(
                f"token {token_id} is {form!r}, which is no bytes of length one or more",
                hint="Use None for ids that are never to be written",
            )


def _checked_ids(ids: Iterable[int], forms: Sequence[bytes | None], role: str) -> frozenset[int]:
    try:
        checked = frozenset(map(index, ids))
    except TypeError as error:
        raise VocabularyError(f"ids of {role}s are integers: {error}") from error
    for token_id in sorted(checked):
        if not 0 <= token_id < len(forms):
            raise _out_of_range(role, token_id, len(forms))
        if forms[token_id] is None:
            raise VocabularyError(f"{role} {token_id} is an unused id of the vocabulary")
    return checked


def _out_of_range(role: str, token_id: int, size: int) -> VocabularyError:
    return VocabularyError(f"{role} {token_id} is not in a vocabulary of {size} tokens")
