"""``POST /v1/audio/transcriptions`` and ``POST /v1/audio/translations``."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from pydantic import ConfigDict, Field
from starlette.datastructures import FormData

from ...conversation.content import AudioContent
from ...media.sources import check_size
from ...results.streams import AsyncStream
from ...transcription import TranscriptionOverrides
from ...transcription.results import Transcript, TranscriptSegment, TranscriptStream
from ..admission import Lease
from ..encoders import Encoder, Fields
from ..errors import ApiError, translated_errors
from ..models import KnownModel, ModelChoice
from ..running import AnswerEvents, Event, ServedRequest, Services, ServicesOfRequest
from ..schemas.sampling import TextConstraints
from ..streaming import frame, json_reply
from .generating import Dialect, described_errors, reply

Format = Literal["json", "text", "srt", "verbose_json", "vtt"]
Task = Literal["transcribe", "translate"]
_SEEK_STEPS_PER_SECOND = 100
_SEGMENT = (
    *("start", "end", "text", "tokens", "temperature"),
    *("avg_logprob", "compression_ratio", "no_speech_prob"),
)


class TranscriptEncoder(Encoder):
    """Encodes segments and the whole transcript.

    Args:
        form: The response format.
        task: ``"translate"`` if the text is English whatever the spoken language.
        granularities: The units in ``verbose_json``: ``"segment"``, ``"word"``, or both.
    """

    def __init__(self, form: Format, task: Task, granularities: Sequence[str]) -> None:
        self._form = form
        self._task = task
        self._granularities = granularities
        self._transcript: Transcript[Any] | None = None

    def encode(self, index: int, event: TranscriptSegment | Transcript[Any]) -> Iterator[bytes]:
        """Return the event of a stream."""
        if isinstance(event, TranscriptSegment):
            yield frame({"type": "transcript.text.delta", "delta": event.text})
        else:
            self._transcript = event
            text = event.text.strip()
            yield frame({"type": "transcript.text.done", "text": text, "usage": _usage(event)})

    def end(self) -> Iterable[bytes]:
        """Return nothing: the whole transcript is the last event."""
        return ()

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """Return the error as the last event."""
        yield frame(error.body)

    def reply(self) -> Response:
        """Return the response for the whole transcript."""
        transcript = self._transcript
        assert transcript is not None, "a transcription ends with its transcript"
        match self._form:
            case "text":
                return PlainTextResponse(transcript.text.strip() + "\n")
            case "srt":
                return PlainTextResponse(transcript.to_srt())
            case "vtt":
                return PlainTextResponse(transcript.to_vtt())
        fields: Fields = {"text": transcript.text.strip(), "usage": _usage(transcript)}
        if transcript.lead_in:
            # An extension: the words before the text.
            fields["lead_in"] = transcript.lead_in
        if self._form == "verbose_json":
            fields |= _verbose(transcript, self._task, self._granularities)
        return json_reply(fields)


def _usage(transcript: Transcript[Any]) -> Fields:
    usage = transcript.usage
    return {
        "type": "tokens",
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "input_token_details": {
            "audio_tokens": usage.audio_tokens,
            "text_tokens": usage.prompt_tokens - usage.audio_tokens,
        },
    }


def _verbose(transcript: Transcript[Any], task: Task, granularities: Sequence[str]) -> Fields:
    """Return the further fields of ``verbose_json``; times are in seconds."""
    fields: Fields = {
        "task": task,
        "language": _language_name(transcript.language),
        "duration": transcript.duration,
        "usage": {"type": "duration", "seconds": transcript.duration},
    }
    if "segment" in granularities:
        fields["segments"] = [
            _segment(number, segment) for number, segment in enumerate(transcript.segments)
        ]
    if "word" in granularities:
        fields["words"] = [
            {"word": word.text.strip(), "start": word.start, "end": word.end}
            for segment in transcript.segments
            for word in segment.words
        ]
    return fields


def _language_name(code: str | None) -> str | None:
    """Return the English name of a language in lower case, as OpenAI's API returns it."""
    if code is None:
        return None
    # Only a Whisper model of this extra states a language.
    from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES  # noqa: PLC0415

    return str(LANGUAGES.get(code, code))


def _segment(number: int, segment: TranscriptSegment) -> Fields:
    """Return a segment. ``seek`` is where its window begins, in steps of 10 ms."""
    seek = round(segment.window_start * _SEEK_STEPS_PER_SECOND)
    return {"id": number, "seek": seek, **{name: getattr(segment, name) for name in _SEGMENT}}


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


_MAX_FIELDS = 1000
_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The transcript in the response format.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The transcript in the response format; with `stream`, server-sent events.",
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
}


class _FormRequest(Request):
    """Reads one file. The names of lists may end in brackets, as OpenAI's client writes them."""

    async def form(self, **_: Any) -> FormData:  # type: ignore[override]
        form = await super().form(max_files=1, max_fields=_MAX_FIELDS)
        return FormData([(name.removesuffix("[]"), value) for name, value in form.multi_items()])


class _FormRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handling(request: Request) -> Response:
            return await handler(_FormRequest(request.scope, request.receive))

        return handling


_Received: TypeAlias = "TranscriptSegment | Transcript[Any] | Exception"


