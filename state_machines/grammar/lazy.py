"""Nodes that unfold when they are met: large grammars cost what is used of them, and recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from state_machines.grammar.node import Node, Transitions, intern_node

__all__ = ["Fan", "Lazy", "reference"]


class Fan(Node):
    """A node that can tell whole texts ahead, without being walked byte by byte."""

    __slots__ = ()

    def ways(self) -> Iterator[tuple[bytes, Node]]:
        """Yield texts, each with the node after it: those by which the end may be nearest.

        At least one. What is left out leads to no nearer end than what is not, or is one of many
        ways that hardly differ.
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def permuted(self) -> tuple[bytes, Node] | None:
        """Return a text that begins a part of every word, with the node after it.

        Only where parts come in any order: every word has a permutation that begins with the text.
        ``None`` where there is no such part.
        """
        return None


class Lazy(Node):
    """A node that is unfolded when its row is first needed; subclasses give :meth:`expand`.

    Recursion goes through lazy nodes. Subclasses say at birth whether they are nullable and give
    bounds on their words' length; they must consume a symbol before they meet themselves again.
    """

    __slots__ = ("_expansion",)

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
        """The equivalent node, made on first use."""
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


class _Reference(Lazy):
    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Node], nullable: bool, min_length: int) -> None:
        super().__init__(nullable=nullable, min_length=0 if nullable else min_length)
        self._make: Callable[[], Node] | None = make

    def release(self) -> Iterable[Node]:
        # It could not be expanded again.
        return ()

    def expand(self) -> Node:
        make = self._make
        if make is None:
            # Another thread has expanded it meanwhile.
            assert self._expansion is not None, "it is there before what makes it is dropped"
            return self._expansion
        target = make()
        if target.nullable != self.nullable:
            raise ValueError(f"the reference was declared nullable={self.nullable}; it is not so")
        self._expansion = target
        # Thousands of them are kept; what they were made from need not be.
        self._make = None
        return target


def reference(
    key: Hashable, make: Callable[[], Node], *, nullable: bool = False, min_length: int = 1
) -> Node:
    """Return a node that stands for ``make()``, called when it is first needed.

    References of equal ``key`` are one node, so a recursive grammar closes on itself. ``nullable``
    must be true to the target: it is asked before the target can exist; a word that is not empty
    has at least ``min_length`` symbols. The target must be
    productive (some word of finite length) and must not be left-recursive.
    """
    return intern_node(("_Reference", key), lambda: _Reference(make, nullable, min_length))
