"""Prompt caches on disk, which processes share.

Reading order: ``files`` (a bounded directory), ``writer`` (a thread), ``disk_cache`` (look-up,
writing, and what reading saves).
"""
