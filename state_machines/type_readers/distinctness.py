"""Requirements on items of sets and on keys: hashable values, distinct texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Distinctness:
    """What items of a set and keys of an object have to be, while their schema is generated.

    Attributes:
        is_canonical: Whether different texts have to be different values, as for keys.
        is_hashable: Whether values have to be hashable, as items of a set have.
    """

    is_canonical = False
    is_hashable = False

    @contextmanager
    def distinct(self, *, canonical: bool) -> Iterator[None]:
        """Generate schemas of items of a set within a ``with`` block."""
        before = self.is_canonical, self.is_hashable
        self.is_canonical, self.is_hashable = self.is_canonical or canonical, True
        try:
            yield
        finally:
            self.is_canonical, self.is_hashable = before
