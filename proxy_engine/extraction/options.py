"""The keyword arguments of an extraction."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..options.overrides import OptionOverrides
from .details import DetailColumns
from .progress import Progress
from .records import Field, Instruction

DEFAULTS: Mapping[str, Any] = {
    "text": "text",
    "prefix": "",
    "columns": (),
    "quotes": False,
    "resume": False,
}
"""The defaults of arguments that are not ``None``, besides those of requests."""


class ExtractionArguments(OptionOverrides, total=False):
    """The keyword arguments of an extraction, which ``InferenceEngine.extract`` describes."""

    text: Field
    image: Field | None
    instruction: Instruction | None
    prefix: str
    columns: Sequence[DetailColumns]
    quotes: bool
    chunk_tokens: int | None
    chunk_overlap: int | None
    output: str | os.PathLike[str] | None
    resume: bool
    progress: Progress
