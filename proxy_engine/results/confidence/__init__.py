"""Confidences: probabilities of an answer's values among the alternatives that it had."""

from .answer_values import open_pointer
from .measure import confidence, confidences

__all__ = ["confidence", "confidences", "open_pointer"]
