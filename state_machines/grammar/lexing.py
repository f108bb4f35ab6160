"""States of a grammar over lexemes: a lexer state and a parser state.

The texts of such a grammar are sequences of *lexemes*, each of a *terminal*, and the sequence of
terminals is a word of a context-free language. So there are two levels of derivatives, both of this
algebra. The parser state is a node over the alphabet of terminal numbers (a symbol set is an
``int`` whose bit *n* is terminal *n*). The lexer state is the set of the terminals that the parser
allows, each with the derivative of its language by the bytes of the lexeme so far.

Lexemes are longest matches: a lexeme ends before the first byte that no allowed terminal can
continue with. It is then complete for at least one terminal, and the parser takes all for which it
is.

A terminal can be *nested*: a language with its own structure, such as that of a JSON schema.
It is no part of the lexer's state. Where the parser allows it, its texts may follow, and may end
wherever they are complete, as if it were concatenated with the state behind it.

Some pairs of states have no word: a lexeme may only end before a byte that does
not continue it, and no lexeme that the parser allows may begin with one. :meth:`Lexed.is_live`
searches for a word (:mod:`~state_machines.grammar.liveness`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain

from state_machines.grammar.composition import Concatenation, concatenation, union
from state_machines.grammar.lexer import LexerState, terminals_in
from state_machines.grammar.lexicon import Lexicon
from state_machines.grammar.liveness import Exits, decided, exit_of, is_live_within
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    collect_transitions,
    intern_node,
    merge_transitions,
)
from state_machines.grammar.nodes import Repetition

MEASURED_TERMINALS = 4
"""Terminals up to which the length of the shortest text behind each is known to a state."""


class Lexed(Node):
    """The texts that may follow, before or within a lexeme.

    Attributes:
        lexicon: The terminals.
        lexer: The lexer's state; :data:`EMPTY` at the end of the text if nothing may follow.
        parser: The parser's state before the lexeme.
        may_ignore: Whether the lexeme may be one that is ignored.
        is_start: Whether no byte of the lexeme has been read.
        exits: Known properties of the texts from here; see :mod:`~state_machines.grammar.liveness`.
    """

    __slots__ = (
        "_after",
        "_nested",
        "_segment",
        "_top",
        "exits",
        "is_start",
        "lexer",
        "lexicon",
        "may_ignore",
        "parser",
    )

    def __init__(
        self, lexicon: Lexicon, lexer: Node, parser: Node, may_ignore: bool, is_start: bool
    ) -> None:
        self.lexicon = lexicon
        self.lexer = lexer
        self.parser = parser
        self.may_ignore = may_ignore
        self.is_start = is_start
        self._after: dict[int, tuple[Lexed, ...]] = {}
        self.exits = Exits()
        self._segment: tuple[Lexed | None, Node] | None = None
        self._top: tuple[Lexed, Lexed] | None = None
        self._nested: tuple[tuple[Node, Lexed], ...] | None = None
        after = self.after_lexeme
        nullable = parser.nullable if is_start else any(state.nullable for state in after)
        super().__init__(
            nullable=nullable,
            min_length=0 if nullable else max(1, self._least_length()),
            max_length=None,
        )

    def _least_length(self) -> int:
        """Return a lower bound on the length of words, by at least one byte for a terminal."""
        items = self.lexer.items if isinstance(self.lexer, LexerState) else ()
        if self.is_start or len(items) > MEASURED_TERMINALS:
            return self.parser.min_length - (0 if self.is_start else self.lexer.nullable)
        lengths = []
        for bit, residual in items:
            number = bit.bit_length() - 1
            behind = [self.parser.derivative(number)] if bit & self.parser.first_bytes else []
            behind += [self.parser] if bit & self.lexicon.ignored else []
            lengths += [residual.min_length + parser.min_length for parser in behind]
        return min(lengths, default=1)

    @property
    def segment(self) -> tuple[Lexed, Node]:
        """The state without the parser's stack below a symbol that is required, and that stack.

        Up to that symbol, tokens do not depend on the stack below it. States that differ in it have
        equal first parts.
        """
        known = self._segment
        if known is None:
            heads: list[Node] = []
            rest = self.parser
            while isinstance(rest, Concatenation):
                heads.append(rest.head)
                rest = rest.tail
                if not heads[-1].nullable:
                    break
            else:
                heads, rest = [self.parser], EPSILON
            parser = concatenation(*heads)
            is_start = self.is_start
            state = _lexed(self.lexicon, self.lexer, parser, self.may_ignore, is_start=is_start)
            assert isinstance(state, Lexed)
            # A state would hold itself.
            known = self._segment = None if state is self else state, rest
        top, stack = known
        return self if top is None else top, stack

    def below(self, stack: Node) -> Lexed:
        """Return the state before a lexeme with a stack below the parser's state."""
        state = _before(self.lexicon, concatenation(self.parser, stack), self.may_ignore)
        assert isinstance(state, Lexed)
        return state

    @property
    def after_lexeme(self) -> tuple[Lexed, ...]:
        """The states before the next lexeme, if the lexeme ends here; none if it cannot."""
        if self.is_start or not isinstance(self.lexer, LexerState):
            return ()
        return self.after(self.lexer.complete)

    def after(self, complete: int) -> tuple[Lexed, ...]:
        """Return the states before the next lexeme, after a lexeme of any of several terminals.

        They may be dead.
        """
        if not complete:
            return ()
        known = self._after.get(complete)
        if known is None:
            known = self._after[complete] = self._compute_after(complete)
        return known

    def _compute_after(self, complete: int) -> tuple[Lexed, ...]:
        lexicon = self.lexicon
        parsers = [self.parser.derivative(n) for n in terminals_in(complete & ~lexicon.ignored)]
        if complete & lexicon.ignored:
            # An ignored terminal may be one of the grammar's as well.
            parsers += [
                self.parser.derivative(n)
                for n in terminals_in(complete & lexicon.ignored & self.parser.first_bytes)
            ]
            if not lexicon.ignores_once:
                parsers.append(self.parser)
        parser = parsers[0] if len(parsers) == 1 else union(parsers)
        found = [_before(lexicon, parser, may_ignore=True)]
        if complete & lexicon.ignored and lexicon.ignores_once:
            found.append(_before(lexicon, self.parser, may_ignore=False))
        return tuple(state for state in found if isinstance(state, Lexed))

    @property
    def merge_key(self) -> Hashable | None:
        lexer = 0 if self.is_start else id(self.lexer)
        return (Lexed, id(self.lexicon), lexer, self.may_ignore, self.is_start)

    def merge(self, group: list[Node]) -> list[Node]:
        """Unite the parser states."""
        parser = union(node.parser for node in group)  # type: ignore[attr-defined]
        if self.is_start:
            return [before_lexeme(self.lexicon, parser, may_ignore=self.may_ignore)]
        return [_lexed(self.lexicon, self.lexer, parser, self.may_ignore, is_start=False)]

    @property
    def nested_texts(self) -> Iterator[Node]:
        """Yield the languages of nested terminals that may follow, and all that is behind them."""
        for language, behind in self.nested:
            if _is_live(behind):
                yield concatenation(language, behind)

    @property
    def nested(self) -> tuple[tuple[Node, Lexed], ...]:
        """The languages of nested terminals that may follow, each with the state behind it.

        The states may be dead.
        """
        known = self._nested
        if known is None:
            lexicon = self.lexicon
            allowed = self.parser.first_bytes & lexicon.nested if self.is_start else 0
            found = (
                (
                    lexicon.terminals[n].language,
                    _before(lexicon, self.parser.derivative(n), may_ignore=True),
                )
                for n in terminals_in(allowed)
            )
            known = tuple((each, state) for each, state in found if isinstance(state, Lexed))
            self._nested = known
        return known

    def _nested_next(self) -> Iterator[tuple[int, Node, Lexed]]:
        """Yield the nested terminals that may follow here or behind the lexeme.

        Each has the set of the bytes that it may begin with, its language and the state behind it.
        """
        if not self.lexicon.nested:
            return
        for language, behind in self.nested:
            yield -1, language, behind
        beyond = ~self.lexer.first_bytes
        for state in self.after_lexeme:
            for language, behind in state.nested:
                if language.first_bytes & beyond:
                    yield beyond, language, behind

    def _targets(self) -> Iterator[Transitions]:
        """Yield transitions; united with the transitions of nested terminals, they are the node's.

        Their targets may be dead.
        """
        own = tuple((members, self._within(lexer)) for members, lexer in self.lexer.transitions)
        yield own
        beyond = ~self.lexer.first_bytes
        for state in self.after_lexeme:
            for row in state._targets():
                yield tuple((m & beyond, target) for m, target in row if m & beyond)

    def in_lexeme(self, lexer: Node) -> Node:
        """Return the state within the lexeme at another state of the lexer."""
        node = EMPTY if lexer is EMPTY else self._within(lexer)
        return node if _is_live(node) else EMPTY

    def _within(self, lexer: Node) -> Node:
        """Return the state within the lexeme, which may be dead."""
        return _lexed(self.lexicon, lexer, self.parser, self.may_ignore, is_start=False)

    def compute_transitions(self) -> Transitions:
        rows = list(self._targets())
        rows = [tuple((m, t) for m, t in row if _is_live(t)) for row in rows]
        for beyond, language, behind in self._nested_next():
            if _is_live(behind):
                row = concatenation(language, behind).transitions
                rows.append(tuple((m & beyond, target) for m, target in row if m & beyond))
        return merge_transitions(rows, union) if len(rows) > 1 else collect_transitions(rows[0])

    def compute_first_bytes(self) -> int:
        if self.lexicon.nested:
            return super().compute_first_bytes()
        first = 0
        for row in self._targets():
            for members, target in row:
                first |= members if members & ~first and _is_live(target) else 0
        return first

    def compute_derivative(self, byte: int) -> Node:
        if self.lexicon.nested:
            return super().compute_derivative(byte)
        lexer = self.lexer.derivative(byte)
        if lexer is not EMPTY:
            return self.in_lexeme(lexer)
        return union(state.derivative(byte) for state in self.after_lexeme)

    def is_live(self) -> bool:
        """Whether a word is found from here."""
        if self.nullable:
            return True
        safe_ends = self.lexicon.safe_ends
        if self.is_start:
            return safe_ends.begins(self.parser.first_bytes) or decided(exit_of(self, 0))
        lexer = self.lexer
        if isinstance(lexer, LexerState) and safe_ends.is_safe(lexer):
            return True
        # The state before the lexeme knows the exits of other beginnings of it.
        before = _before(self.lexicon, self.parser, self.may_ignore)
        assert isinstance(before, Lexed)
        return is_live_within(before, lexer)

    @property
    def is_complete(self) -> bool:
        """Whether the parser's stack may be empty before the lexeme."""
        return self.is_start and self.parser.nullable

    @property
    def top(self) -> tuple[Lexed, Lexed | None]:
        """The first part of :attr:`segment`, and the state below it; before a lexeme."""
        known = self._top
        if known is None:
            top, stack = self.segment
            if stack is EPSILON:
                return self, None
            below = _before(self.lexicon, stack, may_ignore=True)
            assert isinstance(below, Lexed)
            known = self._top = top, below
        return known

    @property
    def repeated(self) -> Lexed | None:
        """The state before a body that the parser repeats several times."""
        parser = self.parser
        if not isinstance(parser, Repetition) or parser.min_count < 2:
            return None
        state = _before(self.lexicon, parser.body, self.may_ignore)
        return state if isinstance(state, Lexed) else None

    def release(self) -> Iterable[Node]:
        after, self._after = self._after, {}
        nested, self._nested = self._nested, None
        segment, self._segment = self._segment, None
        top, self._top = self._top, None
        exits, self.exits = self.exits, Exits()
        parts = (part for pair in nested or () for part in pair)
        return (
            *super().release(),
            self.lexer,
            self.parser,
            *chain(*after.values()),
            *parts,
            *exits.states,
            *(part for part in segment or () if part is not None),
            *(top or ()),
        )


