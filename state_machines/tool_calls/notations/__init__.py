"""How the arguments of a tool call are written: JSON, and what model families write instead.

>>> from state_machines.tool_calls.notations import JSON, QWEN_CODER
>>> schema = {"type": "object", "properties": {"city": {"type": "string"}}}
>>> JSON.node(schema).matches(b'{"city": "Oslo"}')
True
>>> QWEN_CODER.node(schema).matches(b"<parameter=city>\\nOslo\\n</parameter>\\n")
True
>>> QWEN_CODER.read("<parameter=city>\\nOslo\\n</parameter>\\n", schema)
{'city': 'Oslo'}
"""

from state_machines.tool_calls.notations.gemma import FUNCTION_GEMMA, GEMMA4, MarkedNotation
from state_machines.tool_calls.notations.json_notation import JSON, JsonNotation
from state_machines.tool_calls.notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
)
from state_machines.tool_calls.notations.pythonic import PYTHONIC, PYTHONIC_JSON, PythonicNotation
from state_machines.tool_calls.notations.tagged import TaggedNotation
from state_machines.tool_calls.notations.tags import (
    DSML,
    GLM,
    GLM_COMPACT,
    LONGCAT,
    MINIMAX,
    QWEN_CODER,
)

__all__ = [
    "DSML",
    "FUNCTION_GEMMA",
    "GEMMA4",
    "GLM",
    "GLM_COMPACT",
    "JSON",
    "LONGCAT",
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
]
