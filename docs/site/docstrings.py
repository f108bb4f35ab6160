"""Extension of griffe: reStructuredText in docstrings as Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):`(~?)([\w.]+)`")


_LITERAL = re.compile(r"^ *::$\n", re.MULTILINE)


class Markdown(griffe.Extension):
    """Replaces roles by code, and the sign of a literal block, which is indented in both."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was loaded."""
        if obj.docstring is not None:
            text = _LITERAL.sub("", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(_code, text)


def _code(role: re.Match[str]) -> str:
    is_short, target = role.groups()
    return f"`{target.rpartition('.')[2] if is_short else target}`"
