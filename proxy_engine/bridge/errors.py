"""What can be wrong with a line of input.

::

    EngineError
    └── ProtocolError
        ├── MalformedLineError      no JSON object
        ├── LineTooLongError        ``limit``: the most bytes a line may have
        ├── UnknownCommandError     ``cmd``
        ├── InvalidFieldError       ``field``: a JSON Pointer into the command; ``problems``: all
        ├── DuplicateIdError        another request with this id is running
        ├── TooManyRequestsError    ``limit``: the most that may run at a time
        └── NoModelError            ``load`` has not been asked for, or failed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import EngineError

__all__ = [
    "DuplicateIdError",
    "InvalidFieldError",
    "LineTooLongError",
    "MalformedLineError",
    "NoModelError",
    "ProtocolError",
    "TooManyRequestsError",
    "UnknownCommandError",
]


class ProtocolError(EngineError):
    """A line that cannot be carried out; the bridge goes on with the next one."""


class MalformedLineError(ProtocolError):
    """The line is no JSON object in UTF-8."""


class LineTooLongError(ProtocolError):
    """The line has more than ``limit`` bytes. It was not kept, so its ``id`` is not known."""

    def __init__(self, what: str, *, limit: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class UnknownCommandError(ProtocolError):
    """``cmd`` is no command, or missing (``None``)."""

    def __init__(self, what: str, *, cmd: str | None, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.cmd = cmd


class InvalidFieldError(ProtocolError):
    """A field is unknown, missing, or of the wrong type.

    ``field`` is its JSON Pointer (RFC 6901). ``problems`` are all that were found, this one first,
    each with its ``field`` and ``what``.
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
    """Replies to two requests of one id could not be told apart."""


class TooManyRequestsError(ProtocolError):
    """``limit`` requests are running or waiting already."""

    def __init__(self, what: str, *, limit: int, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class NoModelError(ProtocolError):
    """There is no model to generate with."""
