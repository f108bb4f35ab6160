"""Prompts of an extraction: the instruction, the images and the text of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..checks.texts import short_repr
from ..conversation.content import TextContent
from ..conversation.interaction import Interaction, Role
from ..errors import RecordError
from .inputs import Content

if TYPE_CHECKING:
    from ..conversation.messages import Prompt

Instruction: TypeAlias = str | Callable[[Any], str]
"""The instruction to the model, or a function of the record that returns it."""


def write_prompt(
    instruction: Instruction | None,
    properties: Sequence[str],
    is_json: bool,
    record: Any,
    content: Content,
) -> Prompt:
    """Return the prompt of a record: the images, the instruction and the text.

    Args:
        instruction: The instruction; ``None`` for one that names the properties.
        properties: The names of the answer's properties; empty if answers are no objects.
        is_json: Whether answers are JSON.
        record: The record.
        content: Its content.

    Raises:
        RecordError: The instruction is a function that raises, or returns no text.
    """
    if callable(instruction):
        text = called("instruction", instruction, record)
        if not isinstance(text, str):
            raise RecordError(f"instruction(record) should be a text, not {short_repr(text)}")
    else:
        text = instruction or _default(properties, is_json, content)
    if content.text.strip():
        text = f"{text}\n\n{content.text.strip()}"
    if not content.images:
        return text
    return Interaction(Role.USER, [*content.images, TextContent(text)])


def _default(properties: Sequence[str], is_json: bool, content: Content) -> str:
    images = ("image" if len(content.images) == 1 else "images") if content.images else ""
    source = " and ".join(filter(None, ["text" if content.text.strip() else "", images]))
    these = "these" if source == "images" else "this"
    if properties:
        return f"Extract {', '.join(properties)} from {these} {source} as JSON:"
    return f"Answer{' with JSON' if is_json else ''} about {these} {source}:"


def called(name: str, function: Callable[[Any], Any], record: Any) -> Any:
    """Return ``function(record)``, a function of the caller.

    Raises:
        RecordError: It raised an exception, which is the ``__cause__``.
    """
    try:
        return function(record)
    except Exception as error:
        # The caller's code may raise anything.
        reason = f"{type(error).__name__}: {error}"
        raise RecordError(f"{name}(record) raised {reason}") from error
