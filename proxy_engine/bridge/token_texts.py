"""Streaming detokenization: the texts of an answer's tokens, which joined are its text."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence
from typing import Any

from state_machines import Vocabulary


class TokenTexts:
    """Decodes the tokens of one answer, as replies with ``token`` and ``token_id``.

    A token that ends within a character is held back until later tokens complete the character. The
    last of these tokens has their text, the others have none.

    Args:
        token_bytes: The bytes of each token.
        end_token_ids: Tokens that end an answer; their text is empty. Other special tokens have
            their names as text.
    """

    def __init__(self, token_bytes: Sequence[bytes | None], end_token_ids: Collection[int]) -> None:
        self._token_bytes = token_bytes
        self._end_token_ids = end_token_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[int] = []
        self._text = ""

    def add(self, token_id: int) -> list[dict[str, Any]]:
        """Return the replies whose text is certain."""
        self._held.append(token_id)
        form = b""
        if token_id not in self._end_token_ids:
            form = self._token_bytes[token_id] or b""
        self._text += self._decoder.decode(form.removeprefix(Vocabulary.SPECIAL_MARK))
        return [] if self._decoder.getstate()[0] else self._take()

    def finish(self) -> list[dict[str, Any]]:
        """Return the replies that were held back; an incomplete character becomes ``�``."""
        self._text += self._decoder.decode(b"", final=True)
        return self._take()

    def _take(self) -> list[dict[str, Any]]:
        replies = [{"token": "", "token_id": token_id} for token_id in self._held]
        if replies:
            replies[-1]["token"] = self._text
        self._held, self._text = [], ""
        return replies
