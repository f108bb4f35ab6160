r"""The named classes of Rust's ``regex`` crate: ``[:alpha:]`` and ``\w``."""

from __future__ import annotations

from functools import lru_cache

from state_machines.grammar.symbols import CodePointSet
from state_machines.regex.unicode_classes import loose_property_set

_ASCII_CLASSES = {
    "alnum": [("0", "9"), ("A", "Z"), ("a", "z")],
    "alpha": [("A", "Z"), ("a", "z")],
    "ascii": [("\0", "\x7f")],
    "blank": [("\t", "\t"), (" ", " ")],
    "cntrl": [("\0", "\x1f"), ("\x7f", "\x7f")],
    "digit": [("0", "9")],
    "graph": [("!", "~")],
    "lower": [("a", "z")],
    "print": [(" ", "~")],
    "punct": [("!", "/"), (":", "@"), ("[", "`"), ("{", "~")],
    "space": [("\t", "\r"), (" ", " ")],
    "upper": [("A", "Z")],
    "word": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
    "xdigit": [("0", "9"), ("A", "F"), ("a", "f")],
}


def ascii_class(name: str) -> CodePointSet | None:
    """Return the members of a class of POSIX, such as ``alpha``; ``None`` if there is none."""
    pairs = _ASCII_CLASSES.get(name)
    if pairs is None:
        return None
    return CodePointSet((ord(first), ord(last)) for first, last in pairs)


@lru_cache(maxsize=3)
def perl_class(letter: str) -> CodePointSet:
    """Return the Unicode set of ``d``, ``s`` or ``w`` (UTS #18, Annex C)."""
    names = {
        "d": ("Nd",),
        "s": ("White_Space",),
        "w": ("Alphabetic", "M", "Nd", "Pc", "Join_Control"),
    }
    found = CodePointSet(())
    for name in names[letter]:
        members = loose_property_set(name)
        assert members is not None, name
        found = found | members
    return found
