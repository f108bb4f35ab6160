"""Tools that a model may call: dicts, types and functions.

Reading order: ``tool``, ``input_format`` (custom tools), ``definitions`` (tools from functions,
types and dicts), ``choice``; ``tool_loop``; ``call_parsing`` (calls in text that was generated
elsewhere).

``__init__.pyi`` lists the names; the first use of a name imports its module.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
