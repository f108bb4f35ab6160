"""Types of the arguments of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .option_overrides import OptionOverrides


class RequestArguments(OptionOverrides, total=False):
    """The keyword arguments of a request besides its response format: tools and options.

    Attributes:
        tools: OpenAI-style dicts, pydantic models, dataclasses, functions, or ``Tool``s.
        tool_choice: ``"auto"`` (default), ``"required"``, ``"none"``, or the name of a tool.
    """

    tools: Iterable[Any] | None
    tool_choice: Any
