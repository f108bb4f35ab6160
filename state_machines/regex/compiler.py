r"""Compile the syntax tree of a pattern to the language of the texts that match it.

The compiler works backwards, in continuation-passing style: ``compile(e, k)`` is the language of a
text of ``e`` followed by a text of ``k``, *up to the end of the whole text*. So an assertion can
constrain everything that follows, exactly and at any position::

    $        the empty text if k allows it, else nothing
    (?=X)    k ∩ compile(X, anything)
    (?!X)    k ∩ ¬compile(X, anything)

An assertion about the left depends on the last character before it. A continuation therefore has
one node for each *context*. Context 0 is the start of the text. The others are classes of the
character to the left: one class, unless the pattern contains ``\b`` or a look-behind::

    ^        k in context 0, nothing in any other
    \b       k, restricted to first characters of the other kind than the context

A repetition becomes a counter of the algebra. That is not possible for a body whose assertions
look beyond its end, since its language depends on what follows. Such a body is unrolled if its
bound is small. Without a bound, the two idioms ``((?!X)[set])*`` close to the end of the text and
``(…$)*`` are compiled exactly, and all others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from state_machines.budgets import step_budget
from state_machines.caches import WeakValueLruCache
from state_machines.errors import GrammarBudgetError, UnsupportedPatternError
from state_machines.grammar.boolean import complement, everything, intersection
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    Concatenation,
    Repetition,
    SymbolNode,
    branch,
    concatenation,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet
from state_machines.grammar.word_lists import literals
from state_machines.limits import LIMITS
from state_machines.regex import python_syntax, rust_syntax
from state_machines.regex.analysis import (
    context_classes,
    looks_ahead_by_end_alone,
    matches_empty_everywhere,
    shorten_leading_repetition,
    single_word,
    without_end_assertions,
)
from state_machines.regex.parser import parse
from state_machines.syntax_tree import (
    Characters,
    Choice,
    End,
    Expression,
    LookAhead,
    LookBehind,
    Repeat,
    Series,
    Start,
    WordBoundary,
)

_UNROLLED_COPIES = 500
"""Copies of bodies to which a pattern's repetitions with assertions are unrolled."""

_MAX_ENDING = 8
"""Characters of the longest text behind ``((?!X)[set])*``."""

_HELD_PATTERNS = 64
"""Compiled patterns that are held although no machine is."""

_ANYTHING = everything(ANY_CODE_POINT)

_Continuation: TypeAlias = tuple[Node, ...]
"""One node for each context."""

PatternDialect: TypeAlias = Literal["ecma", "rust", "python"]
"""Dialects of patterns: ECMA-262, Rust's ``regex`` crate and Python's ``re``."""

_PARSERS: dict[PatternDialect, tuple[Callable[[str, str], Expression], frozenset[str]]] = {
    "ecma": (parse, frozenset("iu")),
    "rust": (rust_syntax.parse, rust_syntax.RustReader.flag_letters),
    "python": (python_syntax.parse, frozenset(python_syntax.FLAG_LETTERS)),
}
"""The parser of each dialect, and the letters of its flags."""

_PATTERNS: WeakValueLruCache[tuple[str, bool, PatternDialect, str], Node] = WeakValueLruCache(
    _HELD_PATTERNS
)


def compile_pattern(
    pattern: str, *, search: bool, dialect: PatternDialect = "ecma", flags: str = ""
) -> Node:
    """Return the language of the texts that match a pattern, over code points.

    Args:
        pattern: The pattern.
        search: Whether a match anywhere in the text counts, as for ``pattern`` in JSON Schema,
            in pydantic and in msgspec. Otherwise the whole text must match. Assertions see the
            whole text in both cases.
        dialect: The dialect of the pattern: ``"ecma"`` (with the flag ``u``), ``"rust"`` (the
            ``regex`` crate) or ``"python"`` (``re``).
        flags: Letters of flags that are set from the start: of ``iu`` in ECMA-262, of ``imsuxRU``
            in Rust, of ``aimsux`` in Python.

    Returns:
        The language; :data:`~state_machines.grammar.node.EMPTY` if nothing matches (``a^``).

    Raises:
        InvalidPatternError: The text is no regular expression.
        UnsupportedPatternError: The language cannot be computed exactly: back-references,
            look-behind of more than one character, most assertions inside unbounded repetitions.
    """
    return _PATTERNS.get(
        (pattern, search, dialect, flags), lambda: _compile(pattern, search, dialect, flags)
    )


