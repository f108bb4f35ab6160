r"""``regex``: texts that are regular expressions of ECMA-262.

The syntax is that of ECMA-262, section 22.2.1, with the ``u`` flag, and as lenient as
:mod:`state_machines.regex.parser` where section B.1.2 gives a needless escape, ``]`` or ``}`` a
meaning. Not regular, and therefore approximated from within:

* groups stand at most :data:`MAX_GROUPS` deep inside each other;
* ``{m,n}`` has ``m <= n`` where ``m`` has at most two digits, otherwise ``n`` has more digits;
* a range of a class is two characters of ASCII in order, or ends beyond ASCII and begins in it,
  or is two ``\uXXXX``, ``\xXX`` in order; others beyond ASCII are admitted only as single members.

Not enforced is that a name is given to one group only, and that a reference has its group.
"""

from __future__ import annotations

from functools import lru_cache

from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import choice, literal, optional, reference, repetition, sequence, symbols, trie
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.regex import compile_pattern

__all__ = ["MAX_GROUPS", "ecma_regex"]

MAX_GROUPS = 4
"""Groups that may stand inside each other."""

_HEX = "[0-9A-Fa-f]"
_ESCAPED_CHARACTER = (
    rf"\\(?:[tnvfr]|c[A-Za-z]|0(?![0-9])|x{_HEX}{{2}}|u{_HEX}{{4}}"
    rf"|u\{{0*(?:{_HEX}{{1,5}}|10{_HEX}{{4}})\}}|[^0-9A-Za-z])"
)
