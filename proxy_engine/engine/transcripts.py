"""Transcripts of recordings: the results of ``InferenceEngine.transcribe``."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ..results.parts import Usage
from ..results.streams import Stream
from ..transcription.results import TranscriptSegment, subtitles_srt, subtitles_vtt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Transcript(Generic[T]):
    """The transcript of a recording.

    Attributes:
        text: The whole text; with a response format, the constrained text alone.
        segments: The segments, in order.
        language: ISO 639-1 code of the spoken language, given or detected; ``None`` if the model
            does not state it.
        duration: Seconds of the recording.
        parsed: The value of the response format; ``None`` without one, or after a cancellation.
        usage: Token counts and times. The prompt tokens are those of all windows, and the positions
            of the encoder that the recording takes, which are ``audio_tokens`` (Whisper: 50 a
            second).
        model: The model's name.
        finish_reason: ``"cancelled"`` if the caller stopped it: the transcript then ends early.
        lead_in: The words before the constrained text, with the option ``lead_in``.
    """

    text: str
    segments: tuple[TranscriptSegment, ...]
    language: str | None
    duration: float
    parsed: T
    usage: Usage
    model: str
    finish_reason: Literal["stop", "cancelled"] = "stop"
    lead_in: str = ""

    def to_srt(self) -> str:
        """Return the segments as SubRip subtitles."""
        return subtitles_srt(self.segments)

    def to_vtt(self) -> str:
        """Return the segments as WebVTT subtitles (https://www.w3.org/TR/webvtt1/)."""
        return subtitles_vtt(self.segments)


Segments: TypeAlias = Generator[TranscriptSegment, None, Transcript[Any]]
"""The segments of a transcript; the generator returns the transcript."""


class TranscriptStream(Stream[TranscriptSegment], Generic[T]):
    """The segments of a transcript, which is computed while they are read.

    Closing or dropping the stream stops the transcription at its next token. ``next`` raises the
    transcription's errors.
    """

    _transcript: Transcript[T | None] | None = None

    def __next__(self) -> TranscriptSegment:
        try:
            return super().__next__()
        except StopIteration as end:
            self._transcript = end.value or self._transcript
            raise StopIteration from None

    def result(self) -> Transcript[T | None]:
        """Read to the end, and return the transcript.

        Its ``parsed`` is ``None`` if the stream was cancelled.

        Raises:
            RuntimeError: The stream was closed.
            ProxyError: The error of the transcription.
        """
        for _ in self:
            pass
        if self._transcript is None:
            raise RuntimeError("the stream was closed")
        return self._transcript

    def cancel(self) -> None:
        """Stop the transcription at its next token. For any thread.

        The stream ends. :meth:`result` returns the transcript so far, with the finish reason
        ``cancelled``.
        """
        self._cancel()
