"""The commands of a client as pydantic models, discriminated by ``cmd``, and their parsing.

Values have mlx-lm's meaning: a filter is off where mlx-lm turns it off. Unknown fields are ignored.
A struct of a typed language sends a zero value where a field is not set.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, get_args

import pydantic

from ..checks import problems_in, short_repr
from ..errors import EngineError
from ..options.fields import with_options
from ..options.values import MAX_COUNT

_log = logging.getLogger(__name__)

_MAX_LOGGED_NAMES = 100
_DEFAULT_MAX_TOKENS = 256
_PENALTY_WINDOW = 20
_MESSAGE_KEYS = {
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning",
    "reasoning_content",
}
_IS_OFF: dict[str, Callable[[float], bool]] = {
    "temperature": lambda value: value <= 0,
    "top_p": lambda value: value <= 0 or value >= 1,
    "top_k": lambda value: value <= 0,
    "repeat_penalty": lambda value: value <= 1,
}


class ProtocolError(EngineError):
    """A line that cannot be executed; the bridge continues with the next line."""


class _Command(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class LoadCommand(_Command):
    """Load a model in place of the current one."""

    cmd: Literal["load"]
    path: str
    """A directory or a Hugging Face repo id."""
    tool_format: str | None = None
    """The tool format. Default: detected from the tokenizer."""
    draft_model: str | None = None
    """A directory or a Hugging Face repo id. Default: no draft model."""
    num_draft_tokens: int | None = None
    """Number of tokens that the draft model drafts per forward pass. Default: chosen by the
    acceptance rate."""
    adapter_path: str | None = None
    """Directory of an adapter (LoRA, DoRA or full fine-tune), as `mlx_lm.lora` writes it."""
    revision: str | None = None
    """Branch, tag or commit of the Hugging Face repo `path`. Default: its main branch."""
    trust_remote_code: bool | None = None
    """Whether code of the model's files is run, for its architecture and its tokenizer. Default:
    no."""
    wired_memory: bool | None = None
    """Whether macOS keeps the memory of the device resident while models run. Default: yes."""
    tokenizer_config: dict[str, Any] | None = None
    """Arguments of the tokenizer that replace those of its files, such as `eos_token`."""
    chat_template: str | None = None
    """A chat template in Jinja, or the name of its file. Default: the tokenizer's."""
    allow_image_urls: bool | None = None
    """Whether images at `http` and `https` URLs are fetched, from public addresses. Default: no,
    only `data:` URLs are read."""


@with_options()
class GenerationCommand(_Command):
    """The common fields of `generate` and `chat`: response format, tools, options."""

    response_format: dict[str, Any] | bool | None = None
    """A JSON Schema, or an object with one of the types `json_schema`, `json_object`, `text`,
    `structural_tag` and `grammar`. Default: free text."""
    tools: list[dict[str, Any]] | None = None
    """OpenAI-style tools: `{"type": "function", "function": {…}}`, or of type `custom`."""
    tool_choice: str | dict[str, Any] | None = None
    """`"auto"`, `"required"`, `"none"`, or one tool, by its name or as OpenAI's dict."""


class GenerateCommand(GenerationCommand):
    """Continue a text, which bypasses the chat template."""

    cmd: Literal["generate"]
    prompt: str = ""


class ChatCommand(GenerationCommand):
    """Answer a conversation with a new message."""

    cmd: Literal["chat"]
    messages: list[dict[str, Any]]
    """OpenAI-style messages, or interactions as `Interaction.to_dict` writes them."""


class CancelCommand(_Command):
    """End the generations before it at their next token; each still gets its last reply."""

    cmd: Literal["cancel"]


class InfoCommand(_Command):
    """Report the loaded model."""

    cmd: Literal["info"]


class QuitCommand(_Command):
    """End the bridge once earlier commands are executed."""

    cmd: Literal["quit"]


