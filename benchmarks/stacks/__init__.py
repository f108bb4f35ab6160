"""Stacks for generation on mlx-lm, one module each.

Modules are imported on use: a stack that is not installed is needed only when it is measured.
"""

from __future__ import annotations

import importlib

from stacks.base import GREEDY as GREEDY
from stacks.base import SEEDED as SEEDED
from stacks.base import UNSEEDED as UNSEEDED
from stacks.base import (
    RefusedRequestError,
    Request,
    Sampling,
    Setting,
    Stack,
    StackFactory,
    Written,
)

__all__ = [
    "GREEDY",
    "SEEDED",
    "STACKS",
    "UNSEEDED",
    "RefusedRequestError",
    "Request",
    "Sampling",
    "Setting",
    "Stack",
    "StackFactory",
    "Written",
    "load_stack",
]

STACKS = {
    "ours": "stacks.ours",
    "ours-undrafted": "stacks.ours:make_undrafted_stack",
    "mlx-lm": "stacks.unconstrained",
    "llguidance": "stacks.peer_llguidance",
    "outlines": "stacks.peer_outlines",
}
"""The module of each stack, and its function if it has several.

``mlx-lm`` generates without a constraint and is the baseline of the comparison.
"""


def load_stack(name: str, setting: Setting) -> Stack:
    """Import and set up a stack. Raises ``ImportError`` where it is not installed."""
    module, _, function = STACKS[name].partition(":")
    factory: StackFactory = getattr(importlib.import_module(module), function or "make_stack")
    return factory(setting)
