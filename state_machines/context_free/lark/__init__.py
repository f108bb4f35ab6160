r"""Parse Lark, the notation of the Lark toolkit as llguidance and OpenAI's custom tools read it::

    start: expression
    expression: expression "+" term | term      // a rule, in lower case
    term: NUMBER | "(" expression ")"
    NUMBER: /[0-9]+/                            # a terminal, in upper case
    %ignore /[ \t]+/

A definition ends with its line, unless the next one begins with ``|``. Terminals are the lexemes
into which a text is divided, by longest match; a string or an expression in a rule is a terminal
without a name.

Reading order: :mod:`~state_machines.context_free.lark.syntax` (the tree),
``items`` and ``reader`` (text to definitions), ``terminals`` (their languages), ``lowering``
(definitions to a :class:`~state_machines.context_free.lexical.LexicalGrammar`).
"""

from __future__ import annotations

from state_machines.context_free.lark.lowering import lower
from state_machines.context_free.lark.reader import read
from state_machines.context_free.lexical import LexicalGrammar

__all__ = ["parse"]


def parse(text: str) -> LexicalGrammar:
    """Return the grammar over lexemes; texts begin with the rule ``start``.

    Raises :class:`~state_machines.errors.GrammarSyntaxError`, for what has no effect here and for
    sizes beyond the limits :class:`~state_machines.errors.UnsupportedGrammarError`, and for the
    schema of a ``%json`` that no value satisfies
    :class:`~state_machines.errors.UnsatisfiableGrammarError`.
    """
    return lower(read(text))
