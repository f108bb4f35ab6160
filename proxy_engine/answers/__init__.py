"""Compiling answers and reading them.

Reading order: ``response_format`` (to a machine and a parser), ``composition`` (the parts of a
whole answer), ``compiler`` (to one machine), ``machine_cache``, ``compile_job`` and ``turns``
(bounded, fair compilation); ``reader`` (output to events and results), ``partial_json``.
"""

from state_machines import RegexStateMachine as RegexStateMachine
from state_machines.quotes import QuoteFrom as QuoteFrom
