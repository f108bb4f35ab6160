"""Many requests at once: what is asked for, and what comes of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .options import OptionOverrides
from .prompts import Prompt
from .results import GenerationResult

__all__ = ["BatchItem", "BatchRequest"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch, where it differs from the others in more than its prompt.

    What is ``None`` here, or not in ``options``, is as the batch has it.
    """

    prompt: Prompt
    response_format: Any = None
    tools: Any = None
    tool_choice: Any = None
    options: OptionOverrides = field(default_factory=OptionOverrides)


@dataclass(frozen=True, slots=True)
class BatchItem(Generic[T]):
    """What came of the request number ``index``, from 0: a result, or else an error."""

    index: int
    result: GenerationResult[T] | None = None
    error: Exception | None = None
