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
    "mlx-lm": "stacks.unconstrained",
    "llguidance": "stacks.peer_llguidance",
    "outlines": "stacks.peer_outlines",
}
"""``mlx-lm`` generates without a constraint and is the baseline of the comparison."""


def load_stack(name: str, setting: Setting) -> Stack:
    """Import and set up a stack. Raises ``ImportError`` where it is not installed."""
    factory: StackFactory = importlib.import_module(STACKS[name]).make_stack
    return factory(setting)
