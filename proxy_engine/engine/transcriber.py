"""Transcription of one recording: windows without constraints, or one constrained window."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..answers.spoken import Spoken, SpokenText
from ..conversation.encoded_prompt import EncodedPrompt
from ..errors import EngineClosedError, EngineError, InvalidOptionError, MediaError, PromptError
from ..generation import model_bytes, wired_memory
from ..media.audio import AudioSource, LoadedAudio, load_audio
from ..requests.request import Request
from ..requests.streams import ignore
from ..results.generation import GenerationResult, Usage
from ..transcription.errors import DecodingCancelledError
from ..transcription.options import TranscriptionOptions
from ..transcription.results import Transcript, TranscriptSegment
from .core import EngineCore
from .request_arguments import RequestArguments

if TYPE_CHECKING:
    from ..transcription.parakeet import Parakeet
    from ..transcription.whisper import Whisper

T = TypeVar("T")

Audio: TypeAlias = AudioSource | npt.NDArray[Any]
"""A recording: a path, the content of a file, ``AudioContent``, an array with its sample rate in
Hz, or an array at 16 kHz."""

OnSeconds: TypeAlias = Callable[[float, float], None]
"""Called with the seconds that are transcribed and the seconds of the recording."""

Segments: TypeAlias = Generator[TranscriptSegment, None, Transcript[Any]]
"""The segments of a transcript; the generator returns the transcript."""


_SPEECH_HINT = (
    "Use a model such as 'mlx-community/whisper-large-v3-turbo-asr-fp16'. Chat models that read "
    "audio answer generate with AudioContent."
)

_SAMPLE_RATE = 16_000
_MAX_CONSTRAINED_SECONDS = 30
_MAX_BYTES_PER_SECOND = 25
"""Bytes of a lead-in for each second of the recording; fast speech has 20."""


@dataclass(frozen=True, slots=True)
class Transcriber:
    """Transcribes recordings with the model of an engine. For any thread but the model's.

    Args:
        core: The engine's components.
    """

    core: EngineCore

    def begin(
        self,
        audio: Audio,
        response_format: Any,
        options: TranscriptionOptions,
        on_progress: OnSeconds | None,
        cancelled: threading.Event,
    ) -> Segments:
        """Check the arguments, and return the segments, which are computed when they are read.

        Args:
            audio: The recording.
            response_format: As in :meth:`InferenceEngine.generate`; ``None``: any text.
            options: The options.
            on_progress: Called after each window.
            cancelled: Stops transcription at the next token.

        Raises:
            PromptError: The model does not transcribe.
            MediaError: The recording cannot be read, or exceeds a limit.
            InvalidOptionError: The model does not know the language or the task.
            ProxyError: The response format is invalid; see :meth:`InferenceEngine.generate`.
        """
        from ..transcription.parakeet import Parakeet  # noqa: PLC0415 - slow to import.

        speech = self.core.loaded.speech
        if speech is None:
            raise PromptError("the model is no speech model", hint=_SPEECH_HINT)
        if options.lead_in is not None and response_format is None:
            raise InvalidOptionError(
                "lead_in precedes constrained text: give a response format", option="lead_in"
            )
        if isinstance(speech, Parakeet):
            if response_format is not None:
                raise PromptError(
                    "the model transcribes without constraints",
                    hint="Use a Whisper model with response_format.",
                )
            speech.check(options)
            recording = load_audio(_with_rate(audio), self.core.media, speech.sample_rate)
            return self._parts(speech, recording, options, on_progress, cancelled)
        whisper = speech
        language = whisper.language_code(options.language, options.task)
        recording = load_audio(_with_rate(audio), self.core.media, _SAMPLE_RATE)
        if response_format is None:
            return self._windows(whisper, recording, options, on_progress, cancelled)
        if options.timestamps == "word":
            raise InvalidOptionError(
                "a transcript with a response format has no times of words", option="timestamps"
            )
        if recording.duration > _MAX_CONSTRAINED_SECONDS:
            raise MediaError(
                f"the recording has {recording.duration:.1f} seconds; with a response format it "
                f"may have {_MAX_CONSTRAINED_SECONDS}",
                hint="Split it, or transcribe it without a response format.",
            )
        # A language that is detected later has one token, too.
        known = language or whisper.languages[0]
        tokens = self._run(lambda: whisper.prompt_tokens(known, options.task, options.prompt))
        arguments = RequestArguments(temperature=options.temperatures[0], seed=options.seed)
        max_lead_in = _MAX_BYTES_PER_SECOND * math.ceil(recording.duration)
        spoken = Spoken(response_format, options.lead_in, max_lead_in)
        request = self.core.prepare(EncodedPrompt(tokens), spoken, arguments, cancelled)
        return self._constrained(whisper, recording, language, options, request, on_progress)

    def _windows(
        self,
        whisper: Whisper,
        recording: LoadedAudio,
        options: TranscriptionOptions,
        on_progress: OnSeconds | None,
        cancelled: threading.Event,
    ) -> Segments:
        """Transcribe window by window, without constraints."""
        from ..transcription.windows import WindowLoop  # noqa: PLC0415 - imports mlx-audio.

        worker = self.core.worker

        def is_cancelled() -> bool:
            return cancelled.is_set() or worker.is_closing

        loop = WindowLoop(whisper, recording.samples, options, self._run, is_cancelled)
        segments: list[TranscriptSegment] = []
        try:
            for of_window in loop:
                segments += of_window
                yield from of_window
                if on_progress is not None:
                    on_progress(loop.seconds_done, recording.duration)
        except DecodingCancelledError:
            if worker.is_closing:
                raise EngineClosedError("the engine was closed") from None
        done = round(loop.seconds_done * _SAMPLE_RATE)
        positions = whisper.positions(recording.samples[:done])
        return Transcript(
            text="".join(one.text for one in segments).strip(),
            segments=tuple(segments),
            language=loop.language,
            duration=recording.duration,
            parsed=None,
            usage=Usage(
                prompt_tokens=loop.prompt_tokens + positions,
                completion_tokens=loop.completion_tokens,
                prompt_seconds=loop.encoder_seconds,
                completion_seconds=loop.decoder_seconds,
                audio_tokens=positions,
            ),
            model=self.core.loaded.name,
            finish_reason="stop" if loop.is_finished else "cancelled",
        )

    def _parts(
        self,
        parakeet: Parakeet,
        recording: LoadedAudio,
        options: TranscriptionOptions,
        on_progress: OnSeconds | None,
        cancelled: threading.Event,
    ) -> Segments:
        """Transcribe with a Parakeet model, which reports its progress on the model thread."""
        worker = self.core.worker

        def on_samples(done: int, total: int) -> None:
            if worker.is_closing:
                raise EngineClosedError("the engine was closed")
            if cancelled.is_set():
                raise DecodingCancelledError

        started = time.perf_counter()
        segments: list[TranscriptSegment] = []
        is_cancelled = cancelled.is_set()
        try:
            segments = self._run(
                lambda: parakeet.transcribe(recording.samples, options.timestamps, on_samples)
            )
        except DecodingCancelledError:
            is_cancelled = True
        seconds = time.perf_counter() - started
        yield from segments
        if on_progress is not None and not is_cancelled:
            on_progress(recording.duration, recording.duration)
        tokens = sum(len(one.tokens) for one in segments)
        positions = 0 if is_cancelled else parakeet.positions(recording.samples)
        return Transcript(
            text="".join(one.text for one in segments).strip(),
            segments=tuple(segments),
            language=None,
            duration=recording.duration,
            parsed=None,
            usage=Usage(positions, tokens, 0.0, seconds, audio_tokens=positions),
            model=self.core.loaded.name,
            finish_reason="cancelled" if is_cancelled else "stop",
        )

    def _constrained(
        self,
        whisper: Whisper,
        recording: LoadedAudio,
        language: str | None,
        options: TranscriptionOptions,
        request: Request,
        on_progress: OnSeconds | None,
    ) -> Segments:
        """Transcribe one window in the engine's loop, under the masks of the response format."""
        from ..transcription.constrained import encode_recording  # noqa: PLC0415 - mlx-audio.

        encoded = self._run(lambda: encode_recording(whisper, recording, language, options))
        request = replace(request, prompt=encoded.prompt)
        result = self.core.scheduler.submit(request, ignore).result()()
        found = result.parsed
        if not isinstance(found, SpokenText):
            # A composition of parts, or the begin of a cancelled transcript.
            found = SpokenText("", result.text.removeprefix(" "), result.parsed)
        segment = TranscriptSegment(
            start=0.0,
            end=recording.duration,
            text=found.text,
            tokens=result.token_ids,
            temperature=options.temperatures[0],
            avg_logprob=_avg_logprob(result),
            no_speech_prob=encoded.no_speech_prob,
        )
        yield segment
        is_cancelled = result.finish_reason == "cancelled"
        if on_progress is not None and not is_cancelled:
            on_progress(recording.duration, recording.duration)
        usage = result.usage
        positions = whisper.positions(recording.samples)
        # A cached prompt has the keys of its recording.
        cached = usage.cached_tokens and usage.cached_tokens + positions
        return Transcript(
            text=found.text,
            segments=(segment,),
            language=encoded.language,
            duration=recording.duration,
            parsed=found.parsed,
            usage=replace(
                usage,
                prompt_tokens=usage.prompt_tokens + positions,
                cached_tokens=cached,
                audio_tokens=positions,
            ),
            model=result.model,
            finish_reason="cancelled" if is_cancelled else "stop",
            lead_in=found.lead_in,
        )

    def _run(self, call: Callable[[], T]) -> T:
        """Run a call on the model thread, in turns with the requests there."""
        worker = self.core.worker
        if worker.is_current:
            raise EngineError(
                "a request's own callbacks cannot use the same engine",
                hint="Custom samplers run on its thread; use another engine, or wait for the end.",
            )

        def wired() -> T:
            with wired_memory(model_bytes(self.core.loaded.model)):
                return call()

        return worker.submit(wired).result()


def _with_rate(audio: Audio) -> AudioSource:
    return (audio, _SAMPLE_RATE) if isinstance(audio, np.ndarray) else audio


def _avg_logprob(result: GenerationResult[Any]) -> float | None:
    """Return the mean log-probability of the tokens, if they were requested of the engine."""
    logprobs = result.logprobs
    if not logprobs:
        return None
    return sum(one.chosen.before_mask for one in logprobs) / len(logprobs)
