"""The terminals of a grammar over lexemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from state_machines.grammar.lexer import lexer_state, terminals_in
from state_machines.grammar.node import Node
from state_machines.grammar.safe_ends import SafeEnds


@dataclass(frozen=True, slots=True)
class TerminalLanguage:
    """A terminal: the name of a class of lexemes, and their texts.

    Attributes:
        name: The name in the grammar, or the text of an anonymous terminal.
        language: The texts of its lexemes, over bytes. The empty text is no lexeme.
        is_lazy: Whether a lexeme ends as soon as its text is in the language.
        is_nested: Whether the texts are no lexemes, and may end wherever they are complete.
        ending: The texts at the end of lexemes that captures leave out.
        before_ending: The texts in front of ``ending``.
        temperature: The sampling temperature of lexemes; ``None``: that of other text.
    """

    name: str = field(compare=False)
    language: Node
    is_lazy: bool = False
    is_nested: bool = False
    ending: Node | None = None
    before_ending: Node | None = None
    temperature: float | None = None


class Lexicon:
    """The terminals of a grammar, and how texts are divided into their lexemes.

    Args:
        terminals: The terminals by number. Their languages do not have the empty word.
        ignored: The set of terminals whose lexemes may follow any other lexeme.
        followers: By terminal of the parser, the terminals that a shortest rest of a text may go
            on with behind it, and perhaps others, as a set.
        ignores_once: Whether at most one ignored lexeme stands between two others.
    """

    def __init__(
        self,
        terminals: Sequence[TerminalLanguage],
        ignored: int,
        followers: Mapping[int, int],
        *,
        ignores_once: bool = False,
    ) -> None:
        self.terminals = tuple(terminals)
        self.ignored = ignored
        self._followers = followers
        self.ignores_once = ignores_once
        self.lazy = sum(1 << n for n, each in enumerate(terminals) if each.is_lazy)
        self.nested = sum(1 << n for n, each in enumerate(terminals) if each.is_nested)
        self._starts: dict[int, Node] = {}

    def start(self, allowed: int) -> Node:
        """Return the lexer's state before a lexeme of one of the allowed terminals."""
        known = self._starts.get(allowed)
        if known is None:
            lexemes = terminals_in(allowed & ~self.nested)
            items = ((1 << n, self.terminals[n].language) for n in lexemes)
            known = self._starts[allowed] = lexer_state(items, self.lazy & allowed)
        return known

    @cached_property
    def safe_ends(self) -> SafeEnds:
        """The ends of lexemes behind which every text of the parser can follow."""
        languages = [None if each.is_nested else each.language for each in self.terminals]
        return SafeEnds(
            languages, self._followers, self.lazy, self.ignored, ignores_once=self.ignores_once
        )
