"""Forced text: tokenized as the tokenizer would do it in context, and written without sampling."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from state_machines import Matcher, Vocabulary
from state_machines.budgets import step_budget
from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import byte_range, bytes_in

from .restrictions import MASK_STEPS, RestrictedText, Restriction, only
from .sampling import Mask

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

Encode: TypeAlias = Callable[[str], Sequence[int]]
"""Text to token ids, without added special tokens. Called on the model's thread."""

_CONTEXT_TOKENS = 4
"""Tokens before the forced text that are tokenized together with it."""

_CLASSES = (string.ascii_lowercase, string.digits, " ", '"', string.ascii_uppercase, *",{-\n")
"""Classes of characters that may follow forced text and merge with its end."""

_MAX_FOLLOWING = 8
"""Different characters that may follow up to which all of them are tried."""

_MAX_CACHED = 4096
_ASCII = byte_range(0, 0x7F)


class FastForward:
    """Tokenizes the text that a matcher's state forces, for one vocabulary.

    Forced text needs no sampling, but a model continues worse after a tokenization that its
    tokenizer never produces. The text is therefore tokenized behind the last generated tokens, and
    final tokens that could merge with the text that follows are left to be sampled.

    Args:
        encode: The model's tokenizer.
        vocabulary: Vocabulary of the matchers.
    """

    def __init__(self, encode: Encode, vocabulary: Vocabulary) -> None:
        self._encode = encode
        self._vocabulary = vocabulary
        # SentencePiece tokenizers insert a space at the start of a text. Behind a newline, which
        # is a token of its own, they tokenize a text as in the middle of a longer one.
        self._lead = "\n" if vocabulary.strips_first_space else ""
        self._lead_ids = list(encode(self._lead)) if self._lead else []
        self._special = sorted(vocabulary.special_tokens.items(), key=lambda item: -len(item[0]))
        self._known: LruCache[tuple[tuple[int, ...], bytes, bool, str], tuple[int, ...]] = LruCache(
            _MAX_CACHED
        )
        self._followed: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_MAX_CACHED)

    def tokens(self, matcher: Matcher, generated: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens that must follow ``generated``; they may be none.

        The tokens spell a prefix of the text that the matcher's state forces.
        """
        forced = matcher.forced_bytes()
        if not forced:
            return ()
        follow = matcher.state.compute_word_derivative(forced)
        is_end = follow.nullable and not follow.first_bytes
        context = self._context(generated)
        following = "" if is_end else _following_characters(follow)
        key = (context, forced, is_end, following)
        tokens = self._known.get(key)
        if tokens is None:
            tokens = tuple(self._tokenize(context, forced, following, is_end=is_end))
            self._known.put(key, tokens)
        return tokens

    def may_follow(self, state: Node, allowed: npt.NDArray[np.bool_]) -> bool:
        """Whether forced text may follow the next token of a state.

        The result is cached with the state, and ``False`` where this exceeds the budget of a mask.
        """
        known = self._followed.peek(state)
        if known is None:
            try:
                with step_budget(MASK_STEPS):
                    known = self._search_follow(state, allowed)
            except GrammarBudgetError:
                known = False
            self._followed.put(state, known)
        return known

    def _search_follow(self, state: Node, allowed: npt.NDArray[np.bool_]) -> bool:
        for token_id in np.flatnonzero(allowed).tolist():
            form = self._vocabulary.token_bytes[token_id]
            if form is None or token_id in self._vocabulary.end_token_ids:
                continue
            after = state.word_derivative(form)
            first = after.first_bytes
            # first & (first - 1) == 0: at most one byte can follow.
            if must_end(after) or (not after.nullable and not first & (first - 1)):
                return True
        return False

    def retokenize(
        self, context: Sequence[int], text: bytes, following: str = ""
    ) -> Sequence[int] | None:
        """Return the tokens that the tokenizer gives a text behind other tokens.

        Args:
            context: The tokens before the text. The last few of them are considered.
            text: The text. Special tokens have the form of the vocabulary.
            following: Characters that may follow. Final tokens that could merge with one of them
                are left out.

        Returns:
            The leading tokens of the text; ``None`` if the text would change the last token of the
            context, is not UTF-8, or spells a special token in ordinary ones.
        """
        before = self._context(context)
        text_before, mark, rest = text.partition(Vocabulary.SPECIAL_MARK)
        for start in range(max(len(before), 1)):
            tokens = self._encode_after(before[start:], text_before)
            if tokens is not None and mark:
                # Nothing merges across a special token.
                return tokens + self._tokenize((), mark + rest, following, is_end=False)
            if tokens is not None:
                return self._without_merges(before[start:], text_before, tokens, following)
        return None

    def _context(self, generated: Sequence[int]) -> tuple[int, ...]:
        """Return the last tokens, back to the last special one."""
        forms = self._vocabulary.token_bytes
        text = takewhile(
            lambda i: not _is_special(forms[i]), reversed(generated[-_CONTEXT_TOKENS:])
        )
        return tuple(text)[::-1]

    def _tokenize(
        self, context: tuple[int, ...], forced: bytes, following: str, *, is_end: bool
    ) -> list[int]:
        tokens: list[int] = []
        while forced:
            text, mark, rest = forced.partition(Vocabulary.SPECIAL_MARK)
            special = self._special_at(mark + rest) if mark else None
            # Nothing merges across a special token.
            found = self._tokenize_text(context, text, "" if mark else following)
            tokens += found
            spelled = b"".join(self._vocabulary.token_bytes[i] or b"" for i in found)
            if special is None or spelled != text:
                break
            name, token_id = special
            tokens.append(token_id)
            forced = rest[len(name.encode()) :]
            context = ()
        return tokens

    def _special_at(self, text: bytes) -> tuple[str, int] | None:
        for name, token_id in self._special:
            if text.startswith(Vocabulary.SPECIAL_MARK + name.encode()):
                return name, token_id
        return None

    def _tokenize_text(self, context: tuple[int, ...], text: bytes, following: str) -> list[int]:
        """Return the leading tokens of a text that do not depend on what follows it."""
        if not text:
            return []
        for start in range(len(context) + 1):
            before = context[start:]
            tokens = self._encode_after(before, text)
            if tokens is not None:
                break
        else:
            return []
        return self._without_merges(before, text, tokens, following)

    def _without_merges(
        self, before: tuple[int, ...], text: bytes, tokens: list[int], following: str
    ) -> list[int]:
        """Return the leading tokens of a text that do not depend on the character behind it."""
        for character in following:
            longer = self._encode_after(before, text + character.encode())
            tokens = _common_prefix(tokens, longer or [])
        return tokens

    def _encode_after(self, before: tuple[int, ...], text: bytes) -> list[int] | None:
        """Tokenize text behind other tokens; ``None`` if it changes the tokens before it."""
        forms = self._vocabulary.token_bytes
        try:
            whole = b"".join(forms[i] or b"" for i in before) + text
            found = [int(i) for i in self._encode(self._lead + whole.decode())]
        except UnicodeDecodeError:
            return None
        context = [*self._lead_ids, *before]
        if found[: len(context)] != context:
            return None
        tokens = found[len(context) :]
        # Some texts spell special tokens.
        is_same = b"".join(forms[i] or b"" for i in tokens) == text
        return tokens if is_same else None


class Script(Restriction):
    """Tokens that are known before they are sampled: forced text, and an option that was drawn.

    They are not sampled, or sampled under masks of one token.

    Args:
        fast_forward: Tokenizes forced text; ``None``: its tokens are sampled.
        samples_end: Whether a forced end is sampled, too.
    """

    def __init__(
        self, fast_forward: FastForward | None = None, *, samples_end: bool = False
    ) -> None:
        self._fast_forward = fast_forward
        self._samples_end = samples_end
        self._tokens: Sequence[int] = ()

    @property
    def is_decided(self) -> bool:
        """Whether a token is to be sampled under a mask of one token."""
        return bool(self._tokens)

    def copy(self, text: RestrictedText) -> Self:
        """Return a script in the same state."""
        return self._twin() if self._tokens else self

    def write(self, tokens: Sequence[int]) -> None:
        """Let tokens follow each other whose text the grammar forces, if they are sampled."""
        if self._fast_forward is None:
            self._tokens = tokens

    def mask(self, text: RestrictedText, allowed: Mask | None, generated: int) -> Mask | None:
        """Allow the next token of the script alone, unless it is refused."""
        if allowed is None or not self._tokens or not allowed[self._tokens[0]]:
            return allowed
        return only(allowed, self._tokens[0])

    def take(self, text: RestrictedText, token_id: int, form: bytes) -> None:
        """Advance the script by its token; any other token ends it."""
        if self._tokens:
            self._tokens = self._tokens[1:] if token_id == self._tokens[0] else ()

    def forced_tokens(self, text: RestrictedText, tokens: Sequence[int]) -> Iterator[int]:
        """Iterate over the tokens that need no sampling; see :meth:`Constraint.forced_tokens`."""
        grammar = text.grammar
        if grammar is None:
            return
        if self._fast_forward is not None:
            for token_id in self._fast_forward.tokens(grammar.matcher, tokens):
                if not grammar.guard.accepts(token_id):
                    # The text needs a tokenization with fewer tokens than the tokenizer's.
                    break
                yield token_id
        matcher = grammar.matcher
        if not self._samples_end and must_end(matcher.state) and not matcher.is_finished:
            yield text.end_token_ids[0]

    def expects_text(self, text: RestrictedText) -> bool:
        """Whether forced text is likely to follow the next token, whose mask is small."""
        masked = None if text.grammar is None else text.grammar.masked
        if self._fast_forward is None or masked is None:
            return False
        return self._fast_forward.may_follow(*masked)


def must_end(state: Node) -> bool:
    """Whether a text is complete and cannot be extended."""
    return state.nullable and not state.first_bytes


def text_encoder(tokenizer: TokenizerWrapper, lock: threading.Lock) -> Encode:
    """Return an encoder of texts that holds ``lock`` while it uses the tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)

    def encode(text: str) -> Sequence[int]:
        with lock:
            if backend is not None:
                # Several times faster than transformers' wrapper around it.
                ids: Sequence[int] = backend.encode(text, add_special_tokens=False).ids
            else:
                ids = tokenizer.encode(text, add_special_tokens=False)
        return ids

    return encode


def _following_characters(follow: Node) -> str:
    """Return first characters of a state's texts: all if they are few, otherwise some."""
    first = follow.first_bytes
    plain = bytes(bytes_in(first & _ASCII)).decode()
    if len(plain) > _MAX_FOLLOWING:
        found = (next((c for c in members if c in plain), "") for members in _CLASSES)
        plain = "".join(found)
    return plain + "é" * (first >> "é".encode()[0] & 1)


def _is_special(form: bytes | None) -> bool:
    return form is None or form.startswith(Vocabulary.SPECIAL_MARK)


def _common_prefix(first: list[int], second: list[int]) -> list[int]:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return [token for token, _ in same]
