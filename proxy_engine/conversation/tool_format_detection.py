"""Detect a model's tool format and reasoning markers.

Sources, in this order: mlx-lm's detection, the chat template, the vocabulary. An unknown model is
prompted with Hermes' format, in plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from state_machines.errors import CompositionError
from state_machines.tool_calls import FORMATS, Delimiters, ToolFormat, format_named
from state_machines.tool_calls.hunyuan_families import hunyuan_tags

from ..checks.texts import short_repr
from ..errors import InvalidOptionError

if TYPE_CHECKING:
    # Calls can be read without MLX.
    from mlx_lm.tokenizer_utils import TokenizerWrapper

DEFAULT_FORMAT = "hermes"
"""The format of unknown models."""

_MINIMAX_M3 = "]<]minimax[>["


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
    if explicit is not None:
        if not isinstance(explicit, str):
            raise InvalidOptionError(
                f"tool_format should be a ToolFormat or its name, not {short_repr(explicit)}",
                option="tool_format",
            )
        try:
            named = format_named(explicit)
        except CompositionError as error:
            raise InvalidOptionError(error.what, option="tool_format", hint=error.hint) from error
        tags = _Traits(tokenizer).hunyuan_tags()
        return tags if tags is not None and tags.name == named.name else named
    model = _Traits(tokenizer)
    tags = model.hunyuan_tags()
    if tags is not None:
        return tags
    parser = model.parser
    if parser is not None:
        by_parser = _BY_PARSER.get(parser)
        if by_parser is not None:
            return FORMATS[by_parser(model)]
        for entry in FORMATS.values():
            if entry.start == tokenizer.tool_call_start:
                return entry
    return FORMATS[next((name for name, suits in _BY_TRAITS if suits(model)), DEFAULT_FORMAT)]


def reasoning_of(tokenizer: TokenizerWrapper, entry: ToolFormat) -> Delimiters | None:
    """Return the markers around a model's reasoning; ``None`` if it does not reason."""
    own = entry.reasoning
    if own is not None and _begins_with_token(tokenizer, own.begin):
        return own
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


class _Traits:
    """The traits of a model that its tokenizer reveals."""

    def __init__(self, tokenizer: TokenizerWrapper) -> None:
        self._tokenizer = tokenizer
        settings: Mapping[str, Any] = getattr(tokenizer, "init_kwargs", {})
        self.template_type: str | None = settings.get("chat_template_type")
        module = getattr(tokenizer.tool_parser, "__module__", None)
        named = settings.get("tool_parser_type") or (module and module.rpartition(".")[2])
        self.parser: str | None = named if tokenizer.tool_parser is not None else None
        templates = tokenizer.chat_template
        if isinstance(templates, Mapping):
            templates = "\n".join(map(str, templates.values()))
        self.template = templates if isinstance(templates, str) else ""

    def has(self, *tokens: str) -> bool:
        """Return whether all of these are tokens of the vocabulary."""
        return all(_is_token(self._tokenizer, token) for token in tokens)

    def says(self, *texts: str) -> bool:
        """Return whether the chat template contains all of these texts."""
        return all(text in self.template for text in texts)

    def hunyuan_tags(self) -> ToolFormat | None:
        """Return the format of Hunyuan 3 or 4 with the suffix of the tokenizer's tags."""
        for token in self._tokenizer.get_added_vocab():
            found = re.fullmatch(r"<tool_calls(|:[^\s<>]+)>", token)
            if found is not None and self.has(f"<arg_key{found[1]}>"):
                return hunyuan_tags(3 if self.has(f"<tool_sep{found[1]}>") else 4, found[1])
        return None


def _hermes(model: _Traits) -> str:
    # mlx-lm finds <tool_call> in the chat template.
    if model.has(_MINIMAX_M3):
        return "minimax_m3"
    return "ernie" if model.has("<response>", "</response>") else "hermes"


def _mistral(model: _Traits) -> str:
    return "mistral_args" if model.has("[ARGS]") or model.says("[ARGS]") else "mistral"


def _glm(model: _Traits) -> str:
    return "glm4_7" if model.says("</arg_key><arg_value>") else "glm4_5"


def _longcat(model: _Traits) -> str:
    return "longcat" if model.says("<longcat_arg_key>") else "longcat_json"


