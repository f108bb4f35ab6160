"""Errors as clients get them: status, code and envelope, also of the engine's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import Scope

from state_machines.errors import (
    GrammarBudgetError,
    GrammarError,
    MaxTokensTooSmallError,
    PatternError,
    ProxyError,
    SchemaError,
    StructuralTagError,
    UnknownTokenError,
)

from ..checks import Location, problems_from
from ..errors import (
    AdapterError,
    CompileLimitError,
    DistributedError,
    DraftModelError,
    EngineClosedError,
    InvalidOptionError,
    InvalidResponseFormatError,
    InvalidToolError,
    MediaError,
    MissingExtraError,
    ModelError,
    ModelNotFoundError,
    OutputValidationError,
    PromptError,
    PromptTooLongError,
    UnsupportedArchitectureError,
)
from .schemas import ALL_NAMES

# Facts of pydantic: a value of a union type has one for each alternative.
_MAX_FACTS = 8
_LOCATION = re.compile(r"messages\[(\d+)\]\.content\[(\d+)\]")
# By the limit that a medium exceeds: status, code, and the setting that raises it.
_MEDIA_LIMITS = {
    "max_images": (400, "too_many_images", "--max-images"),
    "max_image_bytes": (413, "image_too_large", "--max-image-bytes"),
    "max_image_pixels": (400, "image_too_large", "--max-image-pixels"),
    "max_audio_bytes": (413, "audio_too_large", "--max-audio-bytes"),
    "max_audio_seconds": (400, "audio_too_long", "--max-audio-seconds"),
    "allow_urls": (400, "image_url_not_allowed", "--allow-image-urls"),
}
_TOO_LONG = "context_length_exceeded"
# Status, code, and the engine's parameter at fault, by class; the first that fits counts.
_KINDS: Mapping[type[ProxyError], tuple[int, str, str]] = {
    SchemaError: (400, "invalid_schema", "response_format"),
    StructuralTagError: (400, "invalid_structural_tag", "response_format"),
    PatternError: (400, "invalid_pattern", "response_format"),
    GrammarError: (400, "invalid_grammar", "response_format"),
    UnknownTokenError: (400, "invalid_grammar", "response_format"),
    CompileLimitError: (400, "constraint_too_complex", "response_format"),
    GrammarBudgetError: (400, "constraint_too_complex", "response_format"),
    InvalidResponseFormatError: (400, "invalid_response_format", "response_format"),
    InvalidOptionError: (400, "invalid_value", ""),
    MaxTokensTooSmallError: (400, "max_tokens_too_small", "max_tokens"),
    PromptTooLongError: (400, _TOO_LONG, "prompt"),
    PromptError: (400, "invalid_prompt", "prompt"),
    MissingExtraError: (503, "missing_extra", ""),
    DraftModelError: (400, "draft_model_mismatch", "draft_model"),
    ModelNotFoundError: (404, "model_not_found", "model"),
    UnsupportedArchitectureError: (501, "unsupported_model", "model"),
    ModelError: (503, "model_unavailable", "model"),
    DistributedError: (503, "rank_failed", ""),
    OutputValidationError: (500, "output_validation_failed", ""),
    ProxyError: (400, "invalid_request", ""),
}
# Members of an error's object, and their attributes; the first class that fits counts.
_FACTS: Mapping[type[ProxyError], Mapping[str, str]] = {
    SchemaError: {"schema_pointer": "pointer", "schema_keyword": "keyword"},
    StructuralTagError: {"tag_pointer": "pointer"},
    PatternError: {"pattern": "pattern", "pattern_position": "position"},
    GrammarError: {"line": "line", "column": "column", "rule": "rule"},
    UnknownTokenError: {"line": "line", "column": "column"},
    CompileLimitError: {"seconds": "seconds"},
    GrammarBudgetError: {"steps": "budget"},
    MaxTokensTooSmallError: {"needed_tokens": "needed"},
    DraftModelError: {"token_id": "token_id"},
    PromptTooLongError: {"prompt_tokens": "prompt_tokens", "context_length": "context_length"},
}

_MAX_PATH = 200
_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "body_too_large",
    503: "too_many_bodies",
}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


class ErrorObject(BaseModel):
    """An error.

    Attributes:
        message: A sentence.
        type: OpenAI's class of errors, which follows from the status.
        param: The field of the request at fault, if there is one.
        code: A word for programs.

    A refused schema adds ``schema_pointer`` (a JSON Pointer) and ``schema_keyword``.
    """

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """OpenAI's envelope."""

    error: ErrorObject


