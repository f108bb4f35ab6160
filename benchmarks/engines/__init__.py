"""One adapter for each engine under test, by name.

Adapters are imported on use: an engine that is not installed is needed only when it is measured,
and an engine's process contains no other engine.
"""

from __future__ import annotations

import importlib

from engines.base import CALL_BEGIN as CALL_BEGIN
from engines.base import CompiledSchema, Engine, EngineFactory, EngineMatcher, RefusedSchemaError
from engines.base import TokenizerSource as TokenizerSource
from engines.base import ToolSchema as ToolSchema

__all__ = [
    "CALL_BEGIN",
    "ENGINES",
    "CompiledSchema",
    "Engine",
    "EngineFactory",
    "EngineMatcher",
    "RefusedSchemaError",
    "TokenizerSource",
    "ToolSchema",
    "load_engine",
]

ENGINES = {
    "ours": "engines.ours",
    "ours-any-order": "engines.ours:make_engine_of_any_order",
    "llguidance": "engines.peer_llguidance",
    "xgrammar": "engines.peer_xgrammar",
    "outlines": "engines.peer_outlines",
}


def load_engine(name: str, source: TokenizerSource) -> Engine:
    """Import and set up an engine. Raises ``ImportError`` where it is not installed."""
    module, _, function = ENGINES[name].partition(":")
    factory: EngineFactory = getattr(importlib.import_module(module), function or "make_engine")
    return factory(source)
