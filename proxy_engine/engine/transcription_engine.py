"""Transcription of speech as methods of the engine."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, overload

from ..transcription.results import Transcript, TranscriptStream
from .arguments import TranscriptionArguments
from .core import EngineProperties
from .transcriber import Audio, transcribe

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .arguments import Format, T


class TranscriptionEngine(EngineProperties):
    """``transcribe``, ``transcribe_stream`` and ``atranscribe``."""

    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    @overload
    def transcribe(
        self,
        audio: Audio,
        response_format: Format[T] = None,
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    def transcribe(
        self, audio: Audio, response_format: Any = None, **arguments: Unpack[TranscriptionArguments]
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
        try:
            return self._transcript(audio, response_format, arguments, cancelled)
        finally:
            cancelled.set()

    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        **arguments: Unpack[TranscriptionArguments],
    ) -> TranscriptStream[T]: ...
    @overload
    def transcribe_stream(
        self,
        audio: Audio,
        response_format: Format[T] = None,
        **arguments: Unpack[TranscriptionArguments],
    ) -> TranscriptStream[T]: ...
    def transcribe_stream(
        self, audio: Audio, response_format: Any = None, **arguments: Unpack[TranscriptionArguments]
    ) -> TranscriptStream[Any]:
        """:meth:`transcribe` as a stream of segments, which are computed when they are read.

        The recording and the arguments are checked by this call.
        """
        cancelled = threading.Event()
        segments = transcribe(self._core, audio, response_format, arguments, cancelled)
        return TranscriptStream(segments, cancelled.set)

    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: TypeForm[T],
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    @overload
    async def atranscribe(
        self,
        audio: Audio,
        response_format: Format[T] = None,
        **arguments: Unpack[TranscriptionArguments],
    ) -> Transcript[T]: ...
    async def atranscribe(
        self, audio: Audio, response_format: Any = None, **arguments: Unpack[TranscriptionArguments]
    ) -> Transcript[Any]:
        """:meth:`transcribe` for event loops. Cancelling the task stops the transcription.

        ``on_progress`` is called on another thread.
        """
        cancelled = threading.Event()
        call = partial(self._transcript, audio, response_format, arguments, cancelled)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._core.threads, call)
        finally:
            cancelled.set()

    def _transcript(
        self,
        audio: Audio,
        response_format: Any,
        arguments: TranscriptionArguments,
        cancelled: threading.Event,
    ) -> Transcript[Any]:
        segments = transcribe(self._core, audio, response_format, arguments, cancelled)
        return TranscriptStream[Any](segments, cancelled.set).result()