class AnthropicErrorObject(BaseModel):
    """An error: Anthropic's class of errors, which follows from the status, and a sentence."""

    type: str
    message: str


class AnthropicErrorResponse(BaseModel):
    """Anthropic's envelope."""

    type: Literal["error"]
    error: AnthropicErrorObject


class OllamaErrorResponse(BaseModel):
    """Ollama's envelope."""

    error: str


class ApiError(Exception):
    """An error to send to the client.

    Args:
        status: The HTTP status.
        message: A sentence.
        code: A word for programs.
        param: The field of the request at fault.
        facts: Further members of the error object.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        facts: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.facts = dict(facts or {})
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """OpenAI's envelope."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": {**error, **self.facts}}

    @property
    def anthropic_body(self) -> dict[str, Any]:
        """Anthropic's envelope."""
        fallback = "api_error" if self.status >= 500 else "invalid_request_error"
        kind = _ANTHROPIC_TYPES.get(self.status, fallback)
        message = self.message
        if self.code == _TOO_LONG and "prompt_tokens" in self.facts:
            # The wording by which Anthropic's clients know the error. An answer needs a token.
            tokens, maximum = self.facts["prompt_tokens"], self.facts["context_length"] - 1
            message = f"prompt is too long: {tokens} tokens > {maximum} maximum"
        return {"type": "error", "error": {"type": kind, "message": message}}

    @property
    def ollama_body(self) -> dict[str, Any]:
        """Ollama's envelope."""
        return {"error": self.message}


def conflict(message: str, param: str) -> ApiError:
    """Return the error for fields that contradict each other."""
    return ApiError(400, message, code="conflicting_values", param=param)


INTERNAL_ERROR = ApiError(500, "internal server error; see the server log", code="internal")
"""The error for exceptions that are defects of the server."""


def error_reply(error: ApiError, path: str) -> Response:
    """Return the response for an error, in the envelope of the endpoint at a path."""
    body = error.body
    if path.startswith("/v1/messages"):
        body = error.anthropic_body
    elif path.startswith("/api/"):
        body = error.ollama_body
    return Response(to_json(body), error.status, error.headers, media_type="application/json")


def path_of(scope: Scope) -> str:
    """Return the path of a request, relative to where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def shutting_down() -> ApiError:
    """Return the error for requests that arrive or still run while the server shuts down."""
    return ApiError(
        503, "the server is shutting down", code="shutting_down", headers={"Retry-After": "10"}
    )


def unsuitable_model(name: str, reason: str) -> ApiError:
    """Return the error for a model that cannot serve an endpoint; ``reason`` follows its name."""
    return ApiError(400, f"{name!r} {reason}", code="unsuitable_model", param="model")


PartName: TypeAlias = Callable[[int, int], str]
"""Returns the field of a request that is a content part, by the indexes of message and part."""


def api_error(
    error: ProxyError,
    names: Mapping[str, str] | None = None,
    part_name: PartName | None = None,
) -> ApiError:
    """Return an engine's error as a client gets it.

    Args:
        error: The error.
        names: The endpoint's names for the engine's parameters, where they differ.
        part_name: The endpoint's names for content parts.
    """
    known = names or {}
    match error:
        case InvalidToolError():
            param = "tools" if error.index is None else f"tools[{error.index}]"
            code = "invalid_schema" if isinstance(error, SchemaError) else "invalid_tool"
            facts = _location(error) or _location(error.__cause__)
            return ApiError(400, str(error), code=code, param=param, facts=facts)
        case MediaError():
            location = _LOCATION.match(error.where)
            if location is None or part_name is None:
                return media_error(error, known.get("media") or known.get("prompt", "prompt"))
            return media_error(error, part_name(int(location[1]), int(location[2])))
        case AdapterError():
            # Without the directory.
            name = Path(error.adapter).name
            what = f"the adapter {name!r} cannot be used with {error.model!r}: {error.reason}"
            return ApiError(400, what, code="invalid_adapter", param="adapters")
        case EngineClosedError() if not isinstance(error, DistributedError):
            return shutting_down()
    kind = next((kind for kind in _KINDS if isinstance(error, kind)), ProxyError)
    status, code, parameter = _KINDS[kind]
    if isinstance(error, InvalidOptionError):
        parameter = error.option
    elif isinstance(error, SchemaError) and error.tool is not None:
        parameter = "tools"
    # The process ends, and clients may try again once it is started again.
    text = error.what if isinstance(error, DistributedError) else str(error)
    field = known.get(parameter, parameter) or None
    return ApiError(status, text, code=code, param=field, facts=_location(error))


def media_error(error: MediaError, param: str) -> ApiError:
    """Return the error of an image or a recording in the field ``param``."""
    status, code, setting = _MEDIA_LIMITS.get(error.limit or "", (400, "invalid_media", ""))
    if error.limit is not None:
        # The engine's hint names its own option.
        hint = f"The server's setting is {setting}." if setting else ""
        error = MediaError(error.what, where=error.where, limit=error.limit, hint=hint)
    return ApiError(status, str(error), code=code, param=param)


@contextmanager
def translated_errors(
    names: Mapping[str, str], part_name: PartName | None = None
) -> Iterator[None]:
    """Convert the engine's errors to ``ApiError``, with the arguments of ``api_error``."""
    try:
        yield
    except ProxyError as error:
        raise api_error(error, names, part_name) from error


