"""Generated tokens back to text, one at a time."""

from __future__ import annotations

import codecs

from state_machines import Vocabulary

__all__ = ["TokenDecoder"]

# No UTF-8 text has this byte, so the names of special tokens begin with it.
_SPECIAL_TOKEN = b"\xff"


class TokenDecoder:
    """Turns tokens into text as they come, from the same bytes that the masks are made of.

    A token may end inside a character; its first bytes are held back until the rest is there.
    Special tokens have no text. Bytes that are not UTF-8 become U+FFFD, which only free text can
    hold.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._token_bytes = vocabulary.token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token_id: int) -> str:
        """The text that is complete with this token."""
        token = self._token_bytes[token_id]
        if token is None or token.startswith(_SPECIAL_TOKEN):
            return ""
        return self._decoder.decode(token)

    def finish(self) -> str:
        """What is left at the end: U+FFFD for a character that was never completed, or nothing."""
        return self._decoder.decode(b"", final=True)
