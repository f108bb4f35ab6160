"""The command line's own errors."""

from __future__ import annotations

from ..errors import EngineError


class CommandLineError(EngineError):
    """The command line is wrong, or names a missing input; exit status 2."""


class OutputFileError(EngineError):
    """A file or standard output cannot be written, for example on a full disk; exit status 1."""
