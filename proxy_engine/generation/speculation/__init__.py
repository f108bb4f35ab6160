"""Speculative decoding (Leviathan et al. 2023): drafters, drafts, and their lengths.

Reading order: ``drafts`` (the interface of a drafter; a draft), ``copy_drafter``, ``draft_length``
(the cost of passes, acceptance rates), ``drafting`` (the drafters of a sequence, the drafts of a
batch), ``model_drafter``, ``draft_model``, ``hidden_states``, ``draft_heads``,
``head_drafter``.
"""

from .copy_drafter import CopyDrafter
from .drafts import Drafter

__all__ = ["CopyDrafter", "Drafter"]
