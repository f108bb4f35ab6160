"""Outputs that are complete within ``max_tokens``."""

from state_machines.completion.completion import Completion
from state_machines.completion.guard import Guard

__all__ = ["Completion", "Guard"]
