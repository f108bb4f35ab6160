"""Prompt caching: the caches of earlier prompts, reused by later requests.

Reading order: ``options``, ``layers`` (operations on mlx-lm's caches), ``store`` (LRU by prefix),
``prompt_caches`` (the cache of each request), ``format`` (caches as bytes), ``files`` (caches that
a caller saves), ``disk`` (caches that processes share).
"""
