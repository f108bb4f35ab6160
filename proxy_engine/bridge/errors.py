"""Errors of lines of input.

::

    EngineError
    └── ProtocolError
        ├── MalformedLineError      the line is not a JSON object
        ├── LineTooLongError        ``limit``: the maximum length in bytes
        ├── UnknownCommandError     ``cmd``
        ├── InvalidFieldError       ``field``: a JSON Pointer into the command; ``problems``: all
        ├── DuplicateIdError        another request with this id is running
        ├── TooManyRequestsError    ``limit``: the maximum number of running requests
        └── NoModelError            no model was loaded, or loading failed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import EngineError


class ProtocolError(EngineError):
    """A line that cannot be executed; the bridge continues with the next line."""


class MalformedLineError(ProtocolError):
    """The line is not a JSON object in UTF-8."""


class LineTooLongError(ProtocolError):
    """The line has more than ``limit`` bytes. It is discarded, so its ``id`` is unknown."""

    def __init__(self, what: str, *, limit: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class UnknownCommandError(ProtocolError):
    """``cmd`` is not a command, or missing (``None``)."""

    def __init__(self, what: str, *, cmd: str | None, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.cmd = cmd


class InvalidFieldError(ProtocolError):
    """A field is unknown, missing, of a wrong type, or out of range.

    Attributes:
        field: Its JSON Pointer (RFC 6901).
        problems: All problems of the command, this one first, each with ``field`` and ``what``.
    """

    def __init__(
        self,
        what: str,
        *,
        field: str,
        problems: Sequence[Mapping[str, str]] = (),
        hint: str = "",
    ) -> None:
        super().__init__(what, hint=hint)
        self.field = field
        self.problems = [dict(problem) for problem in problems]

    def _where(self) -> str:
        return f" (at {self.field})"


class DuplicateIdError(ProtocolError):
    """A request with the same id is running; replies to both would be indistinguishable."""


class TooManyRequestsError(ProtocolError):
    """``limit`` requests are running or waiting."""

    def __init__(self, what: str, *, limit: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class NoModelError(ProtocolError):
    """No model is loaded."""
