"""Text that must come next, cut into tokens as the tokenizer would cut it in its place."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TypeAlias

from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Matcher, Vocabulary
from state_machines.grammar.node import Node

__all__ = ["Encode", "ForcedTokens", "text_encoder"]

Encode: TypeAlias = Callable[[str], Sequence[int]]
"""A text to token ids, without any special tokens around it. Called on the model's thread."""

_CONTEXT = 4
"""Tokens before a forced text that it is cut together with."""

_PROBES = 'a1 "A,{-é\n'
"""Characters of different kinds that may come after a forced text, and merge with its end."""

_MAX_KNOWN = 4096
_SPECIAL_MARK = b"\xff"


class ForcedTokens:
    """Cuts what a matcher's state forces into tokens, for one vocabulary.

    Where one continuation is possible, nothing is to be sampled; but a model should find its own
    tokens in what it has written, or it goes on worse. So the text is cut as the tokenizer does it
    behind the tokens that were written last; and as much of its end is left to be sampled as may
    be cut otherwise once something follows.
    """

    def __init__(self, encode: Encode, vocabulary: Vocabulary) -> None:
        self._encode = encode
        self._vocabulary = vocabulary
        self._special = sorted(vocabulary.special_tokens.items(), key=lambda item: -len(item[0]))
        self._known: OrderedDict[tuple[tuple[int, ...], bytes, bool], tuple[int, ...]] = (
            OrderedDict()
        )

    def after(self, matcher: Matcher, written: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens that must come after those ``written``, maybe none.

        They spell the beginning of what the matcher's state forces, or all of it.
        """
        forced = matcher.forced_bytes()
        if not forced:
            return ()
        follow = matcher.state.compute_word_derivative(forced)
        is_over = follow.nullable and not follow.first_bytes
        context = self._context(written)
        key = (context, forced, is_over)
        tokens = self._known.get(key)
        if tokens is None:
            tokens = tuple(self._cut(context, forced, follow, is_over=is_over))
            self._known[key] = tokens
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        return tokens

    def _context(self, written: Sequence[int]) -> tuple[int, ...]:
        """Return the last tokens that are text."""
        forms = self._vocabulary.token_bytes
        text = takewhile(lambda i: not _is_special(forms[i]), reversed(written[-_CONTEXT:]))
        return tuple(text)[::-1]

    def _cut(
        self, context: tuple[int, ...], forced: bytes, follow: Node, *, is_over: bool
    ) -> list[int]:
        tokens: list[int] = []
        while forced:
            text, mark, rest = forced.partition(_SPECIAL_MARK)
            special = self._special_at(mark + rest) if mark else None
            # A special token is a boundary that nothing merges across.
            cut = self._cut_text(context, text, follow, is_hard=bool(mark) or is_over)
            tokens += cut
            written = b"".join(self._vocabulary.token_bytes[i] or b"" for i in cut)
            if special is None or written != text:
                break
            name, token_id = special
            tokens.append(token_id)
            forced = rest[len(name.encode()) :]
            context = ()
        return tokens

    def _special_at(self, text: bytes) -> tuple[str, int] | None:
        for name, token_id in self._special:
            if text.startswith(_SPECIAL_MARK + name.encode()):
                return name, token_id
        return None

    def _cut_text(
        self, context: tuple[int, ...], text: bytes, follow: Node, *, is_hard: bool
    ) -> list[int]:
        """Return the tokens of a text that are the same whatever may come after it."""
        if not text:
            return []
        for start in range(len(context) + 1):
            before = context[start:]
            cut = self._encoded(before, text)
            if cut is not None:
                break
        else:
            return []
        if not is_hard:
            for probe in _PROBES:
                if follow.first_bytes >> probe.encode()[0] & 1:
                    longer = self._encoded(before, text + probe.encode())
                    cut = _common(cut, longer or [])
        return cut

    def _encoded(self, before: tuple[int, ...], text: bytes) -> list[int] | None:
        """Return the tokens of a text behind others; ``None`` if these would be cut otherwise."""
        forms = self._vocabulary.token_bytes
        try:
            whole = b"".join(forms[i] or b"" for i in before) + text
            found = [int(i) for i in self._encode(whole.decode())]
        except UnicodeDecodeError:
            return None
        if found[: len(before)] != list(before):
            return None
        cut = found[len(before) :]
        # Some tokenizers put a space in front, and some texts spell special tokens.
        is_same = b"".join(forms[i] or b"" for i in cut) == text
        return cut if is_same else None


def text_encoder(tokenizer: TokenizerWrapper, lock: threading.Lock) -> Encode:
    """Return an encoder of texts; ``lock`` is held while the tokenizer is used."""
    backend = getattr(tokenizer, "backend_tokenizer", None)

    def encode(text: str) -> Sequence[int]:
        with lock:
            if backend is not None:
                # Several times as quick as what is built on it.
                ids: Sequence[int] = backend.encode(text, add_special_tokens=False).ids
            else:
                ids = tokenizer.encode(text, add_special_tokens=False)
        return ids

    return encode


def _is_special(form: bytes | None) -> bool:
    return form is None or form.startswith(_SPECIAL_MARK)


def _common(one: list[int], other: list[int]) -> list[int]:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return [token for token, _ in same]
