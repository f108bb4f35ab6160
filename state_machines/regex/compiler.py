r"""From the tree of a pattern to the language of the texts that match it.

Compiling runs backwards, with continuations: ``compile(e, k)`` is the language of what ``e``
matches and then ``k`` describes, *up to the end of the text*. So an assertion can say something
about all that follows, exactly and wherever it stands::

    $        the empty text if k allows it, else nothing
    (?=X)    k ∩ compile(X, anything)
    (?!X)    k ∩ ¬compile(X, anything)

What an assertion asks of its left is known from the last character before it. A continuation is
therefore one node for each *context*: context 0 is the start of the text, the others are classes
of the character to the left (one class, unless the pattern holds ``\b`` or a look-behind)::

    ^        k in context 0, nothing in any other
    \b       k, cut down to the first characters of the other kind than the context

Repetitions stay counters of the algebra. A body whose assertions look beyond its own end cannot be
repeated so: its language depends on what follows. A small bound is then unrolled; without bound
the two idioms ``((?!X)[set])*`` before the end of the text and ``(…$)*`` are still exact, and
anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

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
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.grammar.tries import trie
from state_machines.limits import LIMITS
from state_machines.regex.analysis import (
    context_classes,
    looks_ahead_by_end_alone,
    matches_empty_everywhere,
    shorten_leading_repetition,
    single_word,
    without_end_assertions,
)
from state_machines.regex.assertions import End, LookAhead, LookBehind, Start, WordBoundary
from state_machines.regex.parser import parse
from state_machines.syntax_tree import Alternatives, Characters, Expression, Repeat, Series

__all__ = ["compile_pattern"]

_ANYTHING = everything(ANY_CODE_POINT)

Continuation: TypeAlias = tuple[Node, ...]
"""What may follow, by context; see the module's docstring."""

_PATTERNS: WeakValueLruCache[tuple[str, bool], Node] = WeakValueLruCache(LIMITS.held_patterns)


def compile_pattern(pattern: str, *, search: bool) -> Node:
    """Return the language, over code points, of the texts that match the pattern.

    With ``search`` a match anywhere in the text counts (the ``pattern`` of JSON Schema); without,
    the whole text must match. Assertions see the text from its start to its end in both cases.
    The result may be :data:`~state_machines.grammar.node.EMPTY` (``a^``).

    Raises :class:`~state_machines.errors.InvalidPatternError` where the text is no regular
    expression and :class:`~state_machines.errors.UnsupportedPatternError` where its language
    cannot be given exactly: back-references, look-behind of more than one character, most
    assertions inside unbounded repetitions.
    """
    return _PATTERNS.get((pattern, search), lambda: _compile(pattern, search))


