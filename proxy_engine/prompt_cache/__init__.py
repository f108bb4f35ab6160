"""Prompt caching: the caches of earlier prompts, reused by later requests.

Reading order: ``options``, ``layers`` (operations on mlx-lm's caches), ``store`` (LRU by prefix),
``prompt_caches`` (the cache of each request), ``identity`` and ``files`` (caches on disk).
"""

from .identity import ModelIdentity
from .options import CacheOptions
from .prompt_caches import FetchedCache, PromptCaches
from .store import TokenIds, common_prefix, token_array

__all__ = [
    "CacheOptions",
    "FetchedCache",
    "ModelIdentity",
    "PromptCaches",
    "TokenIds",
    "common_prefix",
    "token_array",
]
