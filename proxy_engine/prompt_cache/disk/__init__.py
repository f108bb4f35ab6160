"""Prompt caches on disk, which processes share.

Reading order: ``format`` (caches as bytes), ``files`` (a bounded directory), ``writer`` (a thread),
``cost`` (what reading saves), ``disk_cache`` (look-up and writing).
"""
