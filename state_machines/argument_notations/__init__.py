"""Notations of the arguments of tool calls: JSON, and those of model families.

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

from state_machines.argument_notations.cofl import COFL, CoflNotation
from state_machines.argument_notations.family_tags import (
    ATEM,
    GLM,
    GLM_COMPACT,
    LONGCAT,
    MINICPM,
    MINIMAX,
    QWEN_CODER,
    SEED,
    STEPTML,
)
from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4, MarkedNotation
from state_machines.argument_notations.json_notation import JSON, JsonNotation, compact_json
from state_machines.argument_notations.nested import MINIMAX_M3_XML, NestedNotation
from state_machines.argument_notations.notation import (
    INPUT,
    CompiledArguments,
    Notation,
    NotationOptions,
)
from state_machines.argument_notations.paired import (
    HUNYUAN3,
    HUNYUAN4,
    hunyuan_pairs,
)
from state_machines.argument_notations.pythonic import (
    OLMO,
    PYTHONIC,
    PYTHONIC_JSON,
    PythonicNotation,
    python_literal,
)
from state_machines.argument_notations.raw_input import RAW_INPUT, RawInputNotation
from state_machines.argument_notations.tagged import TaggedNotation
from state_machines.argument_notations.typed_tags import (
    DSML,
    DSML_V4,
    DSML_V4_1,
    GCML,
    XTML,
)

__all__ = [
    "ATEM",
    "COFL",
    "DSML",
    "DSML_V4",
    "DSML_V4_1",
    "FUNCTION_GEMMA",
    "GCML",
    "GEMMA4",
    "GLM",
    "GLM_COMPACT",
    "HUNYUAN3",
    "HUNYUAN4",
    "INPUT",
    "JSON",
    "LONGCAT",
    "MINICPM",
    "MINIMAX",
    "MINIMAX_M3_XML",
    "OLMO",
    "PYTHONIC",
    "PYTHONIC_JSON",
    "QWEN_CODER",
    "RAW_INPUT",
    "SEED",
    "STEPTML",
    "XTML",
    "CoflNotation",
    "CompiledArguments",
    "JsonNotation",
    "MarkedNotation",
    "NestedNotation",
    "Notation",
    "NotationOptions",
    "PythonicNotation",
    "RawInputNotation",
    "TaggedNotation",
    "compact_json",
    "hunyuan_pairs",
    "python_literal",
]
