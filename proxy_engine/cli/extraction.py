"""What is to be done with each text: told once, by the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..options import OptionOverrides

__all__ = ["Extraction", "default_instruction", "text_of"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """The schema, the instruction to the model, and the options of every request."""

    schema: Any
    instruction: str
    overrides: OptionOverrides

    def prompt(self, text: str) -> str:
        """What the model is asked about a text. Raises ``ValueError`` where there is no text."""
        if not text.strip():
            raise ValueError("the text is empty")
        return f"{self.instruction}\n\n{text.strip()}"


def default_instruction(schema: Any) -> str:
    """What a model is told where nobody says."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return "Answer with JSON about this text:"
    return f"Extract {', '.join(properties)} from this text as JSON:"


def text_of(line: bytes) -> str:
    """The text that a line of JSON Lines holds. Raises ``ValueError``."""
    try:
        value = json.loads(line.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    match value:
        case str(text) | {"text": str(text)}:
            # JSON can spell half a surrogate pair, which is no text that a model could read.
            text.encode("utf-8")
            return text
    raise ValueError('neither a JSON string nor an object with a "text"')