def _compile(pattern: str, search: bool) -> Node:
    try:
        with step_budget(LIMITS.compile_steps):
            tree = parse(pattern)
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

    def uniform(self, node: Node) -> Continuation:
        """Return the continuation that is the same in all contexts."""
        return (node,) * (1 + len(self.classes))

    def unsupported(self, what: str, position: int) -> UnsupportedPatternError:
        return UnsupportedPatternError(what, pattern=self.pattern, position=position)

    def anywhere(self, tree: Expression) -> Node:
        """Return the texts with a match somewhere inside."""
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

    def compile(self, tree: Expression, then: Continuation) -> Continuation:
        """Return the language of ``tree`` and then ``then``, to the end of the text."""
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
            case Alternatives():
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

    def characters(self, members: CodePointSet, then: Continuation) -> Continuation:
        if all(node is then[1] for node in then[2:]):
            return self.uniform(concatenation(symbols(members), then[1]))
        return self.uniform(
            union(
                concatenation(symbols(members & left), node)
                for left, node in zip(self.classes, then[1:], strict=True)
            )
        )

    def alternation(self, tree: Alternatives, then: Continuation) -> Continuation:
        words = [single_word(branch) for branch in tree.branches]
        found: list[Continuation] = []
        if _is_uniform(then) and sum(word is not None for word in words) > 1:
            plain = trie(((word, EPSILON) for word in words if word is not None), code_points)
            found.append(self.uniform(self.joined(plain, then[0])))
        else:
            words = [None] * len(words)
        for branch_tree, word in zip(tree.branches, words, strict=True):
            if word is None:
                found.append(self.compile(branch_tree, then))
        return _union(found)

    # Assertions

    def word_boundary(self, tree: WordBoundary, then: Continuation) -> Continuation:
        word, other = tree.word, ~tree.word
        if tree.negated:
            word, other = other, word
        result = [_starting(then[0], word, at_end=tree.negated)]
        for left, node in zip(self.classes, then[1:], strict=True):
            after_word = bool(left & tree.word)
            kept = other if after_word else word
            result.append(_starting(node, kept, at_end=after_word != tree.negated))
        return tuple(result)

    def look_behind(self, tree: LookBehind, then: Continuation) -> Continuation:
        result = [then[0] if tree.negated else EMPTY]
        for left, node in zip(self.classes, then[1:], strict=True):
            result.append(node if bool(left & tree.members) != tree.negated else EMPTY)
        return tuple(result)

    def look_ahead(self, tree: LookAhead, then: Continuation) -> Continuation:
        if isinstance(tree.body, Characters):
            members = ~tree.body.members if tree.negated else tree.body.members
            return _each(then, lambda node: _starting(node, members, at_end=tree.negated))
        condition = self.compile(tree.body, self.anything)
        if tree.negated:
            condition = _each(condition, lambda node: complement(node, ANY_CODE_POINT))
        return tuple(_meet(node, wanted) for node, wanted in zip(then, condition, strict=True))

    # Repetition

    def repeat(self, tree: Repeat, then: Continuation) -> Continuation:
        if tree.max_count == 0:
            return then
        body, min_count, max_count = tree.body, tree.min_count, tree.max_count
        if body.max_length == 0:  # only assertions: once is as good as often
            return then if min_count == 0 else self.compile(body, then)
        if body.reach <= 0:
            alone = self.compile(body, self.end)
            if _is_uniform(alone):
                if _is_uniform(then) and then[0] is _ANYTHING:
                    max_count = min_count
                return self.counted(repetition(alone[0], min_count, max_count), then)
            if body.min_length and _is_uniform(alone[1:]):
                # Only the first round can stand at the start of the text.
                left = None if max_count is None else max_count - 1
                rest = repetition(alone[1], max(min_count - 1, 0), left)
                first = self.compile(body, self.counted(rest, then))
                return _union([then, first]) if min_count == 0 else first
        return self.dependent(tree, then)

    def counted(self, language: Node, then: Continuation) -> Continuation:
        """Return ``language``, which depends on nothing around it, and then ``then``."""
        if _is_uniform(then):
            return self.uniform(self.joined(language, then[0]))
        if _is_uniform(then[1:]):
            some = concatenation(branch(language.transitions), then[1])
        else:
            some = union(self._before(language, then))
        if not language.nullable:
            return self.uniform(some)
        return _each(then, lambda node: union((node, some)))

    def joined(self, language: Node, then: Node) -> Node:
        """Return ``concatenation(language, then)`` unless too many parts in a row are optional."""
        run, node = 0, then
        while language.nullable and isinstance(node, Concatenation) and node.head.nullable:
            run, node = run + 1, node.tail
        if run >= LIMITS.adjacent_optional_parts:
            raise self.unsupported(
                f"more than {LIMITS.adjacent_optional_parts} optional parts in a row", 0
            )
        return concatenation(language, then)

    def _before(self, language: Node, then: Continuation) -> Iterator[Node]:
        """Split the non-empty words by their last character, which decides on the context."""
        for left, node in zip(self.classes, then[1:], strict=True):
            if isinstance(language, Repetition) and isinstance(language.body, SymbolNode):
                max_count = None if language.max_count is None else language.max_count - 1
                before = repetition(language.body, max(language.min_count - 1, 0), max_count)
                yield concatenation(before, symbols(language.body.symbols & left), node)
            else:
                yield concatenation(_meet(language, concatenation(_ANYTHING, symbols(left))), node)

    def dependent(self, tree: Repeat, then: Continuation) -> Continuation:
        """Repeat a body whose assertions look beyond it."""
        body, min_count, max_count = tree.body, tree.min_count, tree.max_count
        if max_count is None:
            result = self.tempered(tree, then) or self.ending(tree, then)
            if result is None:
                raise self.unsupported("an assertion inside an unbounded repetition", tree.position)
            return result
        self.unrolled += max_count
        if self.unrolled > LIMITS.unrolled_copies:
            raise self.unsupported(
                f"an assertion inside a repetition of more than {LIMITS.unrolled_copies} copies",
                tree.position,
            )
        result = then
        for _ in range(max_count - min_count):
            result = _union([then, self.compile(body, result)])
        for _ in range(min_count):
            result = self.compile(body, result)
        return result

    def tempered(self, tree: Repeat, then: Continuation) -> Continuation | None:
        """``((?!X)[set])*`` at the end of the text: no suffix of the repetition matches X."""
        match tree.body:
            case Series(parts=(LookAhead(looks_left=False) as ahead, Characters() as one)):
                pass
            case _:
                return None
        if not (_is_uniform(then) and then[0] is EPSILON):
            return None
        language = repetition(symbols(one.members), tree.min_count, None)
        condition = self.compile(ahead.body, self.anything)[0]
        if not ahead.negated:
            condition = complement(condition, ANY_CODE_POINT)
        some = concatenation(symbols(ANY_CODE_POINT), _ANYTHING)
        bad = concatenation(_ANYTHING, _meet(condition, some))
        return self.uniform(_meet(language, complement(bad, ANY_CODE_POINT)))

    def ending(self, tree: Repeat, then: Continuation) -> Continuation | None:
        """``(…|$)*``: past ``$`` the text is over, so only a last round can go through it."""
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


def _is_uniform(then: Continuation) -> bool:
    return all(node is then[0] for node in then)


def _each(then: Continuation, change: Callable[[Node], Node]) -> Continuation:
    changed = {node: change(node) for node in then}
    return tuple(changed[node] for node in then)


def _union(continuations: Sequence[Continuation]) -> Continuation:
    return tuple(union(nodes) for nodes in zip(*continuations, strict=True))


def _meet(left: Node, right: Node) -> Node:
    """Return the intersection; :data:`EMPTY` where it holds no text."""
    node = intersection((left, right))
    return EMPTY if node.is_empty else node


def _starting(node: Node, members: CodePointSet, *, at_end: bool) -> Node:
    """Return the words whose first character is a member, and the empty one if ``at_end``."""
    return branch(
        ((symbols & members, target) for symbols, target in node.transitions if symbols & members),
        nullable=node.nullable and at_end,
    )


def _after_anything(node: Node) -> Node:
    """Return ``node`` behind any text, without doubling a beginning that is any text already."""
    head = node.head if isinstance(node, Concatenation) else node
    if isinstance(head, Repetition) and head.is_universal:
        return node
    return concatenation(_ANYTHING, node)
