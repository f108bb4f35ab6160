"""Segments of a window, and where the next window begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FRAMES_PER_SECOND = 100
"""Frames of a log-mel spectrogram."""

FRAMES_PER_TIMESTAMP = 2
"""Timestamps count positions of the encoder's output, which are two frames apart."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens between two timestamps.

    Attributes:
        start: Begin in frames, from the beginning of the window.
        end: End in frames.
        tokens: The tokens, timestamps included.
    """

    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowSpans:
    """How a window is divided.

    Attributes:
        spans: The spans.
        frames: Frames that are transcribed; the next window begins there.
        is_complete: Whether the window is transcribed to its end.
    """

    spans: tuple[Span, ...]
    frames: int
    is_complete: bool


def split_window(tokens: Sequence[int], first_timestamp: int, frames: int) -> WindowSpans:
    """Divide a window's tokens at its timestamps, as Whisper's ``transcribe`` does.

    Two timestamps next to each other end a segment and begin the next one. A segment without an
    end is left to the next window, unless a single timestamp ends the window: then no speech
    follows.

    Args:
        tokens: The tokens.
        first_timestamp: The token of time 0; larger tokens are timestamps.
        frames: Frames of the window.
    """
    is_time = [token >= first_timestamp for token in tokens]
    ends_with_time = is_time[-2:] == [False, True]
    cuts = [at for at in range(1, len(tokens)) if is_time[at - 1] and is_time[at]]
    if not cuts:
        end = frames
        times = [token for token in tokens if token >= first_timestamp]
        if times and times[-1] > first_timestamp:
            end = _frames(times[-1] - first_timestamp)
        return WindowSpans((Span(0, end, tuple(tokens)),), frames, is_complete=ends_with_time)
    if ends_with_time:
        cuts.append(len(tokens))
    spans = []
    for start, end in zip([0, *cuts], cuts, strict=False):
        part = tuple(tokens[start:end])
        begin, close = part[0] - first_timestamp, part[-1] - first_timestamp
        spans.append(Span(_frames(begin), _frames(close), part))
    if ends_with_time:
        return WindowSpans(tuple(spans), frames, is_complete=True)
    # Each window advances, whatever the model writes.
    return WindowSpans(tuple(spans), min(spans[-1].end, frames) or frames, is_complete=False)


def _frames(timestamp: int) -> int:
    return timestamp * FRAMES_PER_TIMESTAMP
