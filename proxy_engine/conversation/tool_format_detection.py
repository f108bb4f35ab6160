"""Detect a model's tool format and reasoning markers.

The first format decides that has a sign of the vocabulary and the chat template, then mlx-lm's
parser. An unknown model has Hermes' format. Its chat template describes tools and
calls only if it writes them in this format; otherwise the prompt does, in plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from state_machines.errors import CompositionError
from state_machines.tool_calls import FORMATS, Delimiters, Sign, ToolFormat, format_named
from state_machines.tool_calls.pair_families import hunyuan_tags

from ..checks import short_repr
from ..errors import InvalidOptionError

if TYPE_CHECKING:
    # Calls can be read without MLX.
    from mlx_lm.tokenizer_utils import TokenizerWrapper

DEFAULT_FORMAT = "hermes"
"""The format of unknown models."""


def format_of(tokenizer: TokenizerWrapper, explicit: str | ToolFormat | None = None) -> ToolFormat:
    """Return the tool format of a model.

    Args:
        tokenizer: The model's tokenizer.
        explicit: A format, or the name of one in :data:`state_machines.tool_calls.FORMATS`, that
            overrides the detection.

    Raises:
        InvalidOptionError: The name is unknown.
    """
    if isinstance(explicit, ToolFormat):
        return explicit
    if not isinstance(explicit, str | None):
        raise InvalidOptionError(
            f"tool_format should be a ToolFormat or its name, not {short_repr(explicit)}",
            option="tool_format",
        )
    tags = _hunyuan_tags(tokenizer)
    if explicit is None:
        return tags or _detected(tokenizer)
    try:
        named = format_named(explicit)
    except CompositionError as error:
        raise InvalidOptionError(error.what, option="tool_format", hint=error.hint) from error
    return tags if tags is not None and tags.name == named.name else named


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


def template_text(tokenizer: TokenizerWrapper) -> str | None:
    """Return the text of all chat templates; ``None`` if they are code."""
    templates = getattr(tokenizer, "chat_template", None)
    if isinstance(templates, Mapping):
        return "\n".join(map(str, templates.values()))
    if isinstance(templates, str):
        return templates
    return None if tokenizer.has_chat_template else ""


def _detected(tokenizer: TokenizerWrapper) -> ToolFormat:
    return detected_format(tokenizer) or FORMATS[DEFAULT_FORMAT]


def detected_format(tokenizer: TokenizerWrapper) -> ToolFormat | None:
    """Return the format by mlx-lm's parser, the vocabulary and the chat template.

    ``None`` if none of them shows a known format.
    """
    settings: Mapping[str, Any] = getattr(tokenizer, "init_kwargs", {})
    parser: str | None = None
    if tokenizer.tool_parser is not None:
        module = str(getattr(tokenizer.tool_parser, "__module__", ""))
        parser = settings.get("tool_parser_type") or module.rpartition(".")[2]
    elif settings.get("chat_template_type") == "deepseek_v32":
        return FORMATS["deepseek_v3_2"]
    if parser == "laguna":
        return FORMATS["glm4_7"]
    template = template_text(tokenizer) or ""
    for entry in FORMATS.values():
        for sign in entry.signs:
            if parser in (None, entry.parser, sign.parser) and _shows(tokenizer, template, sign):
                return entry
    by_parser = [entry for entry in FORMATS.values() if parser and entry.parser == parser]
    by_start = [entry for entry in FORMATS.values() if entry.start == tokenizer.tool_call_start]
    # The general format of a parser stands after the ones that have signs.
    return next(reversed([*by_start, *by_parser]), None)


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