class _TranscriptionEvents(AsyncStream["TranscriptSegment | Transcript[Any]"]):
    """The segments of a recording, and its transcript. Awaiting them waits until it is decoded.

    A separate thread transcribes it and waits for the model in turns, for minutes. The
    threads of the event loop's executor are too few for that.

    Args:
        begin: Decodes the recording and checks the arguments; called on the thread.
    """

    def __init__(self, begin: Callable[[], TranscriptStream[Any]]) -> None:
        super().__init__(self._started, self.cancel)
        self._begin_stream = begin
        self._stream: TranscriptStream[Any] | None = None
        self._is_ended = False
        self._received: asyncio.Queue[_Received] = asyncio.Queue()
        self._decoded = asyncio.Event()
        self._finished = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, name="transcription", daemon=True).start()

    def cancel(self) -> None:
        """End the transcription at its next token."""
        # The thread stores the stream before it reads this.
        self._is_ended = True
        if self._stream is not None:
            self._stream.cancel()

    async def aclose(self) -> None:
        """Cancel the transcription, and wait for its end."""
        await super().aclose()
        await self._finished.wait()

    async def _started(self) -> AsyncGenerator[TranscriptSegment | Transcript[Any]]:
        await self._decoded.wait()
        return self._events()

    async def _events(self) -> AsyncGenerator[TranscriptSegment | Transcript[Any]]:
        event: _Received | None = None
        while not isinstance(event, Transcript):
            event = await self._received.get()
            if isinstance(event, Exception):
                raise event
            yield event

    def _work(self) -> None:
        try:
            self._stream = stream = self._begin_stream()
            if self._is_ended:
                stream.cancel()
            self._call(self._decoded.set)
            for segment in stream:
                self._call(self._received.put_nowait, segment)
            self._call(self._received.put_nowait, stream.result())
        except Exception as error:
            self._call(self._received.put_nowait, error)
        finally:
            self._call(self._decoded.set)
            self._call(self._finished.set)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        # The loop may be closed before the transcription has stopped.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordingRequest(ServedRequest):
    """A request for a transcript; its recording is still in a file.

    Attributes:
        file: The recording.
        response_format: The engine's response format.
        options: The engine's options.
    """

    file: UploadFile
    response_format: Any
    options: TranscriptionOverrides

    def check_model(self, model: KnownModel) -> None:
        """Check nothing: models are chosen by the kind of request."""

    async def start(self, lease: Lease) -> tuple[Sequence[AnswerEvents[Event]], Mapping[str, str]]:
        """Start the transcription, as ``ServedRequest.start``."""
        audio = AudioContent(data=await self.file.read())
        begin = partial(
            lease.engine.transcribe_stream,
            audio,
            response_format=self.response_format,
            **self.options,
        )
        return [_TranscriptionEvents(begin)], {}


def _read_transcription(body: TranscriptionRequest, services: Services) -> _RecordingRequest:
    given = body.timestamp_granularities
    if given and body.response_format != "verbose_json":
        raise _unsupported("only verbose_json has timestamps", "timestamp_granularities")
    has_words = "word" in (given or ())
    if has_words and body.constraint(None)[1] is not None:
        raise _unsupported("a constrained transcript has no words", "timestamp_granularities")
    if body.stream and body.response_format != "json":
        raise _unsupported("a stream has the response format json", "response_format")
    options = TranscriptionOverrides(timestamps="word" if has_words else "segment")
    if body.language is not None:
        options["language"] = body.language
    return _recording_request(body, services, options, is_streamed=bool(body.stream))


def _read_translation(body: TranslationRequest, services: Services) -> _RecordingRequest:
    return _recording_request(body, services, TranscriptionOverrides(task="translate"))


def _recording_request(
    body: TranslationRequest,
    services: Services,
    options: TranscriptionOverrides,
    *,
    is_streamed: bool = False,
) -> _RecordingRequest:
    field, response_format = body.constraint(None)
    # Some models neither take constraints nor translate.
    names = {"prompt": "model", "task": "model", "response_format": field, "media": "file"}
    with translated_errors(names):
        limit = services.settings.max_audio_bytes
        check_size("audio", body.file.size or 0, limit, "max_audio_bytes")
    if body.prompt:
        options["prompt"] = body.prompt
    if body.lead_in is not None:
        options["lead_in"] = body.lead_in
    if body.temperature:
        # At 0, the engine's default, a higher temperature follows where necessary.
        options["temperature"] = body.temperature
    return _RecordingRequest(
        model=ModelChoice(body.model, transcribes=True),
        is_streamed=is_streamed,
        names=names,
        prompts=[body.prompt],
        file=body.file,
        response_format=response_format,
        options=options,
    )


def _unsupported(message: str, param: str) -> ApiError:
    return ApiError(400, message, code="unsupported", param=param)


async def _encode_transcription(
    body: TranscriptionRequest, request: _RecordingRequest, lease: Lease
) -> TranscriptEncoder:
    granularities = body.timestamp_granularities or ["segment"]
    return TranscriptEncoder(body.response_format, "transcribe", granularities)


async def _encode_translation(
    body: TranslationRequest, request: _RecordingRequest, lease: Lease
) -> TranscriptEncoder:
    return TranscriptEncoder(body.response_format, "translate", ["segment"])


TRANSCRIPTION = Dialect(_read_transcription, _encode_transcription)
TRANSLATION = Dialect(_read_translation, _encode_translation)

router = APIRouter(prefix="/v1/audio", route_class=_FormRoute, responses=described_errors())


@router.post("/transcriptions", responses=_STREAMED)
async def create_transcription(
    body: Annotated[TranscriptionRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesOfRequest,
) -> Response:
    """Transcribe a recording; with ``stream``, as server-sent events."""
    return await reply(TRANSCRIPTION, body, request, services)


@router.post("/translations", responses=_FORMATS)
async def create_translation(
    body: Annotated[TranslationRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesOfRequest,
) -> Response:
    """Write the speech of a recording in English."""
    return await reply(TRANSLATION, body, request, services)
