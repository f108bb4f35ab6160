"""Requests: prepared, queued, run together, and reported as events and results.

Reading order: ``request``, ``preparation`` (checks and compilation), ``worker`` (the model thread),
``sequence_factory`` (the sequence of a request), ``samples`` (a running request: its tokens as
events and a result), ``prefills`` (prompts that are processed), ``continuous_batch`` (the running
requests), ``scheduler`` (the queue), ``streams`` (events of a request, results of many requests).
"""
