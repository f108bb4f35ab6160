"""Vocabularies, matchers and explanations as HTML, for notebooks.

The HTML has no scripts and no style sheets. Text has the colour of the notebook and shades are
translucent, so that they fit light and dark themes. All content is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Protocol

_BOX = "line-height:1.5"
DIM = "opacity:0.65;font-size:85%"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0"
_CODE = (
    "font-family:monospace;background:rgba(128,128,128,0.16);color:inherit;padding:0 0.3em;"
    "border-radius:0.25em;white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal"
)
FITS = f"{_CODE};background:rgba(46,160,67,0.25)"
FAILS = f"{_CODE};background:rgba(218,54,51,0.30)"
_SAMPLE = 24


class Printer(Protocol):
    """IPython's printer of objects as text."""

    def text(self, text: str, /) -> object:
        """Print a text."""


def vocabulary_html(
    forms: Sequence[bytes | None], end_token_ids: Iterable[int], special_tokens: Mapping[str, int]
) -> str:
    """Return a vocabulary as HTML: its size, end tokens, special tokens, and a sample."""
    ends = sorted(end_token_ids)
    names = {token_id: name for name, token_id in special_tokens.items()}
    special = sorted(set(names) - set(ends))
    ordinary = [i for i, form in enumerate(forms) if form is not None and i not in names]
    step = max(1, len(ordinary) // _SAMPLE)
    unused = len(forms) - len(ordinary) - len(names)
    facts: list[tuple[str, str]] = [
        ("end tokens", tokens_html((i, names.get(i, "")) for i in ends)),
        ("special tokens", f"{len(special):,} {tokens_html((i, names[i]) for i in special[:12])}"),
        ("sample", tokens_html((i, _text(forms[i])) for i in ordinary[::step][:_SAMPLE])),
    ]
    if unused:
        facts.append(("ids without text", f"{unused:,}"))
    return box([f"<div>Vocabulary of <b>{len(forms):,}</b> token ids</div>", table_html(facts)])


def error_html(error: Exception) -> str:
    """Return an error that prevents the display of an object."""
    return box([f"<div>{escape(str(error))}</div>"])


def box(rows: Iterable[str]) -> str:
    """Return the HTML of an object with several rows."""
    return f'<div style="{_BOX}">{"".join(rows)}</div>'


def table_html(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and contents in HTML; the names are escaped."""
    cells = "".join(
        f'<tr style="background:none"><td style="{_CELL};{DIM};white-space:nowrap">'
        f'{escape(name)}</td><td style="{_CELL}">{content}</td></tr>'
        for name, content in rows
    )
    return f'<table style="border-collapse:collapse;color:inherit;background:none">{cells}</table>'


def tokens_html(tokens: Iterable[tuple[int, Any]]) -> str:
    """Return tokens with their ids as titles."""
    return " ".join(
        f'<span title="token {token_id}">{code(text)}</span>' for token_id, text in tokens
    )


def _text(form: bytes | None) -> str:
    return (form or b"").decode("utf-8", "replace")


def code(text: str) -> str:
    """Return a text as code."""
    return f'<code style="{_CODE}">{visible(text)}</code>'


def visible(text: str) -> str:
    """Return a text with visible line ends and outer spaces, escaped."""
    shown = text.replace("\n", "↵").replace("\t", "⇥").replace("\r", "␍")
    if shown != shown.strip(" "):
        inner = shown.strip(" ")
        before = len(shown) - len(shown.lstrip(" "))
        shown = "␣" * before + inner + "␣" * (len(shown) - before - len(inner))
    return escape("".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in shown))
