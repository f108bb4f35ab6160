"""Transcripts in the response formats of ``/v1/audio``, and their streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import Response
from fastapi.responses import PlainTextResponse

from ...engine.transcripts import Transcript
from ...transcription.results import TranscriptSegment
from ..schemas.common import json_reply
from ..schemas.transcriptions import (
    DurationUsage,
    Format,
    InputTokenDetails,
    Segment,
    TextDelta,
    TextDone,
    TokenUsage,
    Transcription,
    VerboseTranscription,
    Word,
)
from ..streaming import frame

Task = Literal["transcribe", "translate"]
_SEEK_STEPS_PER_SECOND = 100


def response(
    transcript: Transcript[Any], form: Format, task: Task, granularities: Sequence[str]
) -> Response:
    """Return the response for a whole transcript.

    Args:
        transcript: The transcript.
        form: The response format.
        task: ``"translate"`` if the text is English whatever the spoken language.
        granularities: What ``verbose_json`` contains: ``"segment"``, ``"word"``, or both.
    """
    match form:
        case "text":
            return PlainTextResponse(transcript.text.strip() + "\n")
        case "srt":
            return PlainTextResponse(transcript.to_srt())
        case "vtt":
            return PlainTextResponse(transcript.to_vtt())
        case "verbose_json":
            return json_reply(_verbose(transcript, task, granularities))
    return json_reply(
        Transcription(
            text=transcript.text.strip(), usage=_usage(transcript), **_lead_in(transcript)
        )
    )


def event_frame(event: TranscriptSegment | Transcript[Any]) -> bytes:
    """Return the event of a stream for a segment, or for the whole transcript at its end."""
    if isinstance(event, TranscriptSegment):
        return frame(TextDelta(type="transcript.text.delta", delta=event.text))
    return frame(
        TextDone(type="transcript.text.done", text=event.text.strip(), usage=_usage(event))
    )


def _lead_in(transcript: Transcript[Any]) -> dict[str, Any]:
    return {"lead_in": transcript.lead_in} if transcript.lead_in else {}


def _usage(transcript: Transcript[Any]) -> TokenUsage:
    usage = transcript.usage
    return TokenUsage(
        type="tokens",
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        input_token_details=InputTokenDetails(
            audio_tokens=usage.audio_tokens,
            text_tokens=usage.prompt_tokens - usage.audio_tokens,
        ),
    )


def _verbose(
    transcript: Transcript[Any], task: Task, granularities: Sequence[str]
) -> VerboseTranscription:
    contents: dict[str, Any] = _lead_in(transcript)
    if "segment" in granularities:
        contents["segments"] = [
            _segment(number, segment) for number, segment in enumerate(transcript.segments)
        ]
    if "word" in granularities:
        contents["words"] = [
            Word(word=word.text.strip(), start=word.start, end=word.end)
            for segment in transcript.segments
            for word in segment.words
        ]
    return VerboseTranscription(
        task=task,
        language=_language_name(transcript.language),
        duration=transcript.duration,
        text=transcript.text.strip(),
        usage=DurationUsage(type="duration", seconds=transcript.duration),
        **contents,
    )


def _language_name(code: str | None) -> str | None:
    """Return the English name of a language in lower case, as OpenAI's API returns it."""
    if code is None:
        return None
    # Only a Whisper model of this extra states a language.
    from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES  # noqa: PLC0415

    return str(LANGUAGES.get(code, code))


def _segment(number: int, segment: TranscriptSegment) -> Segment:
    return Segment(
        id=number,
        seek=round(segment.window_start * _SEEK_STEPS_PER_SECOND),
        start=segment.start,
        end=segment.end,
        text=segment.text,
        tokens=[*segment.tokens],
        temperature=segment.temperature,
        avg_logprob=segment.avg_logprob,
        compression_ratio=segment.compression_ratio,
        no_speech_prob=segment.no_speech_prob,
    )
