"""Notations of the arguments of tool calls: JSON, and the notations of model families.

>>> from state_machines.argument_notations import JSON, QWEN_CODER
>>> schema = {"type": "object", "properties": {"city": {"type": "string"}}}
>>> JSON.compile(schema).node.matches(b'{"city": "Oslo"}')
True
>>> arguments = QWEN_CODER.compile(schema)
>>> arguments.node.matches(b"<parameter=city>\\nOslo\\n</parameter>\\n")
True
>>> arguments.read("<parameter=city>\\nOslo\\n</parameter>\\n")
{'city': 'Oslo'}
"""

from state_machines.argument_notations.literals import (
    JSON,
    PYTHONIC,
    PYTHONIC_JSON,
    JsonNotation,
    python_literal,
)
from state_machines.argument_notations.notation import (
    INPUT,
    CompiledArguments,
    Notation,
    NotationOptions,
)
from state_machines.argument_notations.tag_styles import QWEN_CODER
from state_machines.argument_notations.tagged import TaggedNotation

__all__ = [
    "INPUT",
    "JSON",
    "PYTHONIC",
    "PYTHONIC_JSON",
    "QWEN_CODER",
    "CompiledArguments",
    "JsonNotation",
    "Notation",
    "NotationOptions",
    "TaggedNotation",
    "python_literal",
]
