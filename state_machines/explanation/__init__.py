"""Explanations of masks: why a token may come next or not, and what may follow.

``continuations`` describes the beginnings of a state in words, ``tokens`` explains one token,
``masks`` the allowed tokens of a state.
"""

from state_machines.explanation.continuations import Continuation, continuations
from state_machines.explanation.masks import MaskExplanation, TokenGroup, explain_mask
from state_machines.explanation.tokens import TokenExplanation, explain_token, refused

__all__ = [
    "Continuation",
    "MaskExplanation",
    "TokenExplanation",
    "TokenGroup",
    "continuations",
    "explain_mask",
    "explain_token",
    "refused",
]
