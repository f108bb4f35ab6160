"""Speculative decoding (Leviathan et al. 2023): drafters, and how many tokens to draft.

Reading order: ``drafter`` (the interface), ``copy_drafter``, ``acceptance``, ``draft_length``.
"""

from .copy_drafter import CopyDrafter
from .drafter import Drafter

__all__ = ["CopyDrafter", "Drafter"]
