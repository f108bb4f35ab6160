"""Marks strings of response formats as verbatim quotes."""

from state_machines.quotes import QuoteFrom

__all__ = ["QuoteFrom"]
