"""Read the description of a tool and of its parameters from a docstring."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import docstring_parser


@dataclass(frozen=True, slots=True)
class Documentation:
    """The contents of a docstring.

    Attributes:
        text: The text before the sections of parameters and results.
        parameters: Descriptions by parameter.
    """

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict, hash=False)


def read_docstring(docstring: str | None) -> Documentation:
    """Read a docstring in Google's, NumPy's or Sphinx's style."""
    text = inspect.cleandoc(docstring or "")
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Documentation(text.strip())
    parameters = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in parsed.params
        # NumPy's style describes several parameters at once: `x, y : int`.
        for name in parameter.arg_name.split(",")
        if parameter.description and parameter.description.strip()
    }
    return Documentation((parsed.description or "").strip(), parameters)
