"""The state of one validation: shared results and the work budget."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from state_machines.budgets import spend

if TYPE_CHECKING:
    from ..results import Quotation

MIN_STEPS = 5_000
"""Steps of every validation, about 25 ms."""

STEPS_PER_VALUE = 16
"""Further steps for each value in the instance, and for each 64 characters of its strings."""

CHARACTERS_PER_VALUE = 64

MEMBERS_PER_STEP = 256
"""Members of a keyword's array or object per step."""

MAX_SEARCHED = 5_000
"""Largest number of objects and arrays of a schema that is searched for names of schemas."""

VALUES_PER_STEP = 32
"""Values that an error message shows per step."""


class UndecidedError(Exception):
    """The validator cannot decide a part of the schema."""


class Judgement:
    """The state of a validation; entering it makes it current for the thread or task.

    Attributes:
        known: Shared results. Keys contain the ``id`` of a part of the schema and of the instance;
            both live as long as the validation.
        base_uri: The URI of the whole schema.
        dynamic: Number of results so far that depend on the dynamic scope.
        limit: The budget, in steps.
        sources: The texts that strings are quoted from; ``None``: quotes are not checked.
        quotations: The quotes found, by number of the string and source.
    """

    __slots__ = (
        "_schema",
        "_searched",
        "_sizes",
        "_token",
        "base_uri",
        "dynamic",
        "known",
        "limit",
        "quotations",
        "sources",
    )

    def __init__(self, value: Any, schema: Any, sources: Mapping[str, str] | None = None) -> None:
        self.sources = sources
        self.quotations: dict[tuple[int, str], Quotation] = {}
        self._schema = schema
        self.base_uri = ""
        self._searched: int | None = None
        self.known: dict[Hashable, Any] = {}
        self.dynamic = 0
        self._sizes: dict[int, int] = {}
        self.limit = MIN_STEPS + STEPS_PER_VALUE * self._measure(value)
        self._token: Token[Judgement | None] | None = None

    def __enter__(self) -> Judgement:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)

    def size(self, value: Any) -> int:
        """Return the number of values in a part of the instance; 1 for a part it does not hold."""
        if isinstance(value, str):
            return 1 + len(value) // CHARACTERS_PER_VALUE
        return self._sizes.get(id(value), 1)

    def charge_search(self) -> None:
        """Charge the look-up of a schema by name, which searches the whole schema."""
        if self._searched is None:
            self._searched = 0
            stack = [self._schema]
            while stack and self._searched <= MAX_SEARCHED:
                found = stack.pop()
                if isinstance(found, list | dict):
                    self._searched += 1
                    stack.extend(found if isinstance(found, list) else found.values())
        if self._searched > MAX_SEARCHED:
            raise UndecidedError("a reference by name in a large schema")
        spend(self._searched)

    def _measure(self, value: Any) -> int:
        """Count the values in each container, without recursion."""
        sizes = self._sizes
        order: list[Any] = []
        stack = [value]
        while stack:
            found = stack.pop()
            if isinstance(found, list | dict) and id(found) not in sizes:
                sizes[id(found)] = 1
                order.append(found)
                stack.extend(found if isinstance(found, list) else found.values())
        for container in reversed(order):
            parts = container if isinstance(container, list) else container.values()
            sizes[id(container)] = 1 + sum(map(self.size, parts))
        return self.size(value)


_CURRENT: ContextVar[Judgement | None] = ContextVar("judgement", default=None)


def judgement() -> Judgement:
    """Return the current validation."""
    found = _CURRENT.get()
    if found is None:
        raise RuntimeError("no validation is running")
    return found


def charge(expected: Any, instance: Any) -> None:
    """Charge the work of one keyword with the value ``expected`` for an instance."""
    members = len(expected) if isinstance(expected, list | dict) else 0
    spend(1 + members // MEMBERS_PER_STEP + judgement().size(instance) // VALUES_PER_STEP)
