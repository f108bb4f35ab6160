"""Selects a token from logits. Functions on ``mx.array``; independent of grammars and models.

Reading order: ``parameters`` (the parameters of a request), ``transforms`` (one function for each
parameter, and their compositions), ``sampler`` (with its random key), ``rows`` (several
samplers at once), ``verification`` (of drafted tokens), ``logprobs`` (probabilities of chosen and
of most likely tokens).

``__init__.pyi`` lists the public names. ``samplers.parameters`` can be imported without mlx; the
other names load it at their first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
