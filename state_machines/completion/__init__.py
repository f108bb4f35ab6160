"""Outputs that are complete within ``max_tokens``."""

from state_machines.completion.completion import Completion
from state_machines.completion.guard import Guard
from state_machines.completion.plan import Shortest

__all__ = ["Completion", "Guard", "Shortest"]
