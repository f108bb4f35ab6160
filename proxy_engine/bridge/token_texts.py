"""Streaming detokenization: the texts of an answer's tokens, which joined are its text."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator, Sequence

from state_machines import Vocabulary

from ..results.events import TokenGenerated


class TokenTexts:
    """Decodes the tokens of one answer.

    A token that ends within a character is held back until later tokens complete the character.

    Args:
        token_bytes: The bytes of each token.
        end_token_ids: Tokens that end an answer; their text is empty. Other special tokens have
            their names as text.
    """

    def __init__(self, token_bytes: Sequence[bytes | None], end_token_ids: Collection[int]) -> None:
        self._token_bytes = token_bytes
        self._end_token_ids = end_token_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[TokenGenerated] = []
        self._text = ""

    def add(self, event: TokenGenerated) -> Iterator[TokenGenerated]:
        """Yield the tokens whose text is certain, with it."""
        self._text += self._decoder.decode(self._form(event.token_id))
        is_complete = not self._decoder.getstate()[0]
        if is_complete:
            self._held.append(event)
        if is_complete or self._text:
            yield from self._take()
        if not is_complete:
            self._held.append(event)

    def finish(self) -> Iterator[TokenGenerated]:
        """Yield the tokens that were held back; an incomplete character becomes ``�``."""
        self._text += self._decoder.decode(b"", final=True)
        yield from self._take()

    def _form(self, token_id: int) -> bytes:
        if token_id in self._end_token_ids:
            return b""
        form = self._token_bytes[token_id] or b""
        return form.removeprefix(Vocabulary.SPECIAL_MARK)

    def _take(self) -> Iterator[TokenGenerated]:
        """Yield the tokens held back. The last one has their text, the others have none."""
        held, self._held = self._held, []
        for event in held[:-1]:
            yield _with_text(event, "")
        if held:
            text, self._text = self._text, ""
            yield _with_text(held[-1], text)


def _with_text(event: TokenGenerated, text: str) -> TokenGenerated:
    return event if event.text == text else event.model_copy(update={"text": text})
