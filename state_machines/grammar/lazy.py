"""Nodes that expand on demand, for recursion and for large grammars."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from state_machines.grammar.node import Node, Transitions, intern_node
from state_machines.grammar.symbols import CodePointSet


class WordTransitions(Node):
    """A node that also has transitions by whole byte strings."""

    __slots__ = ()

    def word_transitions(self) -> Iterator[tuple[bytes, Node]]:
        """Yield byte strings, each with the derivative by it; at least one.

        These include a beginning of a shortest word, or of one that is hardly longer.
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def common_transition(self) -> tuple[bytes, Node] | None:
        """Return a byte string that begins a permutation of every word, with the derivative.

        ``None`` unless parts may come in any order, and one of them is required.
        """
        return None


class Lazy(Node):
    """A node that is expanded when its transitions are first needed, by :meth:`expand`.

    Recursion goes through lazy nodes. A subclass knows on creation whether it is nullable, and
    bounds on the length of its words. Its expansion must not be left-recursive.
    """

    __slots__ = ("_expansion",)

    is_composite = False
    """Whether the node is a value with members, or the rest of one: an array or an object."""

    def __init__(
        self, *, nullable: bool = False, min_length: int = 0, max_length: int | None = None
    ) -> None:
        super().__init__(nullable=nullable, min_length=min_length, max_length=max_length)
        self._expansion: Node | None = None

    def expand(self) -> Node:
        """Return an equivalent node; called again only after :meth:`release`."""
        raise NotImplementedError  # pragma: no cover - abstract

    @property
    def expansion(self) -> Node:
        """The equivalent node, created on first use."""
        node = self._expansion
        if node is None:
            node = self._expansion = self.expand()
        return node

    def release(self) -> Iterable[Node]:
        expansion, self._expansion = self._expansion, None
        found = super().release()
        return found if expansion is None else (*found, expansion)

    def compute_transitions(self) -> Transitions:
        return self.expansion.transitions

    def compute_first_bytes(self) -> int:
        return self.expansion.first_bytes

    def compute_derivative(self, byte: int) -> Node:
        return self.expansion.derivative(byte)


class Deferred(Lazy):
    """A node that stands for the result of a function.

    Attributes:
        symbols: The symbols of its words and perhaps others; ``None`` if they are not known.
        is_deferred: Whether the function is costly and should not be called for a comparison alone.
    """

    __slots__ = ("_make", "is_deferred", "symbols")

    def __init__(
        self,
        make: Callable[[], Node],
        nullable: bool,
        min_length: int,
        symbols: CodePointSet | None,
        is_deferred: bool,
    ) -> None:
        super().__init__(nullable=nullable, min_length=0 if nullable else min_length)
        self._make: Callable[[], Node] | None = make
        self.symbols = symbols
        self.is_deferred = is_deferred

    def release(self) -> Iterable[Node]:
        # A reference cannot be expanded again.
        return ()

    def expand(self) -> Node:
        make = self._make
        if make is None:
            # Another thread has expanded it meanwhile.
            assert self._expansion is not None, "set before _make is dropped"
            return self._expansion
        target = make()
        if target.nullable != self.nullable:
            raise ValueError(f"the reference was declared nullable={self.nullable}, and is not")
        self._expansion = target
        self.is_deferred = False
        # Thousands of references are alive; the objects that _make holds need not be.
        self._make = None
        return target


def reference(
    key: Hashable,
    make: Callable[[], Node],
    *,
    nullable: bool = False,
    min_length: int = 1,
    symbols: CodePointSet | None = None,
    is_deferred: bool = False,
) -> Node:
    """Return a node that stands for ``make()``, which is called when it is first needed.

    Args:
        key: References with equal keys are one node, so a recursive grammar closes on itself.
        make: Returns the target. It must have a word, and must not be left-recursive.
        nullable: Whether the target is nullable.
        min_length: A lower bound on the length of the target's words other than the empty one.
        symbols: The symbols of the target's words, and perhaps others; ``None`` if not known.
        is_deferred: Whether ``make`` is costly: a search for short texts does not call it to
            compare a text with others.
    """
    return intern_node(
        ("Deferred", key),
        lambda: Deferred(make, nullable, min_length, symbols, is_deferred),
    )
