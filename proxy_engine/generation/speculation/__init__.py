"""Speculative decoding (Leviathan et al. 2023): drafters, drafts, and their lengths.

Reading order: ``drafts`` (the interface of a drafter; a draft), ``copy_drafter``, ``draft_length``
(the measured cost of passes), ``drafting`` (the drafting state of a sequence), ``batch_drafts``,
``draft_model``, ``draft_heads``, ``head_drafter``. The first four know no sequence.
"""

from .copy_drafter import CopyDrafter
from .drafts import Drafter

__all__ = ["CopyDrafter", "Drafter"]
