"""Markers: the text that stands for a medium while a chat template is rendered."""

from __future__ import annotations

import re
import secrets

from ..errors import PromptError

# Letters and digits are not escaped by templates, JSON encoders and tool notations. The number is
# secret, and texts that contain it are refused, so no text is taken for a marker.
_NONCE = f"medium{secrets.token_hex(16)}"
_MARKER = re.compile(f"{_NONCE}n([0-9]+)n")


def media_marker(number: int) -> str:
    """Return the marker of the medium with a number. Markers differ between processes."""
    return f"{_NONCE}n{number}n"


def split_at_markers(text: str) -> list[str | int]:
    """Split a rendered text at its markers.

    Returns:
        The texts between markers, and the number of each marker, in order. No text is empty.
    """
    # The pattern has a group, so every second item is a match of the group.
    pieces = _MARKER.split(text)
    split = [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
    return [piece for piece in split if piece != ""]


def check_no_marker(text: str) -> None:
    """Raise ``PromptError`` if a text of the prompt could be taken for a marker."""
    if _NONCE in text:
        raise PromptError("a text of the prompt has a marker of this process")
