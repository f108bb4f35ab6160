"""Speculative decoding (Leviathan et al. 2023): drafters, and how many tokens to draft."""

from .acceptance import AcceptanceRates
from .draft_length import PassCost, RowOutlook, batch_lengths, draft_length
from .drafter import Drafter
from .lookups import lookups
from .prompt_lookup import PromptLookup
from .retokenize import Retokenize
from .value_lookup import ValueLookup

__all__ = [
    "AcceptanceRates",
    "Drafter",
    "PassCost",
    "PromptLookup",
    "Retokenize",
    "RowOutlook",
    "ValueLookup",
    "batch_lengths",
    "draft_length",
    "lookups",
]
