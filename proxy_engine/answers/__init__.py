"""Compiling answers and reading them.

Reading order: ``response_format`` (to a machine and a parser), ``composition`` (the parts of a
whole answer), ``compiler`` (to one machine), ``compile_queue`` (bounded, fair compilation, and its
cache); ``reader`` (output to events and values).
"""

from state_machines.quotes import QuoteFrom as QuoteFrom
