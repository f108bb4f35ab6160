"""``POST /v1/audio/transcriptions`` and ``POST /v1/audio/translations``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData

from ...engine.transcripts import Transcript
from ...errors import MediaError
from ...media.sources import check_size
from ...transcription.options import TranscriptionOverrides
from ..encoders import transcriptions as encoder
from ..errors import INTERNAL_ERROR, ApiError, ErrorResponse, media_error, translated_errors
from ..schemas.transcriptions import TranscriptionRequest, TranslationRequest
from ..services import Services, ServicesOfRequest
from ..streaming import ServerSentEvents, frame, unless_disconnected
from ..transcribing import RunningTranscription, Upload, transcribing

_MAX_FIELDS = 1000
_STATUSES = (400, 401, 403, 404, 408, 413, 501, 503, 507)
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in _STATUSES
}
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

_logger = logging.getLogger(__name__)


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


router = APIRouter(prefix="/v1/audio", route_class=_FormRoute, responses=_ERRORS)


@router.post("/transcriptions", responses=_STREAMED)
async def create_transcription(
    body: Annotated[TranscriptionRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesOfRequest,
) -> Response:
    """Transcribe a recording; with ``stream``, as server-sent events."""
    services.unknown_fields.check(request, body)
    granularities = body.timestamp_granularities or ["segment"]
    if body.timestamp_granularities and body.response_format != "verbose_json":
        raise _unsupported("only verbose_json has timestamps", "timestamp_granularities")
    if "word" in granularities and body.constraint(None)[1] is not None:
        raise _unsupported("a constrained transcript has no words", "timestamp_granularities")
    if body.stream and body.response_format != "json":
        raise _unsupported("a stream has the response format json", "response_format")
    options = _options(body)
    options["timestamps"] = "word" if "word" in granularities else "segment"
    if body.language is not None:
        options["language"] = body.language

    def encode(transcript: Transcript[Any]) -> Response:
        return encoder.response(transcript, body.response_format, "transcribe", granularities)

    return await _reply(request, services, body, options, None if body.stream else encode)


@router.post("/translations", responses=_FORMATS)
async def create_translation(
    body: Annotated[TranslationRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesOfRequest,
) -> Response:
    """Write the speech of a recording in English."""
    services.unknown_fields.check(request, body)
    options = _options(body)
    options["task"] = "translate"

    def encode(transcript: Transcript[Any]) -> Response:
        return encoder.response(transcript, body.response_format, "translate", ["segment"])

    return await _reply(request, services, body, options, encode)


async def _reply(
    request: Request,
    services: Services,
    body: TranslationRequest,
    options: TranscriptionOverrides,
    encode: Callable[[Transcript[Any]], Response] | None,
) -> Response:
    """Transcribe, and return the response, or one that streams if ``encode`` is ``None``."""
    limit = services.settings.max_audio_bytes
    field, response_format = body.constraint(None)
    upload = Upload(body.file, response_format, options)
    log_fields: dict[str, Any] = request.state.log_fields
    with _translated_errors(field):
        check_size("audio", body.file.size or 0, limit, "max_audio_bytes")
        async with AsyncExitStack() as stack:
            running = await unless_disconnected(
                request.receive,
                stack.enter_async_context(transcribing(upload, body.model, services)),
            )
            log_fields["model"] = running.lease.model.name
            if services.settings.log_prompts:
                log_fields["prompts"] = [body.prompt]
            if encode is not None:
                transcript = await unless_disconnected(request.receive, _consume(running))
                log_fields.update(running.log_fields)
                return await asyncio.to_thread(encode, transcript)
            # A failure before the headers are sent gets an HTTP status.
            waiting = running.wait_for_output(services.settings.keep_alive_seconds)
            await unless_disconnected(request.receive, waiting)
            # From here on the response closes the transcription.
            held = stack.pop_all()
    return ServerSentEvents(
        _frames(running, field, log_fields),
        held.aclose,
        keep_alive=services.settings.keep_alive_seconds,
        patience=services.settings.write_seconds,
    )


async def _consume(running: RunningTranscription) -> Transcript[Any]:
    async with aclosing(running.events()) as events:
        async for event in events:
            if isinstance(event, Transcript):
                return event
    raise AssertionError("a transcription ends with its transcript")


async def _frames(
    running: RunningTranscription, field: str, log_fields: dict[str, Any]
) -> AsyncIterator[bytes]:
    try:
        with _translated_errors(field):
            async with aclosing(running.events()) as events:
                async for event in events:
                    yield encoder.event_frame(event)
    except ApiError as error:
        failure = error
    except Exception:
        # A defect of the server, when the status is sent already.
        _logger.exception("stream failed")
        failure = INTERNAL_ERROR
    else:
        log_fields.update(running.log_fields)
        return
    log_fields["error"] = failure.code
    yield frame(failure.body)


@contextmanager
def _translated_errors(field: str) -> Iterator[None]:
    """Convert the engine's errors to ``ApiError``; ``field`` is that of the constraint."""
    try:
        # Some models neither take constraints nor translate.
        names = {"prompt": "model", "task": "model", "response_format": field}
        with translated_errors(names):
            yield
    except ApiError as error:
        if isinstance(error.__cause__, MediaError):
            raise media_error(error.__cause__, "file") from error.__cause__
        raise


def _options(body: TranslationRequest) -> TranscriptionOverrides:
    options = TranscriptionOverrides()
    if body.prompt:
        options["prompt"] = body.prompt
    if body.lead_in is not None:
        options["lead_in"] = body.lead_in
    if body.temperature:
        # At 0, the engine's default, a higher temperature follows where necessary.
        options["temperature"] = body.temperature
    return options


def _unsupported(message: str, param: str) -> ApiError:
    return ApiError(400, message, code="unsupported", param=param)
