"""What a docstring says: its text, and a description of each parameter.

Three styles are read, as they are written by their own rules: Google's (``Args:``), NumPy's
(``Parameters`` underlined) and reStructuredText's (``:param x:``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Documentation", "read_docstring"]

_PARAMETERS = frozenset(
    [
        "args",
        "arguments",
        "attributes",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    ]
)
# What comes after the parameters is written for those who read the code.
_OTHERS = frozenset(["return", "returns", "yield", "yields", "raise", "raises", "warns"])

_GOOGLE_HEAD = re.compile(r"^(\w[\w ]*):$")
_GOOGLE_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:\s*(.*)$")
_NUMPY_NAMES = re.compile(r"^\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*$")
_REST_FIELD = re.compile(r"^:(\w+)(?:\s+([^:]*))?:\s*(.*)$")
_REST_PARAMETER = frozenset(["param", "parameter", "arg", "argument", "key", "keyword"])


@dataclass(frozen=True, slots=True)
class Documentation:
    """``text``: what comes before the parameters. ``parameters``: descriptions by name."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict, hash=False)


def read_docstring(docstring: str | None) -> Documentation:
    """Take ``docstring`` apart. What it does not describe is not in ``parameters``."""
    if not docstring:
        return Documentation()
    lines = inspect.cleandoc(docstring).splitlines()
    found: dict[str, list[str]] = {}
    text_end = len(lines)
    index = 0
    while index < len(lines):
        read = _section_at(lines, index)
        if read is None:
            index += 1
            continue
        text_end = min(text_end, index)
        index = read(found)
    return Documentation(
        "\n".join(lines[:text_end]).strip(),
        {name: text for name, parts in found.items() if (text := _joined(parts))},
    )


def _section_at(lines: list[str], index: int) -> Callable[[dict[str, list[str]]], int] | None:
    """A reader of the section that begins at a line; it returns where the section ends."""
    line = lines[index]
    if _REST_FIELD.match(line):
        return lambda found: _read_rest_field(lines, index, found)
    google = _GOOGLE_HEAD.match(line)
    if google and google[1].lower() in _PARAMETERS | _OTHERS:
        wanted = google[1].lower() in _PARAMETERS
        return lambda found: _read_google(lines, index + 1, found if wanted else {})
    underline = lines[index + 1] if index + 1 < len(lines) else ""
    head = line.strip().lower()
    if re.fullmatch(r"-{3,}", underline) and head in _PARAMETERS | _OTHERS:
        wanted = head in _PARAMETERS
        return lambda found: _read_numpy(lines, index + 2, found if wanted else {})
    return None


def _read_google(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    """Entries, all indented alike; what is indented further goes on with the last one."""
    indent: int | None = None
    parts: list[str] | None = None
    while index < len(lines) and (not lines[index] or lines[index][0] == " "):
        line = lines[index]
        index += 1
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        entry = _GOOGLE_ENTRY.match(line.strip()) if depth <= indent else None
        if entry:
            parts = found.setdefault(entry[1], [])
            parts.append(entry[2])
        elif parts is not None:
            parts.append(line.strip())
    return index


def _read_numpy(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    """``name : type`` at the margin, its description indented below."""
    names: list[str] = []
    while index < len(lines):
        line = lines[index]
        if line and line[0] != " ":
            head = line.partition(":")[0].strip()
            following = lines[index + 1] if index + 1 < len(lines) else ""
            if not _NUMPY_NAMES.match(head) or re.fullmatch(r"-{3,}|={3,}", following):
                return index
            names = [name.strip().lstrip("*") for name in head.split(",")]
        else:
            for name in names:
                found.setdefault(name, []).append(line.strip())
        index += 1
    return index


def _read_rest_field(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    """One field, with the lines that are indented below it."""
    match = _REST_FIELD.match(lines[index])
    if match is None:
        raise AssertionError("the caller has seen a field here")
    # ``:param int x:`` has the type before the name.
    words = (match[2] or "").split()
    wanted = match[1] in _REST_PARAMETER and bool(words)
    parts = found.setdefault(words[-1].lstrip("*"), []) if wanted else []
    parts.append(match[3])
    index += 1
    while index < len(lines) and lines[index].startswith(" "):
        parts.append(lines[index].strip())
        index += 1
    return index


def _joined(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)
