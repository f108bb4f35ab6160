"""Encode rendered prompts so that the texts of a conversation never become control tokens.

Contents are data. A secret mark is inserted into each control token that a content spells, so a
chat template sees the content almost unchanged, and the tokenizer finds only the control tokens
that the template wrote. The tokenizer removes the marks after it has found them: the text between
two control tokens is encoded as one piece, as if all of it were ordinary text.
"""

from __future__ import annotations

import re
import secrets
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, normalizers

from ..errors import PromptError, PromptTooLongError

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

# Letters and digits are not escaped by templates, JSON encoders and tool notations. The number is
# secret, so no text of a request contains it.
_MARK = f"data{secrets.token_hex(16)}"

# Attributes of a tokenizer with the markers at which templates divide an answer.
_ANSWER_MARKERS = ("think_start", "think_end", "tool_call_start", "tool_call_end")
_ANSWER_TEXTS = ("content", "reasoning_content")

_RENDERERS = (
    "PreTrainedTokenizerBase.apply_chat_template",
    "CachedTokenizer.apply_chat_template",
)
"""Methods that render the template of a checkpoint."""

_LETTERS = string.ascii_letters + string.digits

_PROBE = "a\n b  é\t1 <"

_PIECE_CHARS = 32_768
"""Characters that are encoded at once, some 10 ms, where the text has a control token to cut at."""


def check_length(count: int, context_length: int | None, *, is_complete: bool = True) -> None:
    """Raise ``PromptTooLongError`` if a prompt leaves no room in the model's context.

    Args:
        count: Tokens of the prompt.
        context_length: Tokens of the context; ``None`` if it is unlimited.
        is_complete: Whether the prompt has no further tokens.
    """
    if context_length is not None and count >= context_length:
        number = f"{count}" if is_complete else f"at least {count}"
        raise PromptTooLongError(
            f"the prompt has {number} tokens, and the model's context {context_length}",
            prompt_tokens=count,
            context_length=context_length,
            hint="Shorten the prompt, or use a model with a longer context.",
        )


