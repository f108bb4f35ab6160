"""Nodes that unfold when they are met: large grammars cost what is used of them, and recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from state_machines.grammar.node import Node, Row, intern_node

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
        """Return an equivalent node; called once."""
        raise NotImplementedError  # pragma: no cover - abstract

    @property
    def expansion(self) -> Node:
        """The equivalent node, made on first use."""
        node = self._expansion
        if node is None:
            node = self._expansion = self.expand()
        return node

    def _make_row(self) -> Row:
        return self.expansion.row

    def _make_first_bytes(self) -> int:
        return self.expansion.first_bytes

    def step(self, byte: int) -> Node:
        return self.expansion.derivative(byte)


class _Reference(Lazy):
    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Node], nullable: bool) -> None:
        super().__init__(nullable=nullable, min_length=0 if nullable else 1)
        self._make = make

    def expand(self) -> Node:
        target = self._make()
        if target.nullable != self.nullable:
            raise ValueError(f"the reference was declared nullable={self.nullable}; it is not so")
        return target


def reference(key: Hashable, make: Callable[[], Node], *, nullable: bool = False) -> Node:
    """Return a node that stands for ``make()``, called when it is first needed.

    References of equal ``key`` are one node, so a recursive grammar closes on itself. ``nullable``
    must be true to the target: it is asked before the target can exist. The target must be
    productive (some word of finite length) and must not be left-recursive.
    """
    return intern_node((_Reference, key), lambda: _Reference(make, nullable))
