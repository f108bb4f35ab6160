"""Smaller schemas and values that show the same defect."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from subschemas import replaced

__all__ = ["shrunk"]


def shrunk(value: Any, shows_it: Callable[[Any], bool], *, seconds: float) -> Any:
    """Return a value that still shows it, with nothing left that can be taken out alone."""
    deadline = time.monotonic() + seconds
    tried: set[str] = set()
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(value):
            if time.monotonic() > deadline:
                return value
            text = json.dumps(candidate)
            if text in tried:
                continue
            tried.add(text)
            if shows_it(candidate):
                value, progress = candidate, True
                break
    return value


def _smaller(root: Any) -> Iterator[Any]:
    """Yield the values with one part taken out, lifted or made plainer; large cuts first."""
    level: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while level:
        below = []
        for path, part in level:
            for candidate in _simpler(part):
                yield replaced(root, path, candidate)
            children: Any = ()
            if isinstance(part, dict):
                children = part.items()
            elif isinstance(part, list):
                children = enumerate(part)
            below.extend(((*path, key), item) for key, item in children)
        level = below


def _simpler(part: Any) -> Iterator[Any]:
    match part:
        case dict():
            yield from (v for v in part.values() if isinstance(v, dict))
            for value in part.values():
                if isinstance(value, list):
                    yield from (item for item in value if isinstance(item, dict))
            for key in part:
                yield {k: v for k, v in part.items() if k != key}
        case list():
            half = len(part) // 2
            if half:
                yield part[:half]
                yield part[half:]
            for index in range(len(part)):
                yield part[:index] + part[index + 1 :]
        case str() if len(part) > 1:
            yield part[: len(part) // 2]
            yield part[len(part) // 2 :]
            if len(part) < 40:
                yield from (part[:i] + part[i + 1 :] for i in range(len(part)))
        case int() | float() if not isinstance(part, bool) and part not in (0, 1):
            yield from (0, 1, int(part) // 2)
