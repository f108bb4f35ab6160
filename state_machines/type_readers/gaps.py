"""Gaps: requirements of a type that masks do not guarantee, such as a validator in Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """A requirement of a type that an answer under its masks may violate.

    Attributes:
        pointer: JSON Pointer (RFC 6901) into the schema of the type.
        reason: The requirement.
    """

    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"#{self.pointer}: {self.reason}"
