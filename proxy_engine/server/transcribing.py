"""A transcription that runs for one request."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..conversation.content import AudioContent
from ..transcription.options import TranscriptionOverrides
from ..transcription.results import Transcript, TranscriptStream
from .host import Lease
from .metrics import Metrics
from .models import ModelChoice
from .running import Running, Services

if TYPE_CHECKING:
    from fastapi import UploadFile


@dataclass(frozen=True, slots=True)
class Upload:
    """The arguments of ``InferenceEngine.transcribe_stream``; the recording is still in a file."""

    file: UploadFile
    response_format: Any = None
    options: TranscriptionOverrides = field(default_factory=TranscriptionOverrides)

    async def read(self) -> AudioContent:
        """Read the recording into memory."""
        return AudioContent(data=await self.file.read())


class RunningTranscription(Running):
    """A transcription on its own thread.

    It waits for the model in turns, for minutes. The threads of the event loop's executor are too
    few for that.
    """

    def __init__(
        self,
        lease: Lease,
        audio: AudioContent,
        upload: Upload,
        held: AsyncExitStack,
        metrics: Metrics,
        started: float,
    ) -> None:
        super().__init__(lease, 1, held, metrics, started)
        self._audio = audio
        self._upload = upload
        self._stream: TranscriptStream[Any] | None = None
        self._is_ended = False
        self._loop = asyncio.get_running_loop()
        self._checked = asyncio.Event()
        self._finished = asyncio.Event()
        threading.Thread(target=self._work, name="transcription", daemon=True).start()

    @property
    def log_fields(self) -> dict[str, Any]:
        """Fields of the request's log line."""
        durations = [one.duration for one in self._results if isinstance(one, Transcript)]
        return {"audio_seconds": round(sum(durations), 2), **super().log_fields}

    async def check(self) -> None:
        """Wait until the recording is decoded and the arguments are checked.

        Raises:
            ProxyError: The recording or an argument is invalid.
        """
        await self._checked.wait()
        if self._stream is None:
            # Raises the error, and counts it.
            async for _ in self.events():
                pass

    def end(self) -> None:
        """Cancel the transcription; it ends at its next token."""
        # The thread stores the stream before it reads this.
        self._is_ended = True
        if self._stream is not None:
            self._stream.cancel()

    async def _stop(self) -> None:
        self.end()
        await self._finished.wait()

    def _work(self) -> None:
        try:
            self._stream = stream = self.lease.engine.transcribe_stream(
                self._audio, response_format=self._upload.response_format, **self._upload.options
            )
            if self._is_ended:
                stream.cancel()
            self._call(self._checked.set)
            for segment in stream:
                self._call(self._events.put_nowait, (0, segment))
            self._call(self._events.put_nowait, (0, stream.result()))
        except Exception as error:
            # `events` raises it.
            self._call(self._events.put_nowait, (0, error))
        finally:
            self._call(self._checked.set)
            self._call(self._finished.set)

    def _call(self, function: Any, *arguments: Any) -> None:
        # The loop may be closed before the transcription has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


async def begin_transcription(
    upload: Upload, model: str | None, services: Services
) -> RunningTranscription:
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
        # From here on the returned object owns the slot and the model.
        held = stack.pop_all()
        running = RunningTranscription(lease, audio, upload, held, services.metrics, started)
        services.running.add(running)
        held.callback(services.running.discard, running)
        stack.push_async_callback(running.close)
        await running.check()
        stack.pop_all()
        return running
