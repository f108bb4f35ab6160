"""A model's tool format and reasoning markers: the first source that has them.

1. the caller's option,
2. ``response_template`` of the tokenizer, compiled and verified (:mod:`.response_templates`),
3. the table of families, by the signs of the vocabulary and the chat template,
4. mlx-lm's parser for the tokenizer,
5. the calls that the chat template writes,
6. ``hermes``, with tools in plain text.

A source that fails is left out with a warning, and :attr:`DetectedFormat.refused` says why.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from state_machines.errors import CompositionError, ProxyError
from state_machines.tool_calls import FORMATS, Delimiters, Sign, ToolFormat, format_named
from state_machines.tool_calls.derived_templates import template_of_schema
from state_machines.tool_calls.pair_families import hunyuan_tags

from ..checks import short_repr
from ..errors import InvalidOptionError
from .chat_template import chat_template
from .control_tokens import template_text
from .response_templates import verified_format, written_format

if TYPE_CHECKING:
    # Calls can be read without MLX.
    from mlx_lm.tokenizer_utils import TokenizerWrapper

Source: TypeAlias = Literal[
    "option", "response_template", "families", "mlx_lm", "chat_template", "default"
]

DEFAULT_FORMAT = "hermes"
"""The format of unknown models."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DetectedFormat:
    """How a model writes tool calls and reasoning.

    Attributes:
        format: The format of its tool calls.
        reasoning: The markers around its reasoning; ``None`` if it does not reason.
        source: How they are known.
        refused: Why earlier sources were not used, by source.
        is_native: Whether the chat template describes tools and writes calls in this format.
            Otherwise the prompt does, in plain text.
    """

    format: ToolFormat
    reasoning: Delimiters | None
    source: Source
    refused: Mapping[Source, str]
    is_native: bool


def detect(tokenizer: TokenizerWrapper) -> DetectedFormat:
    """Return the tool format of a model, without an option of the caller."""
    refused: dict[Source, str] = {}
    for source, find in _SOURCES.items():
        try:
            found = find(tokenizer)
        except ProxyError as error:
            refused[source] = str(error)
            _log.warning("the source %r of the tool format is not used: %s", source, error)
            continue
        if found is not None:
            is_described = source == "response_template"
            reasoning = found.reasoning if is_described else reasoning_of(tokenizer, found)
            return DetectedFormat(found, reasoning, source, refused, is_native=True)
    default = FORMATS[DEFAULT_FORMAT]
    is_native = _template_agrees(tokenizer, default)
    reasoning = reasoning_of(tokenizer, default)
    return DetectedFormat(default, reasoning, "default", refused, is_native)


def chosen(
    tokenizer: TokenizerWrapper, detected: DetectedFormat, option: str | ToolFormat | None
) -> DetectedFormat:
    """Return the format that an option selects, or else the detected one.

    Args:
        tokenizer: The model's tokenizer.
        detected: The model's own format.
        option: A format, or the name of one in :data:`state_machines.tool_calls.FORMATS`.

    Raises:
        InvalidOptionError: The name is unknown.
    """
    if option is None:
        return detected
    if not isinstance(option, ToolFormat):
        option = _named(tokenizer, option)
    if option == detected.format:
        return detected
    reasoning = reasoning_of(tokenizer, option)
    if detected.source == "response_template":
        reasoning = reasoning or detected.reasoning
    return DetectedFormat(option, reasoning, "option", {}, is_native=False)


def _named(tokenizer: TokenizerWrapper, name: Any) -> ToolFormat:
    if not isinstance(name, str):
        raise InvalidOptionError(
            f"tool_format should be a ToolFormat or its name, not {short_repr(name)}",
            option="tool_format",
        )
    try:
        named = format_named(name)
    except CompositionError as error:
        raise InvalidOptionError(error.what, option="tool_format", hint=error.hint) from error
    tags = _hunyuan_tags(tokenizer)
    return tags if tags is not None and tags.name == named.name else named


