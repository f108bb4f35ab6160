"""JSON Pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def reference_token(name: str) -> str:
    """Return the reference token of a member's name."""
    return name.replace("~", "~0").replace("/", "~1")


def json_pointer(location: Iterable[int | str]) -> str:
    """Return the pointer of keys and indices; each name is cut to 80 characters."""
    return "".join(f"/{reference_token(str(name)[:80])}" for name in location)


def prefixes(pointer: str) -> Iterator[str]:
    """Yield ``pointer`` and the pointers of the values that contain it."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""
