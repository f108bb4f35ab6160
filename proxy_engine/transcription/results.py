"""Transcripts and their segments, streams of them, and their forms as subtitles."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ..checks import summary
from ..results.parts import Usage
from ..results.streams import Stream


@dataclass(frozen=True, slots=True)
class TranscriptWord:
    """A word with its time, in seconds from the beginning of the recording.

    Attributes:
        text: The word with the punctuation next to it; in languages with spaces, a space first.
        start: When it begins.
        end: When it ends.
        probability: Mean probability of its tokens; ``None`` if the model does not state it.
    """

    text: str
    start: float
    end: float
    probability: float | None


@dataclass(frozen=True, slots=True)
class TranscriptSegment:
    """A part of a transcript, about a sentence, in seconds from the beginning of the recording.

    Attributes:
        start: When it begins.
        end: When it ends.
        text: The text, as the model writes it, mostly with a space first.
        tokens: Token ids, with timestamp tokens.
        window_start: When the window begins in which it was decoded.
        temperature: The temperature of that window.
        avg_logprob: Mean log-probability (natural logarithm) of the window's tokens; ``None`` if
            the model does not state it, and with a response format, unless the engine's options
            have ``logprobs``.
        compression_ratio: UTF-8 bytes of the window's text over their size when compressed by
            zlib. Repetitive text has a large ratio.
        no_speech_prob: Probability that the window has no speech, in [0, 1]; ``None`` if the model
            does not state it.
        words: The words, with ``timestamps="word"``.
    """

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    window_start: float = 0.0
    temperature: float = 0.0
    avg_logprob: float | None = None
    compression_ratio: float = 0.0
    no_speech_prob: float | None = None
    words: tuple[TranscriptWord, ...] = ()

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __repr__(self) -> str:
        return summary(self, self.text, start=self.start, end=self.end)


def subtitles_srt(segments: Iterable[TranscriptSegment]) -> str:
    """Return segments as SubRip subtitles. Segments without text are left out."""
    cues = [
        f"{number}\n{_time(one.start, ',')} --> {_time(one.end, ',')}\n{text}\n"
        for number, (one, text) in enumerate(_cues(segments), start=1)
    ]
    return "\n".join(cues)


def subtitles_vtt(segments: Iterable[TranscriptSegment]) -> str:
    """Return segments as WebVTT subtitles. Segments without text are left out."""
    cues = ["WEBVTT\n"]
    for one, text in _cues(segments):
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        cues.append(f"{_time(one.start, '.')} --> {_time(one.end, '.')}\n{escaped}\n")
    return "\n".join(cues)


def _cues(segments: Iterable[TranscriptSegment]) -> Iterable[tuple[TranscriptSegment, str]]:
    """Return the segments with text. A line break or an arrow would end a cue."""
    for segment in segments:
        text = " ".join(segment.text.split()).replace("-->", "->")
        if text:
            yield segment, text


def _time(seconds: float, decimal_mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02d}:{minutes:02d}:{whole:02d}{decimal_mark}{milliseconds:03d}"


class DecodingCancelledError(Exception):
    """The caller cancelled the transcription."""


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

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __repr__(self) -> str:
        return summary(
            self,
            self.text,
            language=self.language,
            duration=self.duration,
            segments=len(self.segments),
            finish_reason=self.finish_reason,
        )

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