Command: TypeAlias = (
    LoadCommand | GenerateCommand | ChatCommand | CancelCommand | InfoCommand | QuitCommand
)
"""Any command."""

COMMANDS: dict[str, type[Command]] = {
    get_args(command.model_fields["cmd"].annotation)[0]: command for command in get_args(Command)
}
"""The commands by name."""


def parse_object(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object (RFC 8259), with an optional byte order mark.

    Raises:
        ProtocolError: The line is not UTF-8, not JSON, or not an object.
    """
    try:
        value = json.loads(line.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except ValueError as error:
        raise ProtocolError(f"the line is not JSON in UTF-8: {error}") from error
    except RecursionError as error:
        raise ProtocolError("the line is nested too deeply") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"the line is not a JSON object, but {short_repr(value)}")
    return value


class CommandReader:
    """Reads the commands of a client. Logs each ignored field once."""

    def __init__(self) -> None:
        self._ignored: set[str] = set()

    def read(self, given: dict[str, Any]) -> Command:
        """Return the command of a JSON object.

        Raises:
            ProtocolError: There is no such command, or a known field is missing, of a wrong type,
                or out of range.
        """
        name = given.get("cmd")
        if not isinstance(name, str) or name not in COMMANDS:
            problem = f"there is no command {short_repr(name)}" if name else "'cmd' is missing"
            raise ProtocolError(problem, hint=f"Known are {', '.join(COMMANDS)}.")
        model = COMMANDS[name]
        is_generation = issubclass(model, GenerationCommand)
        known = model.model_fields.keys() - {"continue_final_message"}
        if is_generation:
            known |= {"repeat_penalty"}
        fields = {key: _integral(given[key]) for key in given if key in known}
        self._report_ignored(key for key in given if key not in known)
        fields = {key: value for key, value in fields.items() if value is not None}
        if is_generation:
            fields = _sampling(fields)
        if name == "load":
            fields = {key: value for key, value in fields.items() if value != ""}
        if name == "chat":
            if isinstance(messages := fields.get("messages"), list):
                fields["messages"] = [self._message(message) for message in messages]
            fields["continue_final_message"] = False
        try:
            return model.model_validate(fields)
        except pydantic.ValidationError as error:
            raise _invalid_field(error, fields) from error

    def _message(self, given: Any) -> Any:
        """Return a message without unknown fields and without optional zero values."""
        if not isinstance(given, dict):
            return given
        self._report_ignored(f"messages[].{key}" for key in given if key not in _MESSAGE_KEYS)
        return {
            key: value
            for key, value in given.items()
            if key in ("role", "content") or (value and key in _MESSAGE_KEYS)
        }

    def _report_ignored(self, names: Iterable[str]) -> None:
        for name in names:
            # A client can invent names without bound.
            if name not in self._ignored and len(self._ignored) < _MAX_LOGGED_NAMES:
                self._ignored.add(name)
                _log.warning("the field %.80r is ignored", name)


def _sampling(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a generation with mlx-lm's defaults, without filters that are off."""
    given = {"max_tokens": _DEFAULT_MAX_TOKENS} | fields
    for name, is_off in _IS_OFF.items():
        if _is_number(given.get(name)) and is_off(given[name]):
            del given[name]
    if _is_number(given["max_tokens"]) and given["max_tokens"] < 0:
        given["max_tokens"] = MAX_COUNT
    if "repeat_penalty" in given:
        penalty = given.pop("repeat_penalty")
        given = {"repetition_penalty": penalty, "repetition_context_size": _PENALTY_WINDOW} | given
    return {"temperature": 0} | given


def _invalid_field(error: pydantic.ValidationError, given: dict[str, Any]) -> ProtocolError:
    first, *others = problems_in(error, given)
    more = f", and {len(others)} more" if others else ""
    location = ".".join(map(str, first.location))
    return ProtocolError(f"{location} {first.what} (at {first.pointer}){more}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _integral(value: Any) -> Any:
    """Return ``256`` for ``256.0``, which some encoders write for integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
