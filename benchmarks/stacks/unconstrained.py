"""mlx-lm's ``stream_generate`` without a constraint."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from time import perf_counter

from stacks.base import Request, Setting, Written
from stacks.streaming import first_of, responses, written_by

__all__ = ["make_stack"]


class _Unconstrained:
    def __init__(self, setting: Setting) -> None:
        self.version = version("mlx-lm")
        self._setting = setting

    def write(self, request: Request) -> Written:
        started = perf_counter()
        return written_by(request, responses(self._setting, request), started)

    def first_token(self, request: Request) -> float:
        started = perf_counter()
        return first_of(responses(self._setting, request), started)

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        return True

    def forget(self) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to free."""


def make_stack(setting: Setting) -> _Unconstrained:
    """Set up the stack."""
    return _Unconstrained(setting)
