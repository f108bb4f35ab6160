"""``POST /v1/audio/transcriptions`` and ``POST /v1/audio/translations``."""

from __future__ import annotations

from typing import Literal

from fastapi import UploadFile
from pydantic import ConfigDict, Field

from .common import ResponseModel
from .constraints import TextConstraints

Format = Literal["json", "text", "srt", "verbose_json", "vtt"]


class TranslationRequest(TextConstraints):
    """A recording whose speech is written in English: OpenAI's fields, and constraints."""

    # The fields of a form are texts.
    model_config = ConfigDict(strict=False)

    file: UploadFile = Field(description="WAV, FLAC or MP3; with ffmpeg also Ogg, M4A and WebM.")
    model: str | None = Field(default=None, description="Default: a speech model.")
    prompt: str | None = Field(
        default=None, description="Text that could precede the transcript: names, spellings, style."
    )
    response_format: Format = "json"
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Default 0: raised for windows whose text is repetitive or improbable.",
    )
    json_schema: str | None = Field(default=None, description="Extension: a JSON Schema as text.")
    guided_json: str | None = Field(default=None, description="Synonym of `json_schema`.")
    lead_in: str | None = Field(
        default=None,
        description="Extension: a pattern of words that may precede the constrained text.",
    )


class TranscriptionRequest(TranslationRequest):
    """A recording whose speech is written in its own language."""

    language: str | None = Field(
        default=None, description="ISO 639-1 code of the spoken language. Default: detected."
    )
    timestamp_granularities: list[Literal["word", "segment"]] | None = Field(
        default=None,
        description="For `verbose_json`. Default: `segment`. Also `timestamp_granularities[]`.",
    )
    stream: bool | None = Field(default=None, description="For `json`.")


class InputTokenDetails(ResponseModel):
    """Tokens of the prompt, by audio and text."""

    audio_tokens: int
    text_tokens: int


class TokenUsage(ResponseModel):
    """Token counts of all windows of a recording."""

    type: Literal["tokens"]
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: InputTokenDetails


class DurationUsage(ResponseModel):
    """Seconds of the recording."""

    type: Literal["duration"]
    seconds: float


class Transcription(ResponseModel):
    """The response format ``json``. ``lead_in`` is an extension, the words before ``text``."""

    text: str
    usage: TokenUsage
    lead_in: str | None = None


class Segment(ResponseModel):
    """A segment; times are in seconds. ``seek`` is where its window begins, in steps of 10 ms.

    Values that the model does not state are ``null``.
    """

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float | None
    compression_ratio: float
    no_speech_prob: float | None


class Word(ResponseModel):
    """A word; times are in seconds."""

    word: str
    start: float
    end: float


class VerboseTranscription(ResponseModel):
    """The response format ``verbose_json``. ``lead_in`` as in ``Transcription``."""

    task: Literal["transcribe", "translate"]
    language: str | None
    duration: float
    text: str
    segments: list[Segment] | None = None
    words: list[Word] | None = None
    usage: DurationUsage
    lead_in: str | None = None


class TextDelta(ResponseModel):
    """A stream's event for each segment of text."""

    type: Literal["transcript.text.delta"]
    delta: str


class TextDone(ResponseModel):
    """A stream's last event."""

    type: Literal["transcript.text.done"]
    text: str
    usage: TokenUsage
