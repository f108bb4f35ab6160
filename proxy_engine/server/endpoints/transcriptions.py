"""``POST /v1/audio/transcriptions`` and ``POST /v1/audio/translations``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.routing import APIRoute
from pydantic import ConfigDict, Field
from starlette.datastructures import FormData

from ...media.sources import check_size
from ...transcription.options import TranscriptionOverrides
from ...transcription.results import Transcript
from ..encoders.transcriptions import Format, TranscriptEncoder, response
from ..errors import ApiError, translated_errors
from ..host import Lease
from ..running import Running, Services, ServicesOfRequest
from ..schemas.constraints import TextConstraints
from ..transcribing import Upload, begin_transcription
from .generating import described_errors, respond
from .served_requests import ServedRequest


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


router = APIRouter(prefix="/v1/audio", route_class=_FormRoute, responses=described_errors())


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
        return response(transcript, body.response_format, "transcribe", granularities)

    return await _reply(request, services, body, options, encode, is_streamed=bool(body.stream))


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
        return response(transcript, body.response_format, "translate", ["segment"])

    return await _reply(request, services, body, options, encode)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordingRequest(ServedRequest):
    upload: Upload
    model: str | None

    async def begin(self, services: Services) -> Running:
        return await begin_transcription(self.upload, self.model, services)


async def _reply(
    request: Request,
    services: Services,
    body: TranslationRequest,
    options: TranscriptionOverrides,
    encode: Callable[[Transcript[Any]], Response],
    *,
    is_streamed: bool = False,
) -> Response:
    """Transcribe, and return the response, or one that streams."""
    field, response_format = body.constraint(None)
    # Some models neither take constraints nor translate.
    names = {"prompt": "model", "task": "model", "response_format": field, "media": "file"}

    async def encoder(lease: Lease) -> TranscriptEncoder:
        return TranscriptEncoder(encode)

    async def converted() -> ServedRequest:
        limit = services.settings.max_audio_bytes
        with translated_errors(names):
            check_size("audio", body.file.size or 0, limit, "max_audio_bytes")
        return _RecordingRequest(
            make_encoder=encoder,
            is_streamed=is_streamed,
            names=names,
            prompts=[body.prompt],
            upload=Upload(body.file, response_format, options),
            model=body.model,
        )

    return await respond(request, services, converted())


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
