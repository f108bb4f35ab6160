"""Transcripts in the response formats of ``/v1/audio``, and their streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from fastapi import Response
from fastapi.responses import PlainTextResponse

from ...transcription.results import Transcript, TranscriptSegment
from ..errors import ApiError
from ..streaming import frame, json_reply
from .encoder import Encoder, Fields

Format = Literal["json", "text", "srt", "verbose_json", "vtt"]
Task = Literal["transcribe", "translate"]
_SEEK_STEPS_PER_SECOND = 100
_SEGMENT = (
    *("start", "end", "text", "tokens", "temperature"),
    *("avg_logprob", "compression_ratio", "no_speech_prob"),
)


class TranscriptEncoder(Encoder):
    """Encodes segments and the whole transcript.

    Args:
        form: The response format.
        task: ``"translate"`` if the text is English whatever the spoken language.
        granularities: The units in ``verbose_json``: ``"segment"``, ``"word"``, or both.
    """

    def __init__(self, form: Format, task: Task, granularities: Sequence[str]) -> None:
        self._form = form
        self._task = task
        self._granularities = granularities
        self._transcript: Transcript[Any] | None = None

    def encode(self, index: int, event: TranscriptSegment | Transcript[Any]) -> Iterator[bytes]:
        """Return the event of a stream."""
        if isinstance(event, TranscriptSegment):
            yield frame({"type": "transcript.text.delta", "delta": event.text})
        else:
            self._transcript = event
            text = event.text.strip()
            yield frame({"type": "transcript.text.done", "text": text, "usage": _usage(event)})

    def end(self) -> Iterable[bytes]:
        """Return nothing: the whole transcript is the last event."""
        return ()

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the error as the last event."""
        yield frame(error.body)

    def reply(self) -> Response:
        """Return the response for the whole transcript."""
        transcript = self._transcript
        assert transcript is not None, "a transcription ends with its transcript"
        match self._form:
            case "text":
                return PlainTextResponse(transcript.text.strip() + "\n")
            case "srt":
                return PlainTextResponse(transcript.to_srt())
            case "vtt":
                return PlainTextResponse(transcript.to_vtt())
        fields: Fields = {"text": transcript.text.strip(), "usage": _usage(transcript)}
        if transcript.lead_in:
            # An extension: the words before the text.
            fields["lead_in"] = transcript.lead_in
        if self._form == "verbose_json":
            fields |= _verbose(transcript, self._task, self._granularities)
        return json_reply(fields)


def _usage(transcript: Transcript[Any]) -> Fields:
    usage = transcript.usage
    return {
        "type": "tokens",
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "input_token_details": {
            "audio_tokens": usage.audio_tokens,
            "text_tokens": usage.prompt_tokens - usage.audio_tokens,
        },
    }


def _verbose(transcript: Transcript[Any], task: Task, granularities: Sequence[str]) -> Fields:
    """Return the further fields of ``verbose_json``; times are in seconds."""
    fields: Fields = {
        "task": task,
        "language": _language_name(transcript.language),
        "duration": transcript.duration,
        "usage": {"type": "duration", "seconds": transcript.duration},
    }
    if "segment" in granularities:
        fields["segments"] = [
            _segment(number, segment) for number, segment in enumerate(transcript.segments)
        ]
    if "word" in granularities:
        fields["words"] = [
            {"word": word.text.strip(), "start": word.start, "end": word.end}
            for segment in transcript.segments
            for word in segment.words
        ]
    return fields


def _language_name(code: str | None) -> str | None:
    """Return the English name of a language in lower case, as OpenAI's API returns it."""
    if code is None:
        return None
    # Only a Whisper model of this extra states a language.
    from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES  # noqa: PLC0415

    return str(LANGUAGES.get(code, code))


def _segment(number: int, segment: TranscriptSegment) -> Fields:
    """Return a segment. ``seek`` is where its window begins, in steps of 10 ms."""
    seek = round(segment.window_start * _SEEK_STEPS_PER_SECOND)
    return {"id": number, "seek": seek, **{name: getattr(segment, name) for name in _SEGMENT}}
