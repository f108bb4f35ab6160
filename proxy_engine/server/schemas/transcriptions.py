"""``POST /v1/audio/transcriptions`` and ``POST /v1/audio/translations``."""

from __future__ import annotations

from typing import Literal

from fastapi import UploadFile
from pydantic import ConfigDict, Field

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
