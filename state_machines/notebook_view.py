"""Vocabularies, matchers and explanations as HTML, for notebooks.

The HTML has no scripts and no style sheets. Text has the colour of the notebook and shades are
translucent, so that they fit light and dark themes. All content is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Protocol

_BOX = "line-height:1.5"
_DIM = "opacity:0.65;font-size:85%"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0"
_CODE = (
    "font-family:monospace;background:rgba(128,128,128,0.16);color:inherit;padding:0 0.3em;"
    "border-radius:0.25em;white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal"
)
_FITS = f"{_CODE};background:rgba(46,160,67,0.25)"
_FAILS = f"{_CODE};background:rgba(218,54,51,0.30)"
_SAMPLE = 24
_SHOWN = 60
"""Characters of a text that are shown."""


class Printer(Protocol):
    """IPython's printer of objects as text."""

    def text(self, text: str, /) -> object:
        """Print a text."""


class ShownContinuation(Protocol):
    """The shown fields of a :class:`~state_machines.explanation.Continuation`."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def text(self) -> str:
        """The text or description."""

    @property
    def is_cut(self) -> bool:
        """Whether more text is certain to follow."""


class ShownToken(Protocol):
    """The shown fields of a :class:`~state_machines.explanation.TokenExplanation`."""

    @property
    def text(self) -> str:
        """Its text."""

    @property
    def is_allowed(self) -> bool:
        """Whether it may come next."""

    @property
    def fitting_text(self) -> str:
        """The characters that fit."""

    @property
    def reason(self) -> str:
        """One sentence."""

    @property
    def expected(self) -> Sequence[ShownContinuation]:
        """The possible continuations."""

    @property
    def hint(self) -> str:
        """What would fit instead."""


class ShownGroup(Protocol):
    """The shown fields of a :class:`~state_machines.explanation.TokenGroup`."""

    @property
    def name(self) -> str:
        """The kind of the tokens."""

    @property
    def count(self) -> int:
        """Their number."""

    @property
    def examples(self) -> Sequence[tuple[int, str]]:
        """Ids and texts."""


class ShownMask(Protocol):
    """The shown fields of a :class:`~state_machines.explanation.MaskExplanation`."""

    @property
    def allowed(self) -> int:
        """Number of allowed tokens."""

    @property
    def size(self) -> int:
        """Number of token ids."""

    @property
    def is_end_allowed(self) -> bool:
        """Whether an end token may come."""

    @property
    def expected(self) -> Sequence[ShownContinuation]:
        """The possible continuations."""

    @property
    def groups(self) -> Sequence[ShownGroup]:
        """Allowed tokens by kind."""


class ShownVocabulary(Protocol):
    """The shown fields of a :class:`~state_machines.vocabulary.Vocabulary`."""

    @property
    def token_bytes(self) -> Sequence[bytes | None]:
        """The bytes of each token."""

    @property
    def end_token_ids(self) -> frozenset[int]:
        """Ids of end tokens."""

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Ids of special tokens by name."""


def token_explanation_html(shown: ShownToken) -> str:
    """Return the explanation of a token as HTML: green where it fits, red where it does not."""
    fits, fails = shown.fitting_text, shown.text.removeprefix(shown.fitting_text)
    if not (shown.is_allowed or fails):
        # The grammar allows the token, and a guard refuses it.
        fits, fails = "", fits
    if len(fits) > _SHOWN:
        fits = f"…{fits[1 - _SHOWN :]}"
    if len(fails) > _SHOWN:
        fails = f"{fails[: _SHOWN - 1]}…"
    parts = [f'<span style="{_FITS}">{_visible(fits)}</span>'] if fits else []
    if fails:
        style = _FITS if shown.is_allowed else _FAILS
        parts.append(f'<span style="{style}">{_visible(fails)}</span>')
    rows = [f"<div>{''.join(parts)} {escape(shown.reason)}</div>"]
    if shown.expected:
        place = f"after {_code(fits)}" if fits else "here"
        rows.append(f'<div><span style="{_DIM}">{place} may follow</span></div>')
        rows.append(_listed(shown.expected))
    if shown.hint:
        rows.append(f'<div style="{_DIM}">{escape(shown.hint)}</div>')
    return _box(rows)


