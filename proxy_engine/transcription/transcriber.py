"""Transcription of one recording: windows without constraints, or one constrained window."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from ..conversation.prompts import EncodedPrompt
from ..errors import EngineClosedError, InvalidOptionError, MediaError, PromptError
from ..media.audio import AudioSource, LoadedAudio, load_audio
from ..requests.request import Request
from ..results.generation import GenerationResult
from ..results.parts import Usage
from . import OnSeconds, TranscriptionArguments, TranscriptionOptions
from .results import (
    DecodingCancelledError,
    Segments,
    Transcript,
    TranscriptSegment,
    TranscriptStream,
)
from .spoken import Spoken, SpokenText

if TYPE_CHECKING:
    from ..engine.core import EngineCore
    from .parakeet import Parakeet
    from .whisper import Whisper

Audio: TypeAlias = AudioSource | npt.NDArray[Any]
"""A recording: a path, the content of a file, ``AudioContent``, an array with its sample rate in
Hz, or an array at 16 kHz."""

_SPEECH_HINT = (
    "Use a model such as 'mlx-community/whisper-large-v3-turbo-asr-fp16'. Chat models that read "
    "audio answer generate with AudioContent."
)

_SAMPLE_RATE = 16_000
_MAX_CONSTRAINED_SECONDS = 30
_MAX_BYTES_PER_SECOND = 25
"""Bytes of a lead-in for each second of the recording; fast speech has 20."""


def transcribe(
    core: EngineCore,
    audio: Audio,
    response_format: Any = None,
    **arguments: Unpack[TranscriptionArguments],
) -> Transcript[Any]:
    """Transcribe a recording: ``InferenceEngine.transcribe`` as a function.

    Args:
        core: The components of an engine with a speech model.
        audio: As in ``InferenceEngine.transcribe``, as are the other arguments.
        response_format: The response format.
    """
    return transcribe_stream(core, audio, response_format, **arguments).result()


def transcribe_stream(
    core: EngineCore,
    audio: Audio,
    response_format: Any = None,
    **arguments: Unpack[TranscriptionArguments],
) -> TranscriptStream[Any]:
    """:func:`transcribe` as a stream of segments, which are computed when they are read."""
    cancelled = threading.Event()
    segments = _segments(core, audio, response_format, arguments, cancelled)
    return TranscriptStream(segments, cancelled.set)


async def atranscribe(
    core: EngineCore,
    audio: Audio,
    response_format: Any = None,
    **arguments: Unpack[TranscriptionArguments],
) -> Transcript[Any]:
    """:func:`transcribe` for event loops. Cancelling the task stops the transcription."""
    cancelled = threading.Event()

    def run() -> Transcript[Any]:
        segments = _segments(core, audio, response_format, arguments, cancelled)
        return TranscriptStream[Any](segments, cancelled.set).result()

    try:
        return await asyncio.get_running_loop().run_in_executor(core.threads, run)
    finally:
        cancelled.set()


def _segments(
    core: EngineCore,
    audio: Audio,
    response_format: Any,
    arguments: Mapping[str, Any],
    cancelled: threading.Event,
) -> Segments:
    """Check the arguments, and return the segments, which are computed when they are read.

    For any thread but the model's.

    Args:
        core: The components of the engine.
        audio: The recording.
        response_format: As in :meth:`InferenceEngine.generate`; ``None``: any text.
        arguments: ``on_progress``, which is called after each window, and the options.
        cancelled: Stops transcription at the next token.

    Raises:
        PromptError: The model does not transcribe.
        MediaError: The recording cannot be read, or exceeds a limit.
        InvalidOptionError: An option is invalid, or the model does not know the language or the
            task.
        ProxyError: The response format is invalid; see :meth:`InferenceEngine.generate`.
    """
    from .parakeet import Parakeet  # noqa: PLC0415 - slow to import.

    values: dict[str, Any] = dict(arguments)
    on_progress = values.pop("on_progress", None)
    options = TranscriptionOptions(**values)
    speech = core.loaded.speech
    if speech is None:
        raise PromptError("the model is no speech model", hint=_SPEECH_HINT)
    if options.lead_in is not None and response_format is None:
        raise InvalidOptionError(
            "lead_in precedes constrained text: give a response format", option="lead_in"
        )
    language = None
    sample_rate = _SAMPLE_RATE
    if not isinstance(speech, Parakeet):
        language = speech.language_code(options.language, options.task)
    elif response_format is None:
        speech.check(options)
        sample_rate = speech.sample_rate
    else:
        raise PromptError(
            "the model transcribes without constraints",
            hint="Use a Whisper model with response_format.",
        )
    source = (audio, _SAMPLE_RATE) if isinstance(audio, np.ndarray) else audio
    recording = load_audio(source, core.media, sample_rate)
    transcription = _Transcription(core, recording, options, on_progress, cancelled)
    if isinstance(speech, Parakeet):
        return transcription.with_parakeet(speech)
    if response_format is None:
        return transcription.in_windows(speech)
    request = transcription.request(speech, response_format, language)
    return transcription.constrained(speech, language, request)


@dataclass(frozen=True, slots=True)
class _Transcription:
    """A transcription whose arguments are checked.

    Attributes:
        core: The components of the engine.
        recording: The recording.
        options: The options.
        on_progress: Called after each window.
        cancelled: Stops transcription at the next token.
    """

    core: EngineCore
    recording: LoadedAudio
    options: TranscriptionOptions
    on_progress: OnSeconds | None
    cancelled: threading.Event

    def request(self, whisper: Whisper, response_format: Any, language: str | None) -> Request:
        """Return the request of a constrained transcript; its recording is not encoded yet.

        Raises:
            MediaError: The recording is longer than a window.
            ProxyError: The response format or an option is invalid.
        """
        options, duration = self.options, self.recording.duration
        if options.timestamps == "word":
            raise InvalidOptionError(
                "a transcript with a response format has no times of words", option="timestamps"
            )
        if duration > _MAX_CONSTRAINED_SECONDS:
            raise MediaError(
                f"the recording has {duration:.1f} seconds; with a response format it "
                f"may have {_MAX_CONSTRAINED_SECONDS}",
                hint="Split it, or transcribe it without a response format.",
            )
        # A language that is detected later has one token, too.
        known = language or whisper.languages[0]
        tokens = self.core.run_in_turn(
            lambda: whisper.prompt_tokens(known, options.task, options.prompt)
        )
        arguments: Any = {"temperature": options.temperatures[0], "seed": options.seed}
        spoken = Spoken(
            response_format, options.lead_in, _MAX_BYTES_PER_SECOND * math.ceil(duration)
        )
        return self.core.preparation.request(
            EncodedPrompt(tokens), spoken, arguments, self.cancelled
        )

    def in_windows(self, whisper: Whisper) -> Segments:
        """Transcribe window by window, without constraints."""
        from .windows import WindowLoop  # noqa: PLC0415 - imports mlx-audio.

        worker, recording = self.core.worker, self.recording

        def is_cancelled() -> bool:
            return self.cancelled.is_set() or worker.is_closing

        loop = WindowLoop(
            whisper, recording.samples, self.options, self.core.run_in_turn, is_cancelled
        )
        segments: list[TranscriptSegment] = []
        try:
            for of_window in loop:
                segments += of_window
                yield from of_window
                self._report(loop.seconds_done)
        except DecodingCancelledError:
            if worker.is_closing:
                raise EngineClosedError("the engine was closed") from None
        positions = whisper.positions(recording.samples[: round(loop.seconds_done * _SAMPLE_RATE)])
        usage = Usage(
            prompt_tokens=loop.prompt_tokens + positions,
            completion_tokens=loop.completion_tokens,
            prompt_seconds=loop.encoder_seconds,
            completion_seconds=loop.decoder_seconds,
            audio_tokens=positions,
        )
        return self._transcript(segments, usage, loop.language, is_cancelled=not loop.is_finished)

    def with_parakeet(self, parakeet: Parakeet) -> Segments:
        """Transcribe with a Parakeet model, which reports its progress on the model thread."""
        worker, samples = self.core.worker, self.recording.samples

        def on_samples(done: int, total: int) -> None:
            if worker.is_closing:
                raise EngineClosedError("the engine was closed")
            if self.cancelled.is_set():
                raise DecodingCancelledError

        started = time.perf_counter()
        segments: list[TranscriptSegment] = []
        is_cancelled = self.cancelled.is_set()
        try:
            segments = self.core.run_in_turn(
                lambda: parakeet.transcribe(samples, self.options.timestamps, on_samples)
            )
        except DecodingCancelledError:
            is_cancelled = True
        seconds = time.perf_counter() - started
        yield from segments
        if not is_cancelled:
            self._report(self.recording.duration)
        tokens = sum(len(segment.tokens) for segment in segments)
        positions = 0 if is_cancelled else parakeet.positions(samples)
        usage = Usage(positions, tokens, 0.0, seconds, audio_tokens=positions)
        return self._transcript(segments, usage, None, is_cancelled=is_cancelled)

    def constrained(self, whisper: Whisper, language: str | None, request: Request) -> Segments:
        """Transcribe one window in the engine's loop, under the masks of the response format."""
        from .whisper import encode_recording  # noqa: PLC0415 - mlx-audio.

        recording, options = self.recording, self.options
        encoded = self.core.run_in_turn(
            lambda: encode_recording(whisper, recording, language, options)
        )
        request = replace(request, prompt=encoded.prompt)
        result = self.core.scheduler.submit(request).result()()
        spoken = result.parsed
        if not isinstance(spoken, SpokenText):
            # A composition of parts, or the begin of a cancelled transcript.
            spoken = SpokenText("", result.text.removeprefix(" "), result.parsed)
        segment = TranscriptSegment(
            start=0.0,
            end=recording.duration,
            text=spoken.text,
            tokens=result.token_ids,
            temperature=options.temperatures[0],
            avg_logprob=_avg_logprob(result),
            no_speech_prob=encoded.no_speech_prob,
        )
        yield segment
        is_cancelled = result.finish_reason == "cancelled"
        if not is_cancelled:
            self._report(recording.duration)
        usage, positions = result.usage, whisper.positions(recording.samples)
        usage = replace(
            usage,
            prompt_tokens=usage.prompt_tokens + positions,
            # A cached prompt has the keys of its recording.
            cached_tokens=usage.cached_tokens and usage.cached_tokens + positions,
            audio_tokens=positions,
        )
        transcript = self._transcript([segment], usage, encoded.language, is_cancelled=is_cancelled)
        return replace(transcript, text=spoken.text, parsed=spoken.parsed, lead_in=spoken.lead_in)

    def _report(self, seconds: float) -> None:
        if self.on_progress is not None:
            self.on_progress(seconds, self.recording.duration)

    def _transcript(
        self,
        segments: Sequence[TranscriptSegment],
        usage: Usage,
        language: str | None,
        *,
        is_cancelled: bool,
    ) -> Transcript[Any]:
        return Transcript(
            text="".join(segment.text for segment in segments).strip(),
            segments=tuple(segments),
            language=language,
            duration=self.recording.duration,
            parsed=None,
            usage=usage,
            model=self.core.loaded.name,
            finish_reason="cancelled" if is_cancelled else "stop",
        )


def _avg_logprob(result: GenerationResult[Any]) -> float | None:
    """Return the mean log-probability of the tokens, if they were requested of the engine."""
    logprobs = result.logprobs
    if not logprobs:
        return None
    return sum(token.chosen.before_mask for token in logprobs) / len(logprobs)
