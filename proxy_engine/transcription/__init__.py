"""Transcription of speech by the models of mlx-audio.

Reading order: :class:`TranscriptionOptions`, ``results``; ``transcriber`` (the functions behind
``engine.transcribe``), ``spoken`` (constrained transcripts); ``loading``; ``whisper`` (the model,
and which parts are mlx-audio's), ``windows`` (mlx-audio's ``generate``), ``whisper_decoder`` (its
decoder in the engine's loop); ``parakeet``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias, TypedDict

from pydantic import Field, field_validator

from state_machines import RegexStateMachine

from ..checks import OptionModel

Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]

OnSeconds: TypeAlias = Callable[[float, float], None]
"""Called with the seconds that are transcribed and the seconds of the recording."""


class TranscriptionOptions(OptionModel):
    """How a recording is transcribed. The defaults are Whisper's. Immutable.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    language: str | None = Field(default=None, min_length=2)
    """Spoken language: an ISO 639-1 code such as `"de"`, or its English name. Default: detected
    from the first 30 seconds, if the model knows several."""
    task: Literal["transcribe", "translate"] = "transcribe"
    """`"translate"` writes English whatever the spoken language."""
    prompt: str = ""
    """Text as it could stand before the transcript: names, spellings, a style."""
    temperature: Temperature | Annotated[tuple[Temperature, ...], Field(min_length=1)] = (
        0.0,
        0.2,
        0.4,
        0.6,
        0.8,
        1.0,
    )
    """Sampling temperature. Of several, the next one is used for a window whose text is repetitive
    or improbable. With a response format, the first one is used."""
    timestamps: Literal["segment", "word", "none"] = "segment"
    """`"word"` adds the times of words, `"none"` decodes each window without times."""
    condition_on_previous_text: bool = True
    """Whether a window is decoded with the text before it as its prompt."""
    compression_ratio_threshold: float | None = Field(default=2.4, gt=0)
    """A text with a larger compression ratio counts as repetitive."""
    logprob_threshold: float | None = Field(default=-1.0, le=0)
    """A text with a smaller mean log-probability counts as improbable."""
    no_speech_threshold: float | None = Field(default=0.6, ge=0, le=1)
    """A window with a larger probability of no speech and an improbable text is left out."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of the samples at temperatures above 0."""
    lead_in: str | None = None
    """With a response format: a pattern (ECMA-262) of words that may precede the constrained text,
    such as `"please call"`, or `".*"` for any words. Default: none."""

    @field_validator("lead_in")
    @classmethod
    def _check_lead_in(cls, lead_in: str | None) -> str | None:
        if lead_in is not None:
            RegexStateMachine(lead_in)
        return lead_in

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures, in the order in which they are used, each of them once."""
        given = self.temperature
        return tuple(dict.fromkeys(given)) if isinstance(given, tuple) else (given,)


class TranscriptionOverrides(TypedDict, total=False):
    """The fields of :class:`TranscriptionOptions`, which describes them."""

    language: str | None
    task: Literal["transcribe", "translate"]
    prompt: str
    temperature: float | tuple[float, ...]
    timestamps: Literal["segment", "word", "none"]
    condition_on_previous_text: bool
    compression_ratio_threshold: float | None
    logprob_threshold: float | None
    no_speech_threshold: float | None
    seed: int
    lead_in: str | None


class TranscriptionArguments(TranscriptionOverrides, total=False):
    """The keyword arguments of ``InferenceEngine.transcribe``, which describes them."""

    on_progress: OnSeconds | None
