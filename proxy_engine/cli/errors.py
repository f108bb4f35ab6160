"""The command line's own errors."""

from __future__ import annotations

from ..errors import EngineError

__all__ = ["CommandLineError", "OutputFileError"]


class CommandLineError(EngineError):
    """The command line asks for what cannot be done; exit status 2."""


class OutputFileError(EngineError):
    """A file or standard output takes no more, on a full disk for example; exit status 1."""
