"""What a client may ask for: one pydantic model a command, told apart by ``cmd``.

Types are checked here, and that no field is unknown; ranges are checked by the engine. A field
that is ``null`` is as if it were not there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic

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
    "PartFields",
    "QuitCommand",
    "RequestId",
    "SamplingFields",
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

_TokenBiases: TypeAlias = dict[Annotated[str, pydantic.Field(pattern="^[0-9]{1,10}$")], float]


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


class SamplingFields(_Fields):
    """How tokens are chosen; what is not there is off."""

    temperature: float | None = None
    """0 takes the likeliest token each time."""
    top_p: float | None = None
    """Keep the fewest most likely tokens whose probability reaches it."""
    top_k: int | None = None
    """Keep so many most likely tokens; 0 is off."""
    min_p: float | None = None
    """Keep tokens at least this likely relative to the likeliest."""
    min_tokens_to_keep: int | None = None
    """The likeliest tokens that `min_p` never drops."""
    repetition_penalty: float | None = None
    """Divides positive and multiplies negative logits of tokens in the window; 1 is off."""
    presence_penalty: float | None = None
    """Subtracted from the logits of tokens of the answer in the window."""
    frequency_penalty: float | None = None
    """Subtracted from the logits of tokens of the answer in the window, once per occurrence."""
    penalty_window: int | None = None
    """The number of latest tokens that penalties look at."""
    logit_bias: _TokenBiases | None = None
    """Numbers that are added to logits, by token id (as a string of digits)."""
    seed: int | None = None
    """The same seed draws the same tokens."""


class PartFields(_Fields):
    """What is different while one kind of sub-state is written."""

    sampling: SamplingFields | None = None
    """In place of the request's."""
    max_tokens: int | None = None
    """How many tokens are written in a row."""


class ReasoningFields(_Fields):
    """What a model thinks before it answers."""

    is_required: bool | None = None
    """It must; otherwise it may."""
    min_chars: int | None = None
    """The minimum number of characters."""
    max_chars: int | None = None
    """The maximum number of characters."""
    begin: str | None = None
    """The marker before it; the model's own where both are missing."""
    end: str | None = None
    """The marker after it."""


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


class GenerationCommand(_Command, SamplingFields):
    """What `generate` and `chat` share: the format of the answer, tools, and options."""

    response_format: dict[str, Any] | bool | None = None
    """A JSON Schema, or OpenAI's `{"type": "json_schema", …}`; free text where it is missing."""
    tools: list[dict[str, Any]] | None = None
    """OpenAI-style tools: `{"type": "function", "function": {…}}`."""
    tool_choice: str | dict[str, Any] | None = None
    """`"auto"`, `"required"`, `"none"`, or one tool, by its name or as OpenAI's dict."""
    events: list[EventName] | None = None
    """What is told before the result: only tokens where it is missing."""
    max_tokens: int | None = None
    """The most tokens to generate; the answer is complete within them."""
    min_tokens: int | None = None
    """The least tokens to generate, where the answer allows that many."""
    soft_max_tokens: int | None = None
    """From so many tokens on, an end is made more and more likely."""
    max_seconds: float | None = None
    """The most seconds; as they run out, the answer is completed briefly."""
    stop: str | list[str] | None = None
    """Strings that end free text, and are no part of it. Refused where an answer has none."""
    prefill_step_size: int | None = None
    """Prompt tokens a forward pass."""
    sampling: SamplingFields | None = None
    """All about sampling in one object; fields beside it override it."""
    parts: dict[str, PartFields] | None = None
    """What is different in `text`, `reasoning`, `structured` or `tool_call`."""
    reasoning: bool | ReasoningFields | None = None
    """Whether the model thinks before it answers."""
    parallel_tool_calls: bool | None = None
    """Whether an answer may have several calls."""
    max_tool_calls: int | None = None
    """The most calls of an answer."""
    fast_forward: bool | None = None
    """Whether text that must come next is run without sampling it."""
    logprobs: int | None = None
    """Tell the probability of each token, and of so many that were likeliest in its place."""
    trace: bool | None = None
    """Tell what the loop did when."""


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
