"""The commands of a client as pydantic models, discriminated by ``cmd``, and their parsing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Literal, TypeAlias

import pydantic

from ..checks.problems import problems_in, suggestion
from ..options.fields import with_options
from .errors import InvalidFieldError, MalformedLineError, UnknownCommandError

_MAX_SHOWN = 80

RequestId: TypeAlias = Annotated[str, pydantic.Field(max_length=256)] | int | None
"""A client's identifier of a request, which its replies repeat; ``None`` if it gave none."""

_REQUEST_ID: pydantic.TypeAdapter[RequestId] = pydantic.TypeAdapter(
    RequestId, config=pydantic.ConfigDict(strict=True)
)

EventName: TypeAlias = Literal[
    "token",
    "prompt_progress",
    "text_delta",
    "reasoning_delta",
    "tool_call_started",
    "tool_call_delta",
    "tool_input_delta",
    "tool_call_finished",
    "partial_value",
]
"""The events of a stream that a client may request."""


class _Command(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    id: RequestId = None
    """Repeated in the replies. Requests that run at the same time need different ids."""


class LoadCommand(_Command):
    """Load a model in place of the current one.

    Earlier requests finish first; later requests wait for the new model.
    """

    cmd: Literal["load"]
    path: str | None = None
    """A directory or a Hugging Face repo id. Default: the embedded model."""
    tool_format: str | None = None
    """The tool format. Default: detected from the tokenizer."""
    batch_size: int | None = None
    """Maximum number of generations in a batch."""
    draft_model: str | None = None
    """A directory or a Hugging Face repo id. Default: no draft model."""
    num_draft_tokens: int | None = None
    """Number of tokens that the draft model drafts per forward pass. Default: chosen by the
    acceptance rate."""
    adapter_path: str | None = None
    """Directory of an adapter (LoRA, DoRA or full fine-tune), as `mlx_lm.lora` writes it. Default:
    no adapter."""
    revision: str | None = None
    """Branch, tag or commit of the Hugging Face repo `path`. Default: its main branch."""
    trust_remote_code: bool | None = None
    """Whether code of the model's files is run, for its architecture and its tokenizer. Default:
    no."""
    tokenizer_config: dict[str, Any] | None = None
    """Arguments of the tokenizer that replace those of its files, such as `eos_token`."""
    chat_template: str | None = None
    """A chat template in Jinja, or the name of its file. Default: the tokenizer's."""
    allow_image_urls: bool | None = None
    """Whether images at `http` and `https` URLs are fetched, from public addresses. Default: no,
    only `data:` URLs are read."""


@with_options()
class GenerationCommand(_Command):
    """The common fields of `generate` and `chat`: response format, tools, events, options."""

    response_format: dict[str, Any] | bool | None = None
    """A JSON Schema, or an object with one of the types `json_schema`, `json_object`, `text`,
    `structural_tag` and `grammar`. Default: free text."""
    tools: list[dict[str, Any]] | None = None
    """OpenAI-style tools: `{"type": "function", "function": {…}}`, or of type `custom`."""
    tool_choice: str | dict[str, Any] | None = None
    """`"auto"`, `"required"`, `"none"`, or one tool, by its name or as OpenAI's dict."""
    events: list[EventName] | None = None
    """The events sent before the result. Default: `token`."""


class GenerateCommand(GenerationCommand):
    """Answer a prompt."""

    cmd: Literal["generate"]
    prompt: str | list[int]
    """The user's message; or a prompt that bypasses the chat template, as text or token ids."""
    raw: bool | None = None
    """Whether a text bypasses the chat template. Default: it becomes one message of the user.
    Token ids always bypass it."""


class ChatCommand(GenerationCommand):
    """Answer a conversation."""

    cmd: Literal["chat"]
    messages: list[dict[str, Any]]
    """OpenAI-style messages, or interactions as `Interaction.to_dict` writes them."""


class CancelCommand(_Command):
    """End a request at its next token; it still gets its last reply."""

    cmd: Literal["cancel"]
    target: RequestId = None
    """The request's `id`. Default: the `id` of this command; without either, all requests."""


class InfoCommand(_Command):
    """Report the loaded model and the running requests."""

    cmd: Literal["info"]


class QuitCommand(_Command):
    """End the bridge; its reply is the last line. Later input is not read."""

    cmd: Literal["quit"]
    wait: bool | None = None
    """Whether running requests are finished. Default: they are cancelled."""


Command: TypeAlias = (
    LoadCommand | GenerateCommand | ChatCommand | CancelCommand | InfoCommand | QuitCommand
)
"""Any command."""

COMMANDS: dict[str, type[Command]] = {
    "load": LoadCommand,
    "generate": GenerateCommand,
    "chat": ChatCommand,
    "cancel": CancelCommand,
    "info": InfoCommand,
    "quit": QuitCommand,
}
"""The commands by name."""


def parse_object(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object (RFC 8259), with an optional byte order mark.

    Raises:
        MalformedLineError: The line is not UTF-8 or not JSON, contains ``NaN`` or an object with
            duplicate names, or is not an object.
    """
    try:
        value = json.loads(
            line.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_distinct_names,
        )
    except UnicodeDecodeError as error:
        raise MalformedLineError(f"the line is not UTF-8: {error}") from error
    except ValueError as error:
        raise MalformedLineError(f"the line is not JSON: {error}") from error
    except RecursionError as error:
        raise MalformedLineError("the line is nested too deeply") from error
    if not isinstance(value, dict):
        raise MalformedLineError(
            f"the line is not a JSON object, but {_shown(value)}",
            hint='A command is {"cmd": …, "id": …}.',
        )
    return value


def id_of(given: dict[str, Any]) -> RequestId:
    """Return the ``id`` for the replies to a command; ``None`` if it is invalid or missing."""
    try:
        return _REQUEST_ID.validate_python(given.get("id"))
    except pydantic.ValidationError:
        return None


def parse_command(given: dict[str, Any]) -> Command:
    """Return a command from its JSON object.

    Raises:
        UnknownCommandError: There is no such command.
        InvalidFieldError: A field is unknown, missing, of a wrong type, or out of range.
    """
    cmd = given.get("cmd")
    if not isinstance(cmd, str):
        raise UnknownCommandError(
            "'cmd' is missing" if cmd is None else f"'cmd' is not a string: {_shown(cmd)}",
            cmd=None,
            hint=f"Known are {', '.join(COMMANDS)}.",
        )
    if cmd not in COMMANDS:
        raise UnknownCommandError(
            f"there is no command {_shown(cmd)}",
            cmd=cmd[:_MAX_SHOWN],
            hint=suggestion(cmd, COMMANDS),
        )
    model = COMMANDS[cmd]
    try:
        return model.model_validate(given)
    except pydantic.ValidationError as error:
        raise _invalid_field(error, given, model) from error


def _invalid_field(
    error: pydantic.ValidationError, given: dict[str, Any], model: type[pydantic.BaseModel]
) -> InvalidFieldError:
    found = problems_in(error, given)
    unknown = [
        problem.location[0]
        for problem in found
        if problem.kind == "extra_forbidden" and len(problem.location) == 1
    ]
    hint = suggestion(str(unknown[0]), model.model_fields) if unknown else ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return InvalidFieldError(
        f"{'.'.join(map(str, found[0].location))} {found[0].what}{more}",
        field=found[0].pointer,
        problems=[{"field": problem.pointer, "what": problem.what} for problem in found],
        hint=hint,
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        duplicate = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the name {_shown(duplicate)} twice")
    return made