class ControlTokens:
    """The control tokens of a tokenizer with a chat template. Safe to use from several threads.

    These are all special tokens, and the other added tokens that occur in the chat template, such
    as ``<think>``. Whitespace and single characters are ordinary text.

    Args:
        tokenizer: The tokenizer. It is not changed.
    """

    def __init__(self, tokenizer: TokenizerWrapper) -> None:
        # Without mlx-lm's wrapper, which identifies this object.
        self._tokenizer = tokenizer._tokenizer
        added: Mapping[int, Any] = getattr(tokenizer, "added_tokens_decoder", {})
        written = template_text(tokenizer)
        self._names = {
            token_id: str(token)
            for token_id, token in added.items()
            if len(str(token)) > 1
            and not str(token).isspace()
            and (token.special or written is None or str(token) in written)
        }
        names = self._names.values()
        self._any = _alternatives(names)
        # Zero-width, so that tokens that overlap are all found.
        self._beginning = re.compile(f"(?={self._any.pattern})(.)", re.DOTALL)
        answer_markers = (getattr(tokenizer, name, None) for name in _ANSWER_MARKERS)
        markers = _alternatives(str(marker) for marker in answer_markers if marker)
        self._beginning_in_answer = re.compile(
            f"{markers.pattern}|{self._beginning.pattern}", re.DOTALL
        )
        # Parts of control tokens that a template could complete.
        self._heads = {name[:k] for name in names for k in range(1, len(name))}
        self._tails = {name[k:] for name in names for k in range(1, len(name))}
        self._lengths = range(1, max(map(len, names), default=0))
        self._added = _alternatives(map(str, added.values()))
        self._cuts = {str(t) for t in added.values() if not (t.normalized or t.lstrip)}
        self._plain = self.unmarking()
        # The largest number of each letter in a token, once it is known.
        self._most: dict[str, int] = {}

    def messages(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return messages for a chat template whose texts spell no control token.

        The markers of reasoning and tool calls remain in the text of an answer: the model wrote
        them, and templates divide an answer by them.
        """
        return [
            {
                key: self._text(value, self._beginning_in_answer)
                if message["role"] == "assistant" and key in _ANSWER_TEXTS
                else self.data(value)
                for key, value in message.items()
            }
            for message in messages
        ]

    def data(self, value: Any) -> Any:
        """Return a JSON value whose texts, also the keys of objects, spell no control token."""
        try:
            return self._data(value)
        except RecursionError as error:
            raise PromptError("a value of the prompt is nested too deeply") from error

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        context_length: int | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> list[int]:
        """Return the token ids of a prompt that was rendered from values of this object.

        A text without marks is encoded literally. The interpreter lock is released meanwhile.

        Args:
            text: The text.
            add_special_tokens: Whether to add the tokens that the tokenizer adds to each text.
            context_length: Tokens of the model's context. The work ends once the prompt exceeds it.
            lock: Held while the tokenizer of the caller is used.

        Raises:
            PromptTooLongError: The prompt leaves no room in the context.
            PromptError: The tokenizer cannot write the text of a control token.
        """
        if context_length is not None and len(text) > max(context_length, _PIECE_CHARS):
            check_length(self.least_tokens(text), context_length, is_complete=False)
        ids: list[int] = []
        if self._plain is None:
            with lock or nullcontext():
                ids += self._tokenizer.encode(unmarked(text), add_special_tokens=add_special_tokens)
        else:
            for piece in [text] if add_special_tokens else self._pieces(text):
                check_length(len(ids), context_length, is_complete=False)
                (found,) = self._plain.encode_batch_fast(
                    [piece], add_special_tokens=add_special_tokens
                )
                ids += found.ids
        check_length(len(ids), context_length)
        if is_marked(text):
            self.check(self.count(ids), Counter(self._any.findall(text)))
        return ids

    def least_tokens(self, text: str) -> int:
        """Return a number of tokens that a text has at least, without encoding it.

        A token has a limited number of the text's most frequent letter. The tokenizer may compose a
        letter with one other character, which is then not ASCII.
        """
        text = unmarked(text)
        counts = np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=256)
        letter = max(_LETTERS, key=lambda each: int(counts[ord(each)]))
        if letter not in self._most:
            # Kept: it takes as long as encoding a page of text.
            self._most[letter] = max(form.count(letter) for form in self._tokenizer.get_vocab())
        others = len(text) - int(counts[:128].sum())
        return max(0, int(counts[ord(letter)]) - others) // max(self._most[letter], 1)

    def check(self, found: Counter[str | None], written: Mapping[str | None, int]) -> None:
        """Check that a prompt has only the control tokens that its chat template wrote.

        Args:
            found: Number of each control token in the prompt.
            written: Number of each that the template wrote.
        """
        for name, count in found.items():
            if name is not None and count > written.get(name, 0):
                raise PromptError(
                    f"a text of the prompt has {name!r}, a control token of the model",
                    hint="This model's tokenizer cannot write it as text. Leave it out.",
                )

    def count(self, token_ids: Iterable[int]) -> Counter[str | None]:
        """Return the number of each control token among some tokens."""
        return Counter(map(self._names.get, token_ids))

    def unmarking(self) -> Tokenizer | None:
        """Return a tokenizer that shares the model of the caller's, and removes marks.

        Marks are removed by the normalizer, which runs behind the search for control tokens, and
        before anything else. ``None`` if there is no such tokenizer.
        """
        backend: Tokenizer | None = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None or getattr(self._tokenizer, "split_special_tokens", False):
            return None
        normalizer = backend.normalizer
        removal = normalizers.Replace(_MARK, "")
        plain = Tokenizer(backend.model)
        plain.normalizer = (
            removal if normalizer is None else normalizers.Sequence([removal, normalizer])
        )
        plain.pre_tokenizer = backend.pre_tokenizer
        plain.post_processor = backend.post_processor
        added = backend.get_added_tokens_decoder()
        tokens = []
        for token_id, token in sorted(added.items()):
            if token_id in self._names and token.normalized:
                # Tokens of normalized text would be found behind the removal of marks.
                if (
                    normalizer is not None
                    and normalizer.normalize_str(token.content) != token.content
                ):
                    return None
                token = AddedToken(
                    token.content,
                    single_word=token.single_word,
                    lstrip=token.lstrip,
                    rstrip=token.rstrip,
                    normalized=False,
                    special=token.special,
                )
            tokens.append(token)
        for is_special, run in groupby(tokens, key=lambda token: token.special):
            (plain.add_special_tokens if is_special else plain.add_tokens)(list(run))
        is_same = {token_id: str(token) for token_id, token in added.items()} == {
            token_id: str(token) for token_id, token in plain.get_added_tokens_decoder().items()
        }
        # Some classes of tokenizers change texts before their backend reads them.
        probe = "".join(f"{name}{_PROBE}" for name in ["", *self._names.values()][:4])
        expected = list(self._tokenizer.encode(probe, add_special_tokens=False))
        is_same &= expected == plain.encode(probe, add_special_tokens=False).ids
        return plain if is_same else None

    def _data(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value, self._beginning)
        if isinstance(value, Mapping):
            return {self._data(key): self._data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._data(item) for item in value]
        return value

    def _text(self, text: str, beginning: re.Pattern[str]) -> str:
        if self._any.search(text):
            text = beginning.sub(lambda m: m[0] if m[1] is None else m[0] + _MARK, text)
        # The template may remove whitespace at both ends, so no mark hides it.
        if text and not text[-1].isspace():
            text += _MARK * any(text[-k:] in self._heads for k in self._lengths)
        if text and not text[0].isspace():
            text = _MARK * any(text[:k] in self._tails for k in self._lengths) + text
        return text

    def _pieces(self, text: str) -> Iterator[str]:
        """Divide a rendered text before added tokens, which are encoded alone."""
        start = 0
        for found in self._added.finditer(text) if len(text) > _PIECE_CHARS else ():
            if found.start() - start >= _PIECE_CHARS and found[0] in self._cuts:
                yield text[start : found.start()]
                start = found.start()
        yield text[start:]


def has_own_renderer(tokenizer: TokenizerWrapper) -> bool:
    """Return whether code of the tokenizer's class converts conversations to tokens."""
    render = getattr(type(tokenizer._tokenizer), "apply_chat_template", None)
    is_inherited = getattr(render, "__qualname__", "") in _RENDERERS
    return not is_inherited and tokenizer.has_chat_template and tokenizer._chat_template is None


def unmarked(text: str) -> str:
    """Return a rendered text as the model reads it."""
    return text.replace(_MARK, "")


def is_marked(text: str) -> bool:
    """Return whether a rendered text has marks."""
    return _MARK in text


def _alternatives(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of any of some texts, the longest first; of nothing if there are none.

    Texts share their beginnings: there are hundreds, and most begin alike.
    """
    known = sorted(set(filter(None, texts)))
    return re.compile(_branches(known) if known else "(?!)")


def _branches(texts: Sequence[str]) -> str:
    """Return the pattern of sorted texts."""
    longer: list[str] = [
        re.escape(first) + _branches([text[1:] for text in group])
        for first, group in groupby(filter(None, texts), key=lambda text: text[0])
    ]
    if len(longer) == 1 and "" not in texts:
        return longer[0]
    pattern = f"(?:{'|'.join(longer)})" if longer else ""
    return f"{pattern}?" if pattern and "" in texts else pattern


def template_text(tokenizer: TokenizerWrapper) -> str | None:
    """Return the text of all chat templates; ``None`` if they are code."""
    templates = getattr(tokenizer, "chat_template", None)
    if isinstance(templates, Mapping):
        return "\n".join(map(str, templates.values()))
    if isinstance(templates, str):
        return templates
    return None if tokenizer.has_chat_template else ""
