"""Transcription of speech as methods of the engine."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from ..requests.streams import Closing, cancelling
from ..transcription.options import TranscriptionOptions, TranscriptionOverrides
from ..transcription.results import Transcript, TranscriptSegment
from .core import EngineCore
from .transcriber import Audio, OnSeconds, Segments, Transcriber

if TYPE_CHECKING:
    from pydantic import TypeAdapter as Adapter
    from typing_extensions import TypeForm

T = TypeVar("T")


class TranscriptStream(Closing, Generic[T]):
    """The segments of a transcript, which is computed while they are read.

    Closing or dropping the stream stops the transcription at its next token. ``next`` raises the
    transcription's errors.
    """

    def __init__(self, segments: Segments, cancelled: threading.Event) -> None:
        self._segments = segments
        self._cancelled = cancelled
        self._transcript: Transcript[T] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TranscriptSegment:
        try:
            return next(self._segments)
        except StopIteration as end:
            if end.value is not None:
                self._transcript = end.value
            raise StopIteration from None

    def result(self) -> Transcript[T]:
        """Read to the end, and return the transcript.

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
        self._cancelled.set()

    def close(self) -> None:
        """Stop the transcription, and end the stream. Idempotent."""
        self._cancelled.set()
        self._segments.close()

    def __del__(self) -> None:
        self._cancelled.set()


class TranscriptionEngine:
    """``transcribe``, ``transcribe_stream`` and ``atranscribe``."""

    _core: EngineCore

    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[T]: ...
    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: Adapter[T],
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[T]: ...
    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: Any = None,
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[Any]: ...
    def transcribe(
        self,
        audio: Audio,
        response_format: Any = None,
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[Any]:
        """Transcribe a recording with a speech model such as Whisper.

        A long recording is transcribed in windows of 30 seconds; other requests take turns.

        Args:
            audio: A path, the bytes of a file, ``AudioContent``, an array with its sample rate in
                Hz, or an array at 16 kHz. Arrays have shape (samples,) or (samples, channels).
            response_format: As in :meth:`~proxy_engine.InferenceEngine.generate`: the transcript
                matches it, and ``transcript.parsed`` is its value. For recordings of up to 30
                seconds. Default: free text with timestamps.
            on_progress: Called with the seconds that are transcribed and the recording's seconds.
            options: The options of ``TranscriptionOptions``.

        Raises:
            PromptError: The model transcribes no speech.
            MediaError: The recording cannot be read, or exceeds a limit.
            InvalidOptionError: An option is unknown or invalid, or the model does not know the
                language.
            EngineClosedError: The engine is closed.
            ProxyError: The response format is invalid, as in ``generate``.
        """
        cancelled = threading.Event()
        with cancelling(cancelled):
            return self._transcript(audio, response_format, on_progress, options, cancelled)

    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> TranscriptStream[T]: ...
    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: Adapter[T],
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> TranscriptStream[T]: ...
    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: Any = None,
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> TranscriptStream[Any]: ...
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: Any = None,
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> TranscriptStream[Any]:
        """:meth:`transcribe` as a stream of segments, which are computed when they are read.

        The recording and the arguments are checked by this call.
        """
        cancelled = threading.Event()
        return TranscriptStream(
            self._segments(audio, response_format, on_progress, options, cancelled), cancelled
        )

    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[T]: ...
    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: Adapter[T],
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[T]: ...
    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: Any = None,
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[Any]: ...
    async def atranscribe(
        self,
        audio: Audio,
        response_format: Any = None,
        *,
        on_progress: OnSeconds | None = None,
        **options: Unpack[TranscriptionOverrides],
    ) -> Transcript[Any]:
        """:meth:`transcribe` for event loops. Cancelling the task stops the transcription.

        ``on_progress`` is called on another thread.
        """
        cancelled = threading.Event()
        call = partial(self._transcript, audio, response_format, on_progress, options, cancelled)
        with cancelling(cancelled):
            return await asyncio.get_running_loop().run_in_executor(self._core.threads, call)

    def _segments(
        self,
        audio: Audio,
        response_format: Any,
        on_progress: OnSeconds | None,
        options: TranscriptionOverrides,
        cancelled: threading.Event,
    ) -> Segments:
        checked = TranscriptionOptions(**options)
        transcriber = Transcriber(self._core)
        return transcriber.begin(audio, response_format, checked, on_progress, cancelled)

    def _transcript(
        self,
        audio: Audio,
        response_format: Any,
        on_progress: OnSeconds | None,
        options: TranscriptionOverrides,
        cancelled: threading.Event,
    ) -> Transcript[Any]:
        segments = self._segments(audio, response_format, on_progress, options, cancelled)
        return TranscriptStream[Any](segments, cancelled).result()
