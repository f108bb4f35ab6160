"""Grammars, vocabularies and token masks. Needs NumPy, never mlx.

``__init__.pyi`` lists the public names; the first use of a name imports its module.

>>> from state_machines import RegexStateMachine
>>> RegexStateMachine(r"(yes|no)").matches("yes")
True
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
