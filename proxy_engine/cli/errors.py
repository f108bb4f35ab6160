"""The command line's own error."""

from __future__ import annotations

from ..errors import EngineError

__all__ = ["CommandLineError"]


class CommandLineError(EngineError):
    """The command line asks for what cannot be done; exit status 2."""