def before_lexeme(lexicon: Lexicon, parser: Node, *, may_ignore: bool = True) -> Node:
    """Return the state before a lexeme; :data:`EMPTY` if no text follows.

    Args:
        lexicon: The terminals.
        parser: The parser's state; its words are sequences of terminals.
        may_ignore: Whether the lexeme may be one that is ignored.
    """
    node = _before(lexicon, parser, may_ignore)
    return node if _is_live(node) else EMPTY


def is_live_at(lexicon: Lexicon, parser: Node, lexer: LexerState) -> bool:
    """Whether a word is found within a lexeme, from a state of the parser before it.

    Raises:
        GrammarBudgetError: The search gave up.
    """
    node = _lexed(lexicon, lexer, parser, True, is_start=False)
    return _is_live(node)


def _before(lexicon: Lexicon, parser: Node, may_ignore: bool) -> Node:
    """Return the state before a lexeme, which may be dead."""
    allowed = parser.first_bytes
    if may_ignore and allowed:
        allowed |= lexicon.ignored
    return _lexed(lexicon, lexicon.start(allowed), parser, may_ignore, is_start=True)


def _is_live(node: Node) -> bool:
    return node is not EMPTY and (not isinstance(node, Lexed) or node.is_live())


def _lexed(
    lexicon: Lexicon, lexer: Node, parser: Node, may_ignore: bool, *, is_start: bool
) -> Node:
    """Return the node of a state, which may be dead."""
    if parser is EMPTY:
        return EMPTY
    if lexer is EMPTY:
        has_nested = lexicon.nested and parser.first_bytes & lexicon.nested
        if not is_start or not (parser.nullable or has_nested):
            return EMPTY
    key = ("Lexed", id(lexicon), id(lexer), id(parser), may_ignore, is_start)
    return intern_node(key, lambda: Lexed(lexicon, lexer, parser, may_ignore, is_start))
