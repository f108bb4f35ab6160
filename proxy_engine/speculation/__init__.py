"""Speculative decoding (Leviathan et al. 2023): drafters, and how many tokens to draft."""

from .drafter import Drafter
from .lookups import lookups
from .prompt_lookup import PromptLookup
from .retokenize import Retokenize
from .value_lookup import ValueLookup

__all__ = ["Drafter", "PromptLookup", "Retokenize", "ValueLookup", "lookups"]
