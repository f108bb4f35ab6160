"""The policy for fields of requests that the server does not know.

Clients of other servers send fields of these servers. A field that could constrain the answer is
refused: an answer that violates the constraint would be wrong without notice. All others are
ignored, and listed in a header of the response and in the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from fastapi import Request

from ..checks import suggestion
from ..options.generation import FORMER_OPTIONS
from .errors import ApiError
from .schemas import RequestModel

Policy: TypeAlias = Literal["ignore", "reject"]

HEADER = "X-Ignored-Fields"
"""The response header that lists the ignored fields, separated by commas."""

TOOLS_HEADER = "X-Ignored-Tools"
"""The response header that lists tools which are left out: ``name;reason="…"``, by commas."""

# A name that contains one of these could constrain the answer, or ask for a call.
_CONSTRAINT = re.compile(
    "allowed|bad_words|choice|constrain|ebnf|format|function|grammar|guided|json|lark|pattern|regex"
    "|schema|structur|tool",
    re.IGNORECASE,
)
# These choose a library, or the form in which an answer is sent.
_HARMLESS = ("guided_decoding_backend", "parse_tool_calls", "reasoning_format", "tool_stream")
# Names for the response format that are too far from ours for a spelling distance.
_FORMATS = {"format", "output_format", "response_format", "responseformat", "text.format"}
# Fields that ask for something that is missing here, or has another name, with a hint.
_REFUSED = {
    **FORMER_OPTIONS,
    **dict.fromkeys(("lora", "lora_path"), "The field 'adapters' has the name of an adapter."),
    "functions": "The field 'tools' has functions.",
    "function_call": "The field 'tool_choice' names a function, 'tool_calls' are calls.",
    "conversation": "The field 'previous_response_id' continues a response.",
    "prompt": "There are no stored prompts.",
}
# A client can invent names without bound. Each is searched for words.
_MAX_UNKNOWN = 1000
_MAX_LISTED = 32
_MAX_NAME = 80
_MAX_REASON = 200
_MAX_LOGGED = 1000

_logger = logging.getLogger(__name__)


class UnknownFields:
    """Applies the policy to requests. Used on the thread of the event loop.

    Args:
        policy: ``"ignore"``, or ``"reject"`` to refuse every unknown field.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._logged: set[str] = set()

    def check(self, request: Request, body: RequestModel) -> None:
        """Refuse a request that has unknown constraints, or list its ignored fields.

        The list becomes the header :data:`HEADER` of the response. The log has each name once.

        Args:
            request: The request.
            body: Its body.

        Raises:
            ApiError: A field could constrain the answer, or there are too many unknown fields, or
                any if the policy is ``"reject"``.
        """
        unknown = dict(body.unknown_fields())
        if len(unknown) > _MAX_UNKNOWN:
            raise ApiError(
                400,
                f"the body has {len(unknown):,} unknown fields; the maximum is {_MAX_UNKNOWN:,}",
                code="too_many",
            )
        if unknown and self._policy == "reject":
            raise _rejected([*unknown], _names(body))
        for path, value in unknown.items():
            _refuse_constraint(path, value, body)
        ignored = [*dict.fromkeys((*unknown, *body.ineffective_fields()))]
        if ignored:
            request.state.ignored_fields = _listed(ignored)
            self._log(ignored, request.url.path)

    def list_tools(self, request: Request, left_out: Mapping[str, str]) -> None:
        """List tools that are left out, with the reasons by name.

        The list becomes the header :data:`TOOLS_HEADER` of the response. The log has each tool and
        reason once.
        """
        if not left_out:
            return
        names = _listed([*left_out]).split(", ")
        reasons = [f';reason="{_quoted(reason)}"' for reason in left_out.values()]
        reasons += [""] * (len(names) - len(reasons))
        listed = zip(names, reasons[: len(names)], strict=True)
        request.state.ignored_tools = ", ".join(f"{name}{reason}" for name, reason in listed)
        for name, reason in left_out.items():
            key = f"{name[:_MAX_NAME]}: {reason[:_MAX_REASON]}"
            if key not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add(key)
                fields = {"tool": name[:_MAX_NAME], "reason": reason, "path": request.url.path}
                _logger.warning("left out a tool", extra={"fields": fields})

    def _log(self, ignored: Iterable[str], path: str) -> None:
        for name in (name[:_MAX_NAME] for name in ignored):
            if name not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add(name)
                fields = {"field": name, "path": path}
                _logger.warning("ignored field", extra={"fields": fields})


def _refuse_constraint(path: str, value: Any, body: RequestModel) -> None:
    """Raise ``ApiError`` if the field, or a member of its value, could constrain the answer."""
    # `false` and empty values ask for nothing.
    if value in (False, "", [], {}):
        return
    hint = _REFUSED.get(path.rpartition(".")[2])
    if hint is not None:
        raise _unsupported(path, hint)
    members = [f"{path}.{member}" for member in value] if isinstance(value, Mapping) else []
    name = next(filter(is_constraint, (path, *members)), None)
    # Fields of messages describe history.
    if name is not None and "[]" not in path:
        raise _unsupported(name, _hint(name, [*filter(is_constraint, _names(body))]))


def _unsupported(name: str, hint: str) -> ApiError:
    shown = name[:_MAX_NAME]
    return ApiError(
        400,
        f"{shown} is not supported, and ignoring it could change the answer. {hint}",
        code="unsupported_parameter",
        param=shown,
    )


def is_constraint(name: str) -> bool:
    """Return whether a field of this name could constrain the answer."""
    return _CONSTRAINT.search(name) is not None and name not in _HARMLESS


def _rejected(unknown: list[str], known: list[str]) -> ApiError:
    shown = [name[:_MAX_NAME] for name in unknown[:_MAX_LISTED]]
    message = "; ".join(f"{name} is unknown" for name in shown)
    hint = _REFUSED.get(unknown[0]) or suggestion(unknown[0], known)
    return ApiError(400, f"{message}. {hint}", code="unknown_parameter", param=shown[0])


def _hint(name: str, known: list[str]) -> str:
    if name.startswith("extra_body."):
        return "Clients add the members of extra_body to the body itself."
    if name.lower() in _FORMATS:
        shown = "response_format" if "response_format" in known else "text.format"
        return f"Did you mean {shown!r}?"
    return suggestion(name, known)


def _names(body: RequestModel) -> list[str]:
    return [field.alias or name for name, field in type(body).model_fields.items()]


def _listed(names: list[str]) -> str:
    """Return names as the value of a header: in ASCII, and of bounded length."""
    # A header cannot begin or end with a space, so an empty name is written with quotes.
    shown = [
        quote(name[:_MAX_NAME], "[].-_$", errors="replace") or '""' for name in names[:_MAX_LISTED]
    ]
    return ", ".join(shown if len(names) <= _MAX_LISTED else [*shown, "..."])


def _quoted(reason: str) -> str:
    """Return a text as the content of a quoted string of a header: ASCII, of bounded length."""
    text = " ".join(reason.split())[:_MAX_REASON].encode("ascii", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"')
