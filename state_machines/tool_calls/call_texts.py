"""Parts of fixed texts around calls."""

from __future__ import annotations

from state_machines.root.parts import Choice, Marker, Optional, Part
from state_machines.tool_calls.call import CALL, CallText


def markers(text: str) -> tuple[Marker, ...]:
    return (Marker(CALL, text),) if text else ()


def inner_texts(text: str) -> tuple[Marker, ...]:
    return (CallText(CALL, text),) if text else ()


def one_of(texts: tuple[str, ...]) -> Part | None:
    """Return a part that writes one of the texts; ``None`` if they are all empty."""
    written = [Marker(CALL, text) for text in texts if text]
    if not written:
        return None
    part = Choice(*written) if len(written) > 1 else written[0]
    return Optional(part) if "" in texts else part
