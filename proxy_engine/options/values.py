"""Values of options that are given in several forms: each function returns the stored form.

The functions raise ``ValueError`` for other values, as pydantic expects of validators.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from state_machines.errors import has_surrogate
from state_machines.limits import LIMITS
from state_machines.tool_calls import ToolFormat

from ..checks import as_list

MAX_COUNT = 2**63 - 1
"""The largest count of tokens or characters: the largest signed 64-bit integer."""

_MAX_DELIMITER = 1000
"""Maximum length of a delimiter, in characters. Free text is searched for it at every character."""

_MAX_STOP = 1000
"""Maximum length of a stop string, in characters."""

_MAX_STOPS = 64_000
"""Maximum length of all stop strings of a request together, in characters."""

_RESERVED_VARIABLES = {
    "add_generation_prompt",
    "chat_template",
    "continue_final_message",
    "conversation",
    "documents",
    "max_length",
    "messages",
    "padding",
    "return_assistant_tokens_mask",
    "return_dict",
    "return_tensors",
    "tokenize",
    "tokenizer_kwargs",
    "tools",
    "truncation",
}
"""Arguments of ``apply_chat_template`` that a request must not set."""


def parse_template_variables(value: Any) -> dict[str, Any]:
    """Return a copy of variables of a chat template."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError("should be a mapping from names to values")
    for name in value:
        if name in _RESERVED_VARIABLES:
            raise ValueError(f"should not contain {name!r}, which the engine sets")
    return dict(value)


def parse_stop_token_ids(value: Any) -> tuple[int, ...]:
    """Return distinct token ids in their order."""
    items = [] if value is None else as_list(value)
    if items is None or not all(_is_token_id(item) for item in items):
        raise ValueError("should be a list of token ids")
    return tuple(dict.fromkeys(map(int, items)))


def _is_token_id(item: object) -> bool:
    return isinstance(item, Integral) and not isinstance(item, bool) and 0 <= int(item) <= MAX_COUNT


def parse_tool_format(value: Any) -> str | ToolFormat | None:
    """Return a tool format or the name of one."""
    if value is not None and not isinstance(value, str | ToolFormat):
        raise ValueError("should be a ToolFormat or the name of one")
    return value


def parse_delimiters(value: Any) -> tuple[str, str] | None:
    """Return two delimiters. The second may be empty."""
    if value is None:
        return None
    items = as_list(value)
    if items is None or len(items) != 2 or not all(isinstance(item, str) for item in items):
        raise ValueError("should be two strings, the texts before and after")
    if not items[0] or any(map(has_surrogate, items)):
        raise ValueError("should be text without lone surrogates, and the first not empty")
    if max(map(len, items)) > _MAX_DELIMITER:
        raise ValueError(f"should have at most {_MAX_DELIMITER:,} characters each")
    return items[0], items[1]


def parse_names_or_flag(value: Any) -> bool | tuple[str, ...] | None:
    """Return a Boolean, or names as a tuple."""
    if value is None or isinstance(value, bool):
        return value
    items = as_list(value)
    if items is None or not all(isinstance(item, str) for item in items):
        raise ValueError("should be a Boolean or a list of names")
    return tuple(items)


def parse_stop_strings(value: Any) -> tuple[str, ...]:
    """Return one or several stop strings as a tuple."""
    if value is None:
        return ()
    items = as_list(value)
    texts = [value] if items is None else items
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError("should be a non-empty string or a list of such strings")
    if any(map(has_surrogate, texts)):
        raise ValueError("should be text without lone surrogates")
    # The time to compile a stop string grows with the square of its length.
    if any(len(text) > _MAX_STOP for text in texts) or sum(map(len, texts)) > _MAX_STOPS:
        raise ValueError(
            f"should have at most {_MAX_STOP:,} characters each, and {_MAX_STOPS:,} together"
        )
    return tuple(texts)


def parse_sources(value: Any) -> dict[str, str]:
    """Return a copy of texts by name; ``{}`` for ``None``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("should be a mapping from names to texts")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError("should be a mapping from names to texts")
        if has_surrogate(name) or has_surrogate(text):
            raise ValueError("should be text without lone surrogates")
        if len(text) > LIMITS.source_characters:
            raise ValueError(f"should have at most {LIMITS.source_characters:,} characters each")
    return dict(value)
