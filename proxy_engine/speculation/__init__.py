"""Speculative decoding (Leviathan et al. 2023): drafters, and how many tokens to draft."""

from .drafter import Drafter

__all__ = ["Drafter"]
