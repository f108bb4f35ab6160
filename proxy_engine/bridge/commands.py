"""What a client may ask for: one pydantic model a command, told apart by ``cmd``.

Types are checked here, and that no field is unknown; ranges are checked by the engine. A field
that is ``null`` is as if it were not there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic

from ..option_fields import with_options

__all__ = [
    "COMMANDS",
    "CancelCommand",
    "ChatCommand",
    "Command",
    "EventName",
    "GenerateCommand",
    "GenerationCommand",
    "InfoCommand",
    "LoadCommand",
    "QuitCommand",
    "RequestId",
]

RequestId: TypeAlias = Annotated[str, pydantic.Field(max_length=256)] | int | None
"""A client's name for a request; replies carry it. ``None`` where it gave none."""

EventName: TypeAlias = Literal[
    "token",
    "prompt_progress",
    "text_delta",
    "reasoning_delta",
    "tool_call_started",
    "tool_call_delta",
    "tool_call_finished",
    "partial_value",
]
"""The events of a stream that a client may ask to be told."""


class _Fields(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    def given(self) -> dict[str, Any]:
        """The fields that are there, by name."""
        return {
            name: value
            for name, value in self
            if name in self.model_fields_set and value is not None
        }


class _Command(_Fields):
    id: RequestId = None
    """Replies carry it. Requests that run at the same time need different ones."""


class LoadCommand(_Command):
    """Load a model, in place of the one that is loaded.

    Requests before it are finished first; requests after it wait for it.
    """

    cmd: Literal["load"]
    path: str | None = None
    """A directory or a hub id; the embedded model where it is missing."""
    tool_format: str | None = None
    """The family in whose way the model writes tool calls, where its tokenizer does not tell."""
    batch_size: int | None = None
    """The most generations that run together."""


@with_options()
class GenerationCommand(_Command):
    """What `generate` and `chat` share: the format of the answer, tools, and options."""

    response_format: dict[str, Any] | bool | None = None
    """A JSON Schema, or OpenAI's `{"type": "json_schema", …}`; free text where it is missing."""
    tools: list[dict[str, Any]] | None = None
    """OpenAI-style tools: `{"type": "function", "function": {…}}`."""
    tool_choice: str | dict[str, Any] | None = None
    """`"auto"`, `"required"`, `"none"`, or one tool, by its name or as OpenAI's dict."""
    events: list[EventName] | None = None
    """What is told before the result: only tokens where it is missing."""


class GenerateCommand(GenerationCommand):
    """Answer a prompt, as one message of a user's."""

    cmd: Literal["generate"]
    prompt: str
    """What the user says."""


class ChatCommand(GenerationCommand):
    """Answer a conversation."""

    cmd: Literal["chat"]
    messages: list[dict[str, Any]]
    """OpenAI-style messages, or interactions as `Interaction.to_dict` writes them."""


class CancelCommand(_Command):
    """End a request at its next token; it still gets its last reply."""

    cmd: Literal["cancel"]
    target: RequestId = None
    """The request's `id`. Where it is missing, the command's own is; without both, all."""


class InfoCommand(_Command):
    """Ask what is loaded, and what runs."""

    cmd: Literal["info"]


class QuitCommand(_Command):
    """End the bridge; its reply is the last line. What comes after it is not read."""

    cmd: Literal["quit"]
    wait: bool | None = None
    """Finish what runs; otherwise it is cancelled."""


Command: TypeAlias = Annotated[
    LoadCommand | GenerateCommand | ChatCommand | CancelCommand | InfoCommand | QuitCommand,
    pydantic.Field(discriminator="cmd"),
]
"""Any command."""


COMMANDS: dict[
    str,
    type[LoadCommand | GenerateCommand | ChatCommand | CancelCommand | InfoCommand | QuitCommand],
] = {
    "load": LoadCommand,
    "generate": GenerateCommand,
    "chat": ChatCommand,
    "cancel": CancelCommand,
    "info": InfoCommand,
    "quit": QuitCommand,
}
"""Every command by its name."""
