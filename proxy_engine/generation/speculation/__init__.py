"""Speculative decoding (Leviathan et al. 2023): drafters, and how many tokens to draft."""

from .acceptance import AcceptanceRates
from .copy_drafter import CopyDrafter
from .draft_length import PassCost, RowOutlook, batch_lengths, draft_length
from .drafter import Drafter

__all__ = [
    "AcceptanceRates",
    "CopyDrafter",
    "Drafter",
    "PassCost",
    "RowOutlook",
    "batch_lengths",
    "draft_length",
]
