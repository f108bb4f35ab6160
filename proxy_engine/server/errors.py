"""Errors as clients get them: OpenAI's envelope, with the status that says whose fault it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict

from state_machines.errors import (
    GrammarBudgetError,
    GrammarError,
    MaxTokensTooSmallError,
    PatternError,
    ProxyError,
    SchemaError,
)

from ..errors import (
    CompileLimitError,
    EngineClosedError,
    InvalidOptionError,
    InvalidResponseFormatError,
    InvalidToolError,
    ModelError,
    ModelNotFoundError,
    OutputValidationError,
    PromptError,
    PromptTooLongError,
)

__all__ = [
    "ApiError",
    "ErrorObject",
    "ErrorResponse",
    "api_error",
    "invalid_body",
    "naming",
    "shutting_down",
]

_MOST_PROBLEMS = 8
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


class ErrorObject(BaseModel):
    """What is wrong. ``param`` names the field of the request at fault, where one is.

    For a refused schema ``schema_pointer`` (a JSON Pointer) and ``schema_keyword`` say where in it.
    """

    model_config = ConfigDict(extra="allow")

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """OpenAI's envelope."""

    error: ErrorObject


class ApiError(Exception):
    """An answer with an error. ``facts`` are further members of the error object."""

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
    def body(self) -> ErrorResponse:
        """The envelope."""
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        return ErrorResponse(
            error=ErrorObject(
                message=self.message,
                type=_TYPES.get(self.status, fallback),
                param=self.param,
                code=self.code,
                **self.facts,
            )
        )


def shutting_down() -> ApiError:
    """Return what is said to whoever comes too late, or is interrupted."""
    return ApiError(
        503, "the server is shutting down", code="shutting_down", headers={"Retry-After": "10"}
    )


def api_error(error: ProxyError, names: Mapping[str, str] | None = None) -> ApiError:
    """``error`` for clients.

    ``names`` are what an endpoint calls the engine's parameters, where that is something else.
    """
    known = names or {}

    def refused(code: str, parameter: str, **facts: Any) -> ApiError:
        param = known.get(parameter, parameter) or None
        return ApiError(400, str(error), code=code, param=param, facts=facts)

    match error:
        case InvalidToolError():
            place = "tools" if error.index is None else f"tools[{error.index}]"
            code = "invalid_schema" if isinstance(error, SchemaError) else "invalid_tool"
            return refused(code, place, **_place(error))
        case SchemaError():
            place = "response_format" if error.tool is None else "tools"
            return refused("invalid_schema", place, **_place(error))
        case PatternError():
            facts = {"pattern": error.pattern, "pattern_position": error.position}
            return refused("invalid_pattern", "response_format", **facts)
        case GrammarError():
            facts = {"line": error.line, "column": error.column, "rule": error.rule}
            return refused("invalid_grammar", "response_format", **facts)
        case CompileLimitError():
            return refused("constraint_too_complex", "response_format", seconds=error.seconds)
        case GrammarBudgetError():
            return refused("constraint_too_complex", "response_format", steps=error.budget)
        case InvalidResponseFormatError():
            return refused("invalid_response_format", "response_format")
        case InvalidOptionError():
            return refused("invalid_value", error.option)
        case MaxTokensTooSmallError():
            return refused("max_tokens_too_small", "max_tokens", needed_tokens=error.needed)
        case PromptTooLongError():
            return refused("context_length_exceeded", "prompt")
        case PromptError():
            return refused("invalid_prompt", "prompt")
        case ModelNotFoundError():
            return ApiError(404, str(error), code="model_not_found", param="model")
        case ModelError():
            return ApiError(503, str(error), code="model_unavailable", param="model")
        case EngineClosedError():
            return shutting_down()
        case OutputValidationError():
            return ApiError(500, str(error), code="invalid_output")
    return refused("invalid_request", "")


@contextmanager
def naming(names: Mapping[str, str]) -> Iterator[None]:
    """Within, the engine's errors become those of an endpoint."""
    try:
        yield
    except ProxyError as error:
        raise api_error(error, names) from error


def invalid_body(error: RequestValidationError) -> ApiError:
    """What FastAPI found wrong with a request: 400 where it is no JSON, else 422."""
    found = error.errors()
    for item in found:
        if item["type"] == "json_invalid":
            why = item.get("ctx", {}).get("error", "")
            return ApiError(400, f"the body is not JSON: {why}", code="invalid_json")
    said: dict[str, list[str]] = {}
    for item in found[:_MOST_PROBLEMS]:
        said.setdefault(_dotted(item, error.body), []).append(item["msg"])
    # The forms that a field may have each say why they are not meant.
    lines = [
        f"{place}: {', or: '.join(dict.fromkeys(whys))}" if place else ", or: ".join(whys)
        for place, whys in said.items()
    ]
    return ApiError(422, "; ".join(lines), code="invalid_value", param=next(iter(said), "") or None)


def _dotted(problem: Mapping[str, Any], body: Any) -> str:
    """Return the place of a problem in the body; pydantic's also names the forms of a value."""
    text = ""
    location = problem["loc"][1:]
    for index, item in enumerate(location):
        if isinstance(item, int):
            is_there = isinstance(body, list)
            shown = f"[{item}]"
        else:
            is_last = index == len(location) - 1
            is_there = isinstance(body, dict) and (
                item in body or (is_last and problem["type"] == "missing")
            )
            shown = f".{item}" if text else item
        if is_there:
            text += shown
            body = body.get(item) if isinstance(body, dict) else body[item]
    return text


def _place(error: ProxyError) -> dict[str, Any]:
    if not isinstance(error, SchemaError):
        return {}
    return {"schema_pointer": error.pointer, "schema_keyword": error.keyword}