_BY_PARSER: Mapping[str, Callable[[_Traits], str]] = {
    "function_gemma": lambda _: "function_gemma",
    "gemma4": lambda _: "gemma4",
    "glm47": _glm,
    "json_tools": _hermes,
    "kimi_k2": lambda _: "kimi_k2",
    "kimi_k3": lambda _: "kimi_k3",
    "laguna": lambda _: "glm4_7",
    "longcat": _longcat,
    "minicpm5": lambda _: "minicpm5",
    "minimax_m2": lambda _: "minimax_m2",
    "mistral": _mistral,
    "muse_spark": lambda _: "muse_spark",
    "pythonic": lambda _: "lfm2",
    "qwen3_coder": lambda _: "qwen3_coder",
}
"""The format by mlx-lm's parser; the chat template distinguishes formats that share a parser."""

_BY_TRAITS: Sequence[tuple[str, Callable[[_Traits], bool]]] = (
    ("deepseek_v3_2", lambda m: m.template_type == "deepseek_v32"),
    ("deepseek_v4_1", lambda m: m.has("｜DSML｜") and m.says(" calls>")),
    ("deepseek_v4", lambda m: m.has("｜DSML｜") and m.says("tool_calls>")),
    ("deepseek_v3_2", lambda m: m.has("｜DSML｜")),
    ("minimax_m3", lambda m: m.has(_MINIMAX_M3)),
    ("gigachat3_5", lambda m: m.has("｜GCML｜") or m.says("<｜GCML｜")),
    ("gigachat3_1", lambda m: m.has("<|function_call|>", "<|role_sep|>\n")),
    ("gigachat3", lambda m: m.has("<|role_sep|>\n") or m.says("function call", "<|role_sep|>")),
    ("hunyuan", lambda m: m.says("<tool_calls>[")),
    ("olmo3", lambda m: m.says("<function_calls>", "<functions>")),
    ("apertus", lambda m: m.has("<|tools_prefix|>", "<|tools_suffix|>")),
    ("internlm", lambda m: m.has("<|action_start|>", "<|action_end|>", "<|plugin|>")),
    ("phi4_mini", lambda m: m.says("functools[") or m.has("<|tool|>", "<|/tool|>")),
    ("xlam", lambda m: m.says('[{"name": "tool_call_name"')),
    ("deepseek_r1", lambda m: m.has("<｜tool▁sep｜>") and m.says("```json")),
    ("deepseek_v3_1", lambda m: m.has("<｜tool▁sep｜>")),
    ("step3", lambda m: m.has("<｜tool_sep｜>", "<｜tool_calls_begin｜>")),
    ("seed_oss", lambda m: m.has("<seed:tool_call>")),
    ("granite", lambda m: m.has("<|tool_call|>", "<|start_of_role|>")),
    ("cohere_cofl", lambda m: m.says("<cofl:tool_calls>")),
    ("cohere_text", lambda m: m.has("<|START_ACTION|>") and m.says("<|START_TEXT|>")),
    ("cohere", lambda m: m.has("<|START_ACTION|>", "<|START_RESPONSE|>")),
    ("cohere_text", lambda m: m.has("<|START_ACTION|>", "<|START_TEXT|>")),
    ("gpt_oss", lambda m: m.has("<|channel|>", "<|constrain|>", "<|call|>")),
    ("llama4", lambda m: m.has("<|python_start|>", "<|python_end|>")),
    ("llama3", lambda m: m.has("<|start_header_id|>", "<|eot_id|>")),
    ("mistral_args", lambda m: m.has("[TOOL_CALLS]", "[ARGS]")),
    ("mistral", lambda m: m.has("[TOOL_CALLS]")),
    ("gemma3", lambda m: m.has("<start_of_turn>", "<end_of_turn>")),
)
"""For models that mlx-lm has no parser for: the first entry that applies."""


def _is_token(tokenizer: TokenizerWrapper, text: str) -> bool:
    token_id = tokenizer.convert_tokens_to_ids(text)
    return token_id is not None and tokenizer.convert_ids_to_tokens(token_id) == text


def _begins_with_token(tokenizer: TokenizerWrapper, marker: str) -> bool:
    """Return whether a marker begins with a special token, such as ``[THINK]``."""
    first = tokenizer.convert_ids_to_tokens(_encoded(tokenizer, marker)[0])
    return marker.startswith(first) and first[-1] in ">]" and len(first) > 1


def _encoded(tokenizer: TokenizerWrapper, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False)) if text else []


def _last(ids: Sequence[int], part: Sequence[int]) -> int:
    """Return the last position of a sequence in another; -1 if there is none."""
    if not part:
        return -1
    wanted = list(part)
    for start in range(len(ids) - len(wanted), -1, -1):
        if ids[start] == wanted[0] and list(ids[start : start + len(wanted)]) == wanted:
            return start
    return -1