def _compile(pattern: str, search: bool, dialect: PatternDialect, flags: str) -> Node:
    parser, letters = _PARSERS[dialect]
    for letter in flags:
        if letter not in letters:
            raise UnsupportedPatternError(
                f"the flag {letter!r}",
                pattern=pattern,
                position=0,
                hint=f"Flags of this dialect are {', '.join(sorted(letters))}",
            )
    try:
        with step_budget(LIMITS.compile_steps):
            tree = parser(pattern, flags)
            compiler = _Compiler(pattern, tree)
            return compiler.anywhere(tree) if search else compiler.compile(tree, compiler.end)[0]
    except GrammarBudgetError as error:
        raise UnsupportedPatternError(
            f"a pattern that takes more than {error.budget:,} steps", pattern=pattern, position=0
        ) from error
    except RecursionError as error:
        raise UnsupportedPatternError(
            "a pattern that is nested too deeply", pattern=pattern, position=0
        ) from error


class _Compiler:
    """Compiles the tree of one pattern."""

    def __init__(self, pattern: str, tree: Expression) -> None:
        self.pattern = pattern
        self.unrolled = 0
        self.classes = context_classes(tree)
        self.end = self.uniform(EPSILON)
        self.anything = self.uniform(_ANYTHING)

    def uniform(self, node: Node) -> _Continuation:
        """Return the continuation with the same node in all contexts."""
        return (node,) * (1 + len(self.classes))

    def unsupported(self, what: str, position: int) -> UnsupportedPatternError:
        return UnsupportedPatternError(what, pattern=self.pattern, position=position)

    def anywhere(self, tree: Expression) -> Node:
        """Return the texts that contain a match."""
        tree = shorten_leading_repetition(tree)
        found = self.compile(tree, self.anything)
        if _is_uniform(found):
            return _after_anything(found[0])
        later = [
            _after_anything(concatenation(symbols(members), node))
            if members is not ANY_CODE_POINT
            else concatenation(symbols(members), _after_anything(node))
            for members, node in zip(self.classes, found[1:], strict=True)
        ]
        return union([found[0], *later])

    def compile(self, tree: Expression, then: _Continuation) -> _Continuation:
        """Return the language of ``tree`` followed by ``then``, to the end of the text."""
        if _is_uniform(then):
            if then[0] is EMPTY:
                return then
            if then[0] is _ANYTHING and matches_empty_everywhere(tree):
                return then
        match tree:
            case Characters():
                return self.characters(tree.members, then)
            case Series():
                for part in reversed(tree.parts):
                    then = self.compile(part, then)
                return then
            case Choice():
                return self.alternation(tree, then)
            case Repeat():
                return self.repeat(tree, then)
            case Start():
                return (then[0], *(EMPTY for _ in then[1:]))
            case End():
                return _each(then, lambda node: EPSILON if node.nullable else EMPTY)
            case WordBoundary():
                return self.word_boundary(tree, then)
            case LookBehind():
                return self.look_behind(tree, then)
            case LookAhead():
                return self.look_ahead(tree, then)
        raise AssertionError(f"{tree!r} is not an expression of a pattern")

    def characters(self, members: CodePointSet, then: _Continuation) -> _Continuation:
        if all(node is then[1] for node in then[2:]):
            return self.uniform(concatenation(symbols(members), then[1]))
        return self.uniform(
            union(
                concatenation(symbols(members & left), node)
                for left, node in zip(self.classes, then[1:], strict=True)
            )
        )

    def alternation(self, tree: Choice, then: _Continuation) -> _Continuation:
        words = [single_word(branch) for branch in tree.branches]
        found: list[_Continuation] = []
        if _is_uniform(then) and sum(word is not None for word in words) > 1:
            plain = literals("".join(map(chr, word)) for word in words if word is not None)
            found.append(self.uniform(self._concatenation(plain, then[0])))
        else:
            words = [None] * len(words)
        for branch_tree, word in zip(tree.branches, words, strict=True):
            if word is None:
                found.append(self.compile(branch_tree, then))
        return _union(found)

    # Assertions

    def word_boundary(self, tree: WordBoundary, then: _Continuation) -> _Continuation:
        word, other = tree.word, tree.other
        after_word, after_other = (word, other) if tree.negated else (other, word)
        result = [_starting(then[0], after_other, at_end=tree.negated)]
        for left, node in zip(self.classes, then[1:], strict=True):
            if left & word:
                result.append(_starting(node, after_word, at_end=not tree.negated))
            elif left & other:
                result.append(_starting(node, after_other, at_end=tree.negated))
            else:
                result.append(EMPTY)
        return tuple(result)

    def look_behind(self, tree: LookBehind, then: _Continuation) -> _Continuation:
        result = [then[0] if tree.negated else EMPTY]
        for left, node in zip(self.classes, then[1:], strict=True):
            result.append(node if bool(left & tree.members) != tree.negated else EMPTY)
        return tuple(result)

    def look_ahead(self, tree: LookAhead, then: _Continuation) -> _Continuation:
        if isinstance(tree.body, Characters):
            members = ~tree.body.members if tree.negated else tree.body.members
            return _each(then, lambda node: _starting(node, members, at_end=tree.negated))
        condition = self.compile(tree.body, self.anything)
        if tree.negated:
            condition = _each(condition, lambda node: complement(node, ANY_CODE_POINT))
        return tuple(_meet(node, wanted) for node, wanted in zip(then, condition, strict=True))

    # Repetition

    def repeat(self, tree: Repeat, then: _Continuation) -> _Continuation:
        if tree.max_count == 0:
            return then
        body, min_count, max_count = tree.body, tree.min_count, tree.max_count
        if body.max_length == 0:  # Only assertions: further rounds change nothing.
            return then if min_count == 0 else self.compile(body, then)
        if body.reach <= 0:
            alone = self.compile(body, self.end)
            if _is_uniform(alone):
                if _is_uniform(then) and then[0] is _ANYTHING:
                    max_count = min_count
                return self.counted(repetition(alone[0], min_count, max_count), then)
            if body.min_length and _is_uniform(alone[1:]):
                # Only the first round can be at the start of the text.
                left = None if max_count is None else max_count - 1
                rest = repetition(alone[1], max(min_count - 1, 0), left)
                first = self.compile(body, self.counted(rest, then))
                return _union([then, first]) if min_count == 0 else first
        return self.dependent(tree, then)

    def counted(self, language: Node, then: _Continuation) -> _Continuation:
        """Return ``language``, which does not depend on its context, followed by ``then``."""
        if _is_uniform(then):
            return self.uniform(self._concatenation(language, then[0]))
        if _is_uniform(then[1:]):
            some = concatenation(branch(language.transitions), then[1])
        else:
            some = union(self._before(language, then))
        if not language.nullable:
            return self.uniform(some)
        return _each(then, lambda node: union((node, some)))

    def _concatenation(self, language: Node, then: Node) -> Node:
        """Return ``concatenation(language, then)``; raise for too many adjacent optional parts."""
        count, node = 0, then
        while language.nullable and isinstance(node, Concatenation) and node.head.nullable:
            count, node = count + 1, node.tail
        if count >= LIMITS.adjacent_optional_parts:
            raise self.unsupported(
                f"more than {LIMITS.adjacent_optional_parts} optional parts in a row", 0
            )
        return concatenation(language, then)

    def _before(self, language: Node, then: _Continuation) -> Iterator[Node]:
        """Split the non-empty words by their last character, which determines the context."""
        for left, node in zip(self.classes, then[1:], strict=True):
            if isinstance(language, Repetition) and isinstance(language.body, SymbolNode):
                max_count = None if language.max_count is None else language.max_count - 1
                before = repetition(language.body, max(language.min_count - 1, 0), max_count)
                yield concatenation(before, symbols(language.body.symbols & left), node)
            else:
                yield concatenation(_meet(language, concatenation(_ANYTHING, symbols(left))), node)

    def dependent(self, tree: Repeat, then: _Continuation) -> _Continuation:
        """Repeat a body whose assertions look beyond its end."""
        body, min_count, max_count = tree.body, tree.min_count, tree.max_count
        if max_count is None:
            result = self.tempered(tree, then) or self.ending(tree, then)
            if result is None:
                raise self.unsupported("an assertion inside an unbounded repetition", tree.position)
            return result
        self.unrolled += max_count
        if self.unrolled > _UNROLLED_COPIES:
            raise self.unsupported(
                f"an assertion inside a repetition of more than {_UNROLLED_COPIES} copies",
                tree.position,
            )
        result = then
        for _ in range(max_count - min_count):
            result = _union([then, self.compile(body, result)])
        for _ in range(min_count):
            result = self.compile(body, result)
        return result

    def tempered(self, tree: Repeat, then: _Continuation) -> _Continuation | None:
        """Compile ``((?!X)[set])*`` before a short end of the text: no suffix may match X.

        The suffixes begin inside the repetition, so they are longer than the end.
        """
        match tree.body:
            case Series(parts=(LookAhead(looks_left=False) as ahead, Characters() as one)):
                pass
            case _:
                return None
        longest = then[0].max_length
        if not _is_uniform(then) or longest is None or longest > _MAX_ENDING:
            return None
        language = repetition(symbols(one.members), tree.min_count, None)
        condition = self.compile(ahead.body, self.anything)[0]
        if not ahead.negated:
            condition = complement(condition, ANY_CODE_POINT)
        any_symbol = symbols(ANY_CODE_POINT)
        found: list[Node] = []
        for length in range(then[0].min_length, longest + 1):
            end = _meet(then[0], repetition(any_symbol, length, length))
            longer = repetition(any_symbol, length + 1, None)
            bad = concatenation(_ANYTHING, _meet(condition, longer))
            found.append(_meet(concatenation(language, end), complement(bad, ANY_CODE_POINT)))
        return self.uniform(union(found))

    def ending(self, tree: Repeat, then: _Continuation) -> _Continuation | None:
        """Compile ``(…|$)*``: the text ends at ``$``, so only the last round can reach it."""
        if not _is_uniform(then) or tree.body.looks_left or not looks_ahead_by_end_alone(tree.body):
            return None
        inner = self.compile(without_end_assertions(tree.body), self.end)[0]
        before = repetition(inner, max(tree.min_count - 1, 0), None)
        rounds = [concatenation(repetition(inner, tree.min_count, None), then[0])]
        if then[0].nullable:
            last = self.compile(tree.body, self.end)[0]
            if last.nullable:
                before = repetition(inner, 0, None)
            rounds.append(concatenation(before, last))
        return self.uniform(union(rounds))


def _is_uniform(then: _Continuation) -> bool:
    return all(node is then[0] for node in then)


def _each(then: _Continuation, change: Callable[[Node], Node]) -> _Continuation:
    changed = {node: change(node) for node in then}
    return tuple(changed[node] for node in then)


def _union(continuations: Sequence[_Continuation]) -> _Continuation:
    return tuple(union(nodes) for nodes in zip(*continuations, strict=True))


def _meet(left: Node, right: Node) -> Node:
    """Return the intersection; :data:`EMPTY` if it has no words."""
    node = intersection((left, right))
    return EMPTY if node.is_empty else node


def _starting(node: Node, members: CodePointSet, *, at_end: bool) -> Node:
    """Return the words that begin with a member, and the empty word if ``at_end``."""
    return branch(
        ((symbols & members, target) for symbols, target in node.transitions if symbols & members),
        nullable=node.nullable and at_end,
    )


def _after_anything(node: Node) -> Node:
    """Return ``node`` after any text; a node that begins with any text is returned as it is."""
    head = node.head if isinstance(node, Concatenation) else node
    if isinstance(head, Repetition) and head.is_universal:
        return node
    return concatenation(_ANYTHING, node)
