"""Notations of the arguments of tool calls: JSON, and those of model families.

>>> from state_machines.tool_calls.notations import JSON, QWEN_CODER
>>> schema = {"type": "object", "properties": {"city": {"type": "string"}}}
>>> JSON.compile(schema).node.matches(b'{"city": "Oslo"}')
True
>>> arguments = QWEN_CODER.compile(schema)
>>> arguments.node.matches(b"<parameter=city>\\nOslo\\n</parameter>\\n")
True
>>> arguments.read("<parameter=city>\\nOslo\\n</parameter>\\n")
{'city': 'Oslo'}
"""

from state_machines.tool_calls.notations.gemma import FUNCTION_GEMMA, GEMMA4, MarkedNotation
from state_machines.tool_calls.notations.json_notation import JSON, JsonNotation
from state_machines.tool_calls.notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
)
from state_machines.tool_calls.notations.pythonic import (
    PYTHONIC,
    PYTHONIC_JSON,
    PythonicNotation,
    python_literal,
)
from state_machines.tool_calls.notations.tagged import (
    ATEM,
    DSML,
    GLM,
    GLM_COMPACT,
    LONGCAT,
    MINICPM,
    MINIMAX,
    QWEN_CODER,
    TaggedNotation,
)

__all__ = [
    "ATEM",
    "DSML",
    "FUNCTION_GEMMA",
    "GEMMA4",
    "GLM",
    "GLM_COMPACT",
    "JSON",
    "LONGCAT",
    "MINICPM",
    "MINIMAX",
    "PYTHONIC",
    "PYTHONIC_JSON",
    "QWEN_CODER",
    "CompiledArguments",
    "JsonNotation",
    "MarkedNotation",
    "Notation",
    "NotationOptions",
    "PythonicNotation",
    "TaggedNotation",
    "python_literal",
]
