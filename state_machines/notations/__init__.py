"""How the arguments of a tool call are written: JSON, and what model families write instead.

>>> from state_machines.notations import JSON
>>> JSON.node({"type": "object", "required": ["a"]}).matches(b'{"a": 1}')
True
"""

from state_machines.notations.json_notation import JSON, JsonNotation
from state_machines.notations.notation import Arguments, Notation

__all__ = ["JSON", "Arguments", "JsonNotation", "Notation"]
