"""Detect a model's tool format and reasoning markers.

The first entry of a table decides whose tokens and texts the vocabulary and the chat template have,
then mlx-lm's parser. An unknown model has Hermes' format. Its chat template describes tools and
calls only if it writes them in this format; otherwise the prompt does, in plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from state_machines.errors import CompositionError
from state_machines.tool_calls import FORMATS, Delimiters, ToolFormat, format_named
from state_machines.tool_calls.tag_families import hunyuan_tags

from ..checks import short_repr
from ..errors import InvalidOptionError

if TYPE_CHECKING:
    # Calls can be read without MLX.
    from mlx_lm.tokenizer_utils import TokenizerWrapper

DEFAULT_FORMAT = "hermes"
"""The format of unknown models."""

_SIGNS: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("minimax_m3", ["]<]minimax[>["], []),
    ("deepseek_v4_1", ["｜DSML｜"], [" calls>"]),
    ("deepseek_v4", ["｜DSML｜"], ["tool_calls>"]),
    ("deepseek_v3_2", ["｜DSML｜"], []),
    ("ernie", ["<response>", "</response>"], []),
    ("glm4_7", [], ["</arg_key><arg_value>"]),
    ("longcat", [], ["<longcat_arg_key>"]),
    ("gigachat3_5", ["｜GCML｜"], []),
    ("gigachat3_5", [], ["<｜GCML｜"]),
    ("gigachat3_1", ["<|function_call|>", "<|role_sep|>\n"], []),
    ("gigachat3", ["<|role_sep|>\n"], []),
    ("gigachat3", [], ["function call", "<|role_sep|>"]),
    ("hunyuan", [], ["<tool_calls>["]),
    ("olmo3", [], ["<function_calls>", "<functions>"]),
    ("apertus", ["<|tools_prefix|>", "<|tools_suffix|>"], []),
    ("internlm", ["<|action_start|>", "<|action_end|>", "<|plugin|>"], []),
    ("phi4_mini", [], ["functools["]),
    ("phi4_mini", ["<|tool|>", "<|/tool|>"], []),
    ("xlam", [], ['[{"name": "tool_call_name"']),
    ("deepseek_r1", ["<｜tool▁sep｜>"], ["```json"]),
    ("deepseek_v3_1", ["<｜tool▁sep｜>"], []),
    ("step3", ["<｜tool_sep｜>", "<｜tool_calls_begin｜>"], []),
    ("seed_oss", ["<seed:tool_call>"], []),
    ("granite", ["<|tool_call|>", "<|start_of_role|>"], []),
    ("cohere_cofl", [], ["<cofl:tool_calls>"]),
    ("cohere_text", ["<|START_ACTION|>"], ["<|START_TEXT|>"]),
    ("cohere", ["<|START_ACTION|>", "<|START_RESPONSE|>"], []),
    ("cohere_text", ["<|START_ACTION|>", "<|START_TEXT|>"], []),
    ("gpt_oss", ["<|channel|>", "<|constrain|>", "<|call|>"], []),
    ("llama4", ["<|python_start|>", "<|python_end|>"], []),
    ("llama3", ["<|start_header_id|>", "<|eot_id|>"], []),
    ("mistral_args", ["[TOOL_CALLS]", "[ARGS]"], []),
    ("mistral_args", [], ["[TOOL_CALLS]", "[ARGS]"]),
    ("mistral", ["[TOOL_CALLS]"], []),
    ("gemma3", ["<start_of_turn>", "<end_of_turn>"], []),
)
"""Formats, the tokens of their models' vocabularies, and texts of their chat templates.

The first entry that applies is the model's format. If mlx-lm has a parser for the model, the format
has that parser.
"""


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
    for name, tokens, texts in _SIGNS:
        # For MiniMax M3, mlx-lm selects the parser of Hermes, whose tag it finds.
        if parser in (None, FORMATS[name].parser) or name == "minimax_m3":
            has_tokens = all(_is_token(tokenizer, token) for token in tokens)
            if has_tokens and all(text in template for text in texts):
                return FORMATS[name]
    by_parser = [entry for entry in FORMATS.values() if parser and entry.parser == parser]
    by_start = [entry for entry in FORMATS.values() if entry.start == tokenizer.tool_call_start]
    return next(iter([*by_parser, *by_start]), None)


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
