"""A transcription that runs for one request: its slot, its model, its metrics, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..conversation.content import AudioContent
from ..engine.transcripts import Transcript, TranscriptStream
from ..transcription.options import TranscriptionOverrides
from ..transcription.results import TranscriptSegment
from .errors import shutting_down
from .host import Lease
from .metrics import Metrics
from .models import ModelChoice
from .services import Services

if TYPE_CHECKING:
    from fastapi import UploadFile


TranscriptEvent: TypeAlias = TranscriptSegment | Transcript[Any]
"""A segment, or the whole transcript, which is the last event."""


@dataclass(frozen=True, slots=True)
class Upload:
    """The arguments of ``InferenceEngine.transcribe_stream``; the recording is still in a file."""

    file: UploadFile
    response_format: Any = None
    options: TranscriptionOverrides = field(default_factory=TranscriptionOverrides)

    async def read(self) -> AudioContent:
        """Read the recording into memory."""
        return AudioContent(data=await self.file.read())


class RunningTranscription:
    """A transcription on its own thread. ``close`` ends it, and frees its slot and the model.

    A transcription waits for the model in turns, for minutes. The threads of the event loop's
    executor are too few for that.
    """

    def __init__(
        self, lease: Lease, audio: AudioContent, upload: Upload, metrics: Metrics, started: float
    ) -> None:
        self.lease = lease
        self._transcript: Transcript[Any] | None = None
        self._audio = audio
        self._upload = upload
        self._metrics = metrics
        self._started = started
        self._stream: TranscriptStream[Any] | None = None
        self._is_ended = False
        self._is_counted = False
        self._items: asyncio.Queue[TranscriptEvent | Exception | None] = asyncio.Queue()
        # Received by `wait_for_output`, and not yielded yet.
        self._early: TranscriptEvent | None = None
        self._loop = asyncio.get_running_loop()
        self._finished = asyncio.Event()
        metrics.started.inc()
        threading.Thread(target=self._work, name="transcription", daemon=True).start()

    @property
    def log_fields(self) -> dict[str, Any]:
        """Fields of the request's log line."""
        transcript = self._transcript
        if transcript is None:
            return {}
        return {
            "audio_seconds": round(transcript.duration, 2),
            "completion_tokens": transcript.usage.completion_tokens,
            "finish_reason": transcript.finish_reason,
        }

    async def check(self) -> None:
        """Wait until the recording is decoded and the arguments are checked.

        Raises:
            ProxyError: The recording or an argument is invalid.
        """
        await self._next()

    async def wait_for_output(self, patience: float) -> None:
        """Wait for the first segment, or for ``patience`` seconds.

        Raises:
            ApiError: 503 after ``end`` was called.
            Exception: The error of a transcription that failed before it.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                self._early = await self._next()
        if isinstance(self._early, Transcript) and self._early.finish_reason == "cancelled":
            # Raises the error, and counts the transcription.
            async for _ in self.events():
                pass

    async def events(self) -> AsyncGenerator[TranscriptEvent, None]:
        """Yield the segments, and then the transcript.

        Raises:
            ApiError: 503 after ``end`` was called.
            Exception: The error of the transcription.
        """
        has_begun = False
        while not isinstance(event := await self._next(), Transcript):
            if event is not None and not has_begun:
                has_begun = True
                self._metrics.first_token.observe(time.perf_counter() - self._started)
            if event is not None:
                yield event
        self._transcript = event
        self._count(event.finish_reason)
        self._metrics.count_usage(event.usage)
        if event.finish_reason == "cancelled":
            raise shutting_down()
        yield event

    def end(self) -> None:
        """Cancel the transcription; it ends at its next token."""
        # The thread stores the stream before it reads this.
        self._is_ended = True
        if self._stream is not None:
            self._stream.cancel()

    async def close(self) -> None:
        """Cancel the transcription if it still runs, and wait for its thread. Idempotent."""
        self.end()
        await self._finished.wait()
        self._count("cancelled")

    async def _next(self) -> TranscriptEvent | None:
        if self._early is not None:
            early, self._early = self._early, None
            return early
        item = await self._items.get()
        if isinstance(item, Exception):
            self._count("failed")
            raise item
        return item

    def _work(self) -> None:
        try:
            self._stream = stream = self.lease.engine.transcribe_stream(
                self._audio, response_format=self._upload.response_format, **self._upload.options
            )
            if self._is_ended:
                stream.cancel()
            self._put(None)
            for segment in stream:
                self._put(segment)
            self._put(stream.result())
        except Exception as error:
            # `events` raises it.
            self._put(error)
        finally:
            self._call(self._finished.set)

    def _put(self, item: TranscriptEvent | Exception | None) -> None:
        self._call(self._items.put_nowait, item)

    def _call(self, function: Any, *arguments: Any) -> None:
        # The loop may be closed before the transcription has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _count(self, outcome: str) -> None:
        if not self._is_counted:
            self._is_counted = True
            self._metrics.answers.labels(outcome).inc()
            self._metrics.duration.observe(time.perf_counter() - self._started)


@contextlib.asynccontextmanager
async def transcribing(
    upload: Upload, model: str | None, services: Services
) -> AsyncGenerator[RunningTranscription, None]:
    """Take a slot and the model, start a transcription, and check its arguments.

    Args:
        upload: The recording and the arguments.
        model: The model's name; ``None`` for a speech model.
        services: The application's shared objects.

    Raises:
        ApiError: The queue is full, or there is no such model, or it transcribes no speech.
        ProxyError: As ``InferenceEngine.transcribe_stream`` raises it.
    """
    started = time.perf_counter()
    async with AsyncExitStack() as stack:
        stack.enter_context(services.queue.slots(1))
        choice = ModelChoice(model, transcribes=True)
        lease = await stack.enter_async_context(services.host.lease(choice))
        # Recordings are decoded in memory. Waiting ones are in files.
        await stack.enter_async_context(services.recordings)
        # The server may have begun to shut down meanwhile.
        services.queue.check_open()
        audio = await upload.read()
        running = RunningTranscription(lease, audio, upload, services.metrics, started)
        stack.push_async_callback(running.close)
        services.running.add(running)
        stack.callback(services.running.discard, running)
        await running.check()
        yield running
