"""The table of tool-call formats of model families, by name.

Here are the families that write calls as code. The others are in ``json_families``,
``json_list_families``, ``tag_families`` and ``pair_families``. Below each row stands the call of
``get_weather`` with ``{"city": "Oslo"}`` that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from state_machines.argument_notations import JsonNotation, TaggedNotation
from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4
from state_machines.argument_notations.literals import OLMO, PYTHONIC, PYTHONIC_JSON, compact_json
from state_machines.errors import CompositionError
from state_machines.tool_calls.json_families import JSON_FAMILIES, LLAMA3, LLAMA3_PYTHON_TAG
from state_machines.tool_calls.json_list_families import JSON_LIST_FAMILIES, section
from state_machines.tool_calls.pair_families import PAIR_FAMILIES
from state_machines.tool_calls.tag_families import TAG_FAMILIES
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat

_PYTHON: dict[str, Any] = {
    "head": "{name}(",
    "foot": (")",),
    "names": r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*",
    "python_names": True,
}

LFM2 = ToolFormat(
    name="lfm2",
    models="LFM2, LFM2.5",
    **section(start="<|tool_call_start|>", opening="[", closing="]", end="<|tool_call_end|>"),
    **_PYTHON,
    between=(", ",),
    notation=PYTHONIC_JSON,
    avoid=("<|tool_call_end|>",),
    tokens=("<|tool_call_start|>", "<|tool_call_end|>"),
    parser="pythonic",
)
"""<|tool_call_start|>[get_weather(city="Oslo")]<|tool_call_end|>"""

LLAMA4 = ToolFormat(
    name="llama4",
    models="Llama 4",
    **section(start="<|python_start|>", opening="[", closing="]", end="<|python_end|>"),
    **_PYTHON,
    between=(", ",),
    notation=PYTHONIC,
    avoid=("<|python_end|>",),
    tokens=("<|python_start|>", "<|python_end|>"),
    signs=(Sign(tokens=("<|python_start|>", "<|python_end|>")),),
)
"""<|python_start|>[get_weather(city="Oslo")]<|python_end|>"""

OLMO3 = ToolFormat(
    name="olmo3",
    models="Olmo 3",
    **section(start="<function_calls>", end="</function_calls>"),
    **{**_PYTHON, "names": r"[A-Za-z][A-Za-z0-9_]*"},
    between=("\n",),
    notation=OLMO,
    # The parser searches for the end of the calls and splits them into lines first.
    avoid=("</function_calls>", "\x85", "\u2028", "\u2029"),
    signs=(Sign(texts=("<function_calls>", "<functions>")),),
)
"""<function_calls>get_weather(city="Oslo")</function_calls>"""

GEMMA3 = ToolFormat(
    name="gemma3",
    models="Gemma 3, 3n and others that are asked for ```tool_code",
    **section(start="```tool_code", opening="\n", closing="\n", end="```"),
    **_PYTHON,
    between=("\n",),
    notation=PYTHONIC,
    interleaved=True,
    result=Delimiters("```tool_output\n", "\n```"),
    described_as="python",
    signs=(Sign(tokens=("<start_of_turn>", "<end_of_turn>")),),
)
"""```tool_code
get_weather(city="Oslo")
```"""

GEMMA_4 = ToolFormat(
    name="gemma4",
    models="Gemma 4",
    start="<|tool_call>",
    head="call:{name}",
    end="<tool_call|>",
    notation=GEMMA4,
    names=r"[A-Za-z0-9_-]+",
    tokens=("<|tool_call>", "<tool_call|>", '<|"|>'),
    reasoning=Delimiters("<|channel>thought\n", "<channel|>"),
    parser="gemma4",
)
"""<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>"""

FUNCTIONGEMMA = ToolFormat(
    name="function_gemma",
    models="FunctionGemma",
    start="<start_function_call>",
    head="call:{name}",
    end="<end_function_call>",
    notation=FUNCTION_GEMMA,
    names=r"[A-Za-z0-9_]+",
    tokens=("<start_function_call>", "<end_function_call>", "<escape>"),
    parser="function_gemma",
)
"""<start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>"""

_CODE_FAMILIES = (LFM2, LLAMA4, OLMO3, GEMMA_4, FUNCTIONGEMMA)

# The vocabularies of Llama 3 and Gemma 3 alone show their formats, so models that have them and
# another format in their template come first.
FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            *(*TAG_FAMILIES, *PAIR_FAMILIES, *_CODE_FAMILIES, *JSON_FAMILIES),
            *(*JSON_LIST_FAMILIES, LLAMA3, LLAMA3_PYTHON_TAG, GEMMA3),
        )
    }
)
"""All formats by name. The first one that has a sign of a tokenizer is the tokenizer's format."""


def format_named(name: str) -> ToolFormat:
    """Return the format of a name; case is ignored, and ``-`` equals ``_``.

    Raises:
        CompositionError: There is no such format. The hint has similar names.

    >>> format_named("hermes").start
    '<tool_call>'
    """
    known = FORMATS.get(name.lower().replace("-", "_"))
    if known is None:
        near = get_close_matches(name.lower(), FORMATS, n=3, cutoff=0.5)
        raise CompositionError(
            f"there is no tool format {name!r}",
            part=name,
            hint=f"Perhaps {', '.join(near)}?" if near else f"Known are {', '.join(FORMATS)}",
        )
    return known


def in_compact_json(tool_format: ToolFormat) -> ToolFormat:
    """Return a format with compact JSON in the arguments and in the text around them.

    Without it, a format writes the text around arguments as its model family does, and arguments in
    the family's layout or compact.

    Args:
        tool_format: A format that writes arguments as JSON.

    Raises:
        CompositionError: The format has another notation of arguments.

    >>> in_compact_json(format_named("hermes")).head
    '\\n{"name":"{name}","arguments":'
    """
    f = tool_format
    if not isinstance(f.notation, JsonNotation):
        raise CompositionError(
            f"the format {f.name!r} does not write its arguments as JSON",
            part=f.name,
            hint="Only formats with JSON have a compact layout",
        )
    return replace(
        f,
        start=compact_json(f.start),
        opening=tuple(map(compact_json, f.opening)),
        head=compact_json(f.head),
        foot=tuple(map(compact_json, f.foot)),
        between=tuple(map(compact_json, f.between)),
        notation=replace(f.notation, whitespace="compact"),
    )


def with_trimmed_strings(tool_format: ToolFormat) -> ToolFormat:
    """Return a format for a parser that strips white space from strings, such as mlx-lm's.

    A format with raw strings between tags writes them as they are. Its strings then have no white
    space at their ends, so that a parser that strips them reads the same values.

    Args:
        tool_format: A format that writes arguments in tags.

    Raises:
        CompositionError: The format has another notation of arguments.

    >>> with_trimmed_strings(format_named("glm4_7")).notation.name
    'glm-compact-trimmed'
    """
    f = tool_format
    if not isinstance(f.notation, TaggedNotation):
        raise CompositionError(
            f"the format {f.name!r} does not write its arguments in tags",
            part=f.name,
            hint="Only formats with raw strings in tags have parsers that strip them",
        )
    return replace(f, notation=f.notation.trimmed)
