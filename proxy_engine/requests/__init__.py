"""Requests: prepared, queued, run together, and reported as events and results.

Reading order: ``request``, ``preparation`` (checks and compilation), ``worker`` (the model thread),
``samples`` (the tokens of a sequence as events and a result), ``groups`` (the sequences of a
request), ``prefills`` (their prompts), ``continuous_batch`` (the running requests), ``scheduler``
(the queue), ``streams`` (events of a request, results of many requests).
"""
