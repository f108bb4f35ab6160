"""The command line's own error."""

from __future__ import annotations

from ..errors import EngineError


class CommandLineError(EngineError):
    """The command line is wrong, or names a missing input; exit status 2."""