def invalid_body(error: RequestValidationError) -> ApiError:
    """Return FastAPI's validation error as a client gets it."""
    facts = error.errors()
    for fact in facts:
        if fact["type"] == "json_invalid":
            reason = fact.get("ctx", {}).get("error", "")
            return ApiError(400, f"the body is not JSON: {reason}", code="invalid_json")
    # FastAPI's locations begin with "body" or "query".
    given: Any = {fact["loc"][1]: fact["input"] for fact in facts if fact["loc"][0] == "query"}
    if not given:
        given = dict(error.body) if isinstance(error.body, Mapping) else error.body
    in_body = [{**fact, "loc": _as_given(fact["loc"][1:], given)} for fact in facts[:_MAX_FACTS]]
    problems = problems_from(in_body, given)
    message = "; ".join(
        f"{_field_path(problem.location) or 'the body'} {problem.what}" for problem in problems
    )
    code = "invalid_value"
    if problems[0].kind == "missing":
        code = "missing_required_parameter"
    elif problems[0].kind.endswith("_type"):
        code = "invalid_type"
    param = _field_path(problems[0].location) or None
    return ApiError(400, message, code=code, param=param)


def _as_given(location: Location, body: Any) -> Location:
    """Return a location with the name under which the body has its field."""
    if not isinstance(body, Mapping) or not location or location[0] in body:
        return location
    for name, other in ALL_NAMES.items():
        parent, _, member = name.partition(".")
        if other.field == location[0] and parent in body:
            return (*filter(None, (parent, member)), *location[1:])
    return location


def _field_path(location: Location) -> str:
    """Return a location as ``messages[0].content``."""
    path = "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in location)
    # A client may invent names of any length.
    return path.removeprefix(".")[:_MAX_PATH]


def _location(error: BaseException | None) -> dict[str, Any]:
    """Return the facts of an error that clients show or use."""
    facts = next((facts for kind, facts in _FACTS.items() if isinstance(error, kind)), {})
    return {fact: getattr(error, name) for fact, name in facts.items()}


def http_error(error: HTTPException) -> ApiError:
    """Return an error of Starlette, or of this package's middleware, as a client gets it."""
    status = error.status_code
    return ApiError(status, str(error.detail), code=_CODES.get(status), headers=error.headers)


def add_error_handlers(app: Starlette) -> None:
    """Add handlers that turn exceptions into responses."""
    for kind in (ApiError, ProxyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _reply)


async def _reply(request: Request, error: Exception) -> Response:
    match error:
        case ProxyError():
            error = api_error(error)
        case RequestValidationError():
            error = invalid_body(error)
        case HTTPException():
            error = http_error(error)
    if not isinstance(error, ApiError):
        raise error
    return error_reply(error, path_of(request.scope))
