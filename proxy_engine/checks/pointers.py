"""JSON Pointers (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ..errors import InvalidOptionError
from .problems import suggestion
from .texts import short_repr

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def reference_token(name: str) -> str:
    """Return the reference token of a member's name."""
    return name.replace("~", "~0").replace("/", "~1")


def prefixes(pointer: str) -> Iterator[str]:
    """Yield ``pointer`` and the pointers of the values that contain it."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def check_pointer(pointer: object, known: Collection[str]) -> None:
    """Raise ``InvalidOptionError`` unless ``pointer`` is one of ``known``."""
    if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
        hint = "A pointer is empty, or a '/' before each name or index, such as '/items/0/price'."
        if isinstance(pointer, str) and pointer.startswith("#"):
            hint = "Leave out the '#', which belongs to URI fragments."
        raise InvalidOptionError(
            f"{short_repr(pointer)} is not a JSON Pointer (RFC 6901)", option="pointer", hint=hint
        )
    if pointer not in known:
        names = [each for each in known if each]
        hint = suggestion(pointer, names) if names else "The answer is one value, at ''."
        raise InvalidOptionError(
            f"the answer has no value at {short_repr(pointer)}", option="pointer", hint=hint
        )
