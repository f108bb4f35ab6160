"""Sampling temperatures: that of the lexemes that continue the texts of a state.

A state keeps no derivation, but its nodes are those of the terminals that may continue. The
temperature is known where all of them have the same one.
"""

from __future__ import annotations

from collections.abc import Iterator

from state_machines.budgets import spend
from state_machines.grammar.composition import Concatenation, Union
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.lexer import LexerState
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import Node


def temperature_of(state: Node) -> float | None:
    """Return the temperature of the lexeme that is being written, or that comes next.

    A lexeme that is complete and can be continued is still being written. Where one is complete and
    cannot, or is ignored, the next one counts.

    Returns:
        ``None`` if no lexeme has a temperature, or if there are several different ones.
    """
    found: set[float | None] = set()
    seen = {state}
    stack = [state]
    while stack and len(found) < 2:
        spend()
        node = stack.pop()
        behind: tuple[Node, ...] = ()
        match node:
            case Concatenation(head=head, tail=tail):
                behind = (head if head.first_bytes else tail,)
            case Union(members=members):
                behind = tuple(member for member in members if member.first_bytes)
            case Lexed():
                own = set(_temperatures(node))
                found |= own
                if node.is_start:
                    behind = tuple(language for language, _ in node.nested)
                elif not own:
                    behind = tuple(after for after in node.after_lexeme if after.first_bytes)
            case Lazy():
                behind = (node.expansion,)
            case _:
                found.add(None)
        for each in behind:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return found.pop() if len(found) == 1 else None


def same_temperature(state: Node, text: bytes) -> bool:
    """Whether all bytes of a text that begins a word of a state have one temperature."""
    first = temperature_of(state)
    for byte in text[:-1]:
        state = state.derivative(byte)
        if temperature_of(state) != first:
            return False
    return True


def _temperatures(state: Lexed) -> Iterator[float | None]:
    """Yield the temperatures of the terminals that the lexeme may be of."""
    items = state.lexer.items if isinstance(state.lexer, LexerState) else ()
    terminals = state.lexicon.terminals
    only_ignored = state.lexicon.ignored & ~state.parser.first_bytes
    for bit, residual in items:
        if residual.first_bytes and not bit & only_ignored:
            yield terminals[bit.bit_length() - 1].temperature
