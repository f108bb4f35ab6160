"""What was read before is not read again: the prompts of earlier requests, kept for later ones.

``options`` says what may be kept and how, ``layers`` what the caches of mlx-lm's models can do,
``store`` which of them to use and which to give up, ``caches`` brings them to a request;
``files`` and ``identity`` put a cache on disk and tell whether it is of the same model.
"""

from .caches import PromptCaches, Started
from .identity import ModelIdentity
from .options import CacheOptions
from .store import common_prefix, token_array

__all__ = [
    "CacheOptions",
    "ModelIdentity",
    "PromptCaches",
    "Started",
    "common_prefix",
    "token_array",
]
