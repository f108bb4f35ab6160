"""Prompts of an extraction: the instruction, the images and the text of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..checks.texts import short_repr
from ..errors import RecordError
from .inputs import Content

if TYPE_CHECKING:
    from ..conversation.messages import Prompt

Instruction: TypeAlias = str | Callable[[Any], str]
"""The instruction to the model, or a function of the record that returns it."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Writes the prompt of a record.

    Attributes:
        instruction: The instruction; ``None`` for one that names the properties.
        properties: The names of the answer's properties; empty if answers are no objects.
        is_json: Whether answers are JSON.
    """

    instruction: Instruction | None = None
    properties: Sequence[str] = ()
    is_json: bool = True

    def write(self, record: Any, content: Content) -> Prompt:
        """Return the prompt: the images, the instruction and the text.

        Raises:
            RecordError: The instruction is a function that raises, or returns no text.
        """
        # Deferred: `--help` of the command line need not wait for it.
        from ..conversation.content import TextContent  # noqa: PLC0415
        from ..conversation.interaction import Interaction, Role  # noqa: PLC0415

        text = self._instruction(record, content)
        if content.text.strip():
            text = f"{text}\n\n{content.text.strip()}"
        if not content.images:
            return text
        return Interaction(Role.USER, [*content.images, TextContent(text)])

    def _instruction(self, record: Any, content: Content) -> str:
        if not callable(self.instruction):
            return self.instruction or self._default(content)
        instruction = called("instruction", self.instruction, record)
        if not isinstance(instruction, str):
            given = short_repr(instruction)
            raise RecordError(f"instruction(record) should be a text, not {given}")
        return instruction

    def _default(self, content: Content) -> str:
        images = ("image" if len(content.images) == 1 else "images") if content.images else ""
        source = " and ".join(filter(None, ["text" if content.text.strip() else "", images]))
        these = "these" if source == "images" else "this"
        if self.properties:
            return f"Extract {', '.join(self.properties)} from {these} {source} as JSON:"
        return f"Answer{' with JSON' if self.is_json else ''} about {these} {source}:"


def called(name: str, function: Callable[[Any], Any], record: Any) -> Any:
    """Return ``function(record)``, a function of the caller.

    Raises:
        RecordError: It raised an exception, which is the ``__cause__``.
    """
    try:
        return function(record)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise RecordError(f"{name}(record) raised {reason}") from error
