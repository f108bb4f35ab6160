"""The public names of extraction on Ray."""

from .datasets import extract as extract
