"""One adapter for each engine under test, by name.

Adapters are imported on use: an engine that is not installed is needed only when it is measured,
and an engine's process contains no other engine.
"""

from __future__ import annotations

import importlib

from engines.base import CompiledSchema, Engine, EngineFactory, EngineMatcher, RefusedSchemaError
from engines.base import TokenizerSource as TokenizerSource

__all__ = [
    "ENGINES",
    "CompiledSchema",
    "Engine",
    "EngineFactory",
    "EngineMatcher",
    "RefusedSchemaError",
    "TokenizerSource",
    "load_engine",
]

ENGINES = {
    "ours": "engines.ours",
    "llguidance": "engines.peer_llguidance",
    "xgrammar": "engines.peer_xgrammar",
    "outlines": "engines.peer_outlines",
}


def load_engine(name: str, source: TokenizerSource) -> Engine:
    """Import and set up an engine. Raises ``ImportError`` where it is not installed."""
    factory: EngineFactory = importlib.import_module(ENGINES[name]).make_engine
    return factory(source)