def _from_response_template(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    template = getattr(tokenizer, "response_template", None)
    if template is None:
        # transformers 5.13 and later read it no more.
        settings: Mapping[str, Any] = getattr(tokenizer, "init_kwargs", {})
        schema = settings.get("response_schema")
        template = None if schema is None else template_of_schema(schema)
    if template is None:
        return None
    family = _from_table(tokenizer) or _from_parser(tokenizer) or FORMATS[DEFAULT_FORMAT]
    return verified_format(tokenizer, template, family)


def _from_table(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    tags = _hunyuan_tags(tokenizer)
    if tags is not None:
        return tags
    settings: Mapping[str, Any] = getattr(tokenizer, "init_kwargs", {})
    parser, template = _mlx_parser(tokenizer), template_text(tokenizer) or ""
    if parser is None and settings.get("chat_template_type") == "deepseek_v32":
        return FORMATS["deepseek_v3_2"]
    for entry in FORMATS.values():
        for sign in entry.signs:
            if parser in (None, entry.parser, sign.parser) and _shows(tokenizer, template, sign):
                return entry
    return None


def _from_parser(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    parser = _mlx_parser(tokenizer)
    if parser == "laguna":
        return FORMATS["glm4_7"]
    by_parser = [entry for entry in FORMATS.values() if parser and entry.parser == parser]
    by_start = [entry for entry in FORMATS.values() if entry.start == tokenizer.tool_call_start]
    # The general format of a parser stands behind the formats that have signs.
    return next(reversed([*by_start, *by_parser]), None)


def _mlx_parser(tokenizer: TokenizerWrapper) -> str | None:
    """Return the name of mlx-lm's parser; ``None`` if it has none for the tokenizer."""
    if tokenizer.tool_parser is None:
        return None
    settings: Mapping[str, Any] = getattr(tokenizer, "init_kwargs", {})
    module = str(getattr(tokenizer.tool_parser, "__module__", ""))
    return settings.get("tool_parser_type") or module.rpartition(".")[2]


def _template_agrees(tokenizer: TokenizerWrapper, default: ToolFormat) -> bool:
    """Return whether the chat template of an unknown model writes no other calls."""
    template = chat_template(tokenizer)
    if not template.describes_tools and template.calls is None:
        return True
    return default.start in template.written_calls()


_SOURCES: Mapping[Source, Callable[[TokenizerWrapper], ToolFormat | None]] = {
    "response_template": _from_response_template,
    "families": _from_table,
    "mlx_lm": _from_parser,
    "chat_template": written_format,
}


def reasoning_of(tokenizer: TokenizerWrapper, entry: ToolFormat) -> Delimiters | None:
    """Return the markers around a model's reasoning; ``None`` if it does not reason."""
    markers = entry.reasoning
    if markers is not None and _begins_with_token(tokenizer, markers.begin):
        return markers
    if tokenizer.has_thinking:
        return Delimiters(tokenizer.think_start, tokenizer.think_end)
    return None


def is_open(tokenizer: TokenizerWrapper, prompt_ids: Sequence[int], delimiters: Delimiters) -> bool:
    """Return whether a prompt ends inside ``delimiters``, such as ``<think>``.

    Chat templates open reasoning that way. A marker in an earlier message opens nothing.
    """
    begin = _encoded(tokenizer, delimiters.begin)
    opened = _last(prompt_ids, begin)
    if opened < 0 or _last(prompt_ids, _encoded(tokenizer, delimiters.end)) > opened:
        return False
    ends_of_turns = {*tokenizer.eos_token_ids, *tokenizer.all_special_ids}
    return ends_of_turns.isdisjoint(prompt_ids[opened + len(begin) :])


def _shows(tokenizer: TokenizerWrapper, template: str, sign: Sign) -> bool:
    return (
        all(text in template for text in sign.texts)
        and not any(text in template for text in sign.lacks)
        and all(_is_token(tokenizer, token) for token in sign.tokens)
    )


def _hunyuan_tags(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    """Return the format of Hunyuan 3 or 4 with the suffix of the tokenizer's tags."""
    for token in tokenizer.get_added_vocab():
        found = re.fullmatch(r"<tool_calls(|:[^\s<>]+)>", token)
        if found is not None and _is_token(tokenizer, f"<arg_key{found[1]}>"):
            return hunyuan_tags(3 if _is_token(tokenizer, f"<tool_sep{found[1]}>") else 4, found[1])
    return None


def _is_token(tokenizer: TokenizerWrapper, text: str) -> bool:
    token_id = tokenizer.convert_tokens_to_ids(text)
    return token_id is not None and tokenizer.convert_ids_to_tokens(token_id) == text


def _begins_with_token(tokenizer: TokenizerWrapper, marker: str) -> bool:
    """Return whether a marker begins with a special token, such as ``[THINK]``."""
    first = tokenizer.convert_ids_to_tokens(_encoded(tokenizer, marker)[0])
    return marker.startswith(first) and first[-1] in ">]" and len(first) > 1


def _encoded(tokenizer: TokenizerWrapper, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False)) if text else []


def _last(ids: Sequence[int], part: list[int]) -> int:
    """Return the last position of a sequence in another; -1 if there is none."""
    for start in range(len(ids) - len(part), -1, -1):
        if part and ids[start] == part[0] and list(ids[start : start + len(part)]) == part:
            return start
    return -1
