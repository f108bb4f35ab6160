"""Outputs that are complete within a number of tokens."""

from state_machines.completion.completion import Completion

__all__ = ["Completion"]
