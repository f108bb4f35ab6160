"""Requests on their way: prepared and checked, queued, run together, and told of.

Reading order: ``request``, ``preparation`` (all that can be wrong is found here), ``worker`` (the
thread that owns the model), ``running`` (from tokens to a result), ``scheduler`` (the queue),
``closing``, ``streams`` and ``batches`` (what comes of one and of many).
"""
