"""Fields of requests that other servers read, and their effect here. The tests send each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["COMMAND_LINE", "FIELDS", "Field", "Outcome"]

Outcome = Literal["honoured", "no effect", "ignored", "refused"]
"""The effect of a field.

``honoured``: it has its effect. ``no effect``: it is accepted, since it changes no answer.
``ignored``: accepted, and listed in the header ``X-Ignored-Fields``. ``refused``: status 400, and the
error names the field.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of another server.

    Attributes:
        server: The server that reads it.
        name: Its name; a dot separates the members of objects.
        sample: A value that the other server accepts, and that asks for something.
        outcome: Its effect here.
        note: The effect, or the reason.
    """

    server: str
    name: str
    sample: Any
    outcome: Outcome
    note: str = ""


MLX_LM = "mlx_lm.server"

_TABLES: dict[str, Any] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)

FIELDS: tuple[Field, ...] = tuple(Field(*row) for row in _TABLES["fields"])

COMMAND_LINE: dict[str, str] = _TABLES["command line"]
"""The flags of ``mlx_lm.server``, and those of ``proxy-engine serve`` that replace them."""