def mask_explanation_html(shown: ShownMask) -> str:
    """Return the possible continuations and the allowed tokens by kind as HTML."""
    end = "may" if shown.is_end_allowed else "cannot"
    rows = [
        f"<div><b>{shown.allowed:,}</b> of {shown.size:,} tokens may come next; "
        f"the text {end} end here</div>"
    ]
    if shown.expected:
        rows.append(_listed(shown.expected))
    if shown.groups:
        table = [_row(group) for group in shown.groups]
        rows.append(
            f'<table style="border-collapse:collapse;color:inherit;background:none">'
            f"{''.join(table)}</table>"
        )
    return _box(rows)


def vocabulary_html(shown: ShownVocabulary) -> str:
    """Return a vocabulary as HTML: its size, end tokens, special tokens, and a sample."""
    forms, ends = shown.token_bytes, sorted(shown.end_token_ids)
    names = {token_id: name for name, token_id in shown.special_tokens.items()}
    special = sorted(set(names) - set(ends))
    ordinary = [i for i, form in enumerate(forms) if form is not None and i not in names]
    step = max(1, len(ordinary) // _SAMPLE)
    unused = len(forms) - len(ordinary) - len(names)
    facts: list[tuple[str, str]] = [
        ("end tokens", _tokens((i, names.get(i, "")) for i in ends)),
        ("special tokens", f"{len(special):,} {_tokens((i, names[i]) for i in special[:12])}"),
        ("sample", _tokens((i, _text(forms[i])) for i in ordinary[::step][:_SAMPLE])),
    ]
    if unused:
        facts.append(("ids without text", f"{unused:,}"))
    cells = "".join(
        f'<tr style="background:none"><td style="{_CELL};{_DIM};white-space:nowrap">{name}</td>'
        f'<td style="{_CELL}">{content}</td></tr>'
        for name, content in facts
    )
    return _box(
        [
            f"<div>Vocabulary of <b>{len(forms):,}</b> token ids</div>",
            f'<table style="border-collapse:collapse;color:inherit;background:none">'
            f"{cells}</table>",
        ]
    )


def error_html(error: Exception) -> str:
    """Return an error that prevents the display of an object."""
    return _box([f"<div>{escape(str(error))}</div>"])


def _box(rows: Iterable[str]) -> str:
    return f'<div style="{_BOX}">{"".join(rows)}</div>'


def _listed(expected: Sequence[ShownContinuation]) -> str:
    items = []
    for one in expected:
        if one.kind == "text":
            content = _code(one.text) + (" …" if one.is_cut else "")
        elif one.kind == "special token":
            content = f"the special token {_code(one.text)}"
        else:
            content = escape(one.text)
        items.append(f'<li style="margin:0">{content}</li>')
    return f'<ul style="margin:0 0 0.2em 0;padding-left:1.4em">{"".join(items)}</ul>'


def _row(group: ShownGroup) -> str:
    more = " …" if group.count > len(group.examples) else ""
    return (
        f'<tr style="background:none"><td style="{_CELL};{_DIM};white-space:nowrap">'
        f"{escape(group.name)}, {group.count:,}</td>"
        f'<td style="{_CELL}">{_tokens(group.examples)}{more}</td></tr>'
    )


def _tokens(tokens: Iterable[tuple[int, Any]]) -> str:
    return " ".join(
        f'<span title="token {token_id}">{_code(text)}</span>' for token_id, text in tokens
    )


def _text(form: bytes | None) -> str:
    return (form or b"").decode("utf-8", "replace")


def _code(text: str) -> str:
    return f'<code style="{_CODE}">{_visible(text)}</code>'


def _visible(text: str) -> str:
    """Return a text with visible line ends and outer spaces, escaped."""
    shown = text.replace("\n", "↵").replace("\t", "⇥").replace("\r", "␍")
    if shown != shown.strip(" "):
        inner = shown.strip(" ")
        before = len(shown) - len(shown.lstrip(" "))
        shown = "␣" * before + inner + "␣" * (len(shown) - before - len(inner))
    return escape("".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in shown))
