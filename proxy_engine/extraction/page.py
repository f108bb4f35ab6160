"""An HTML page of texts with their quotes highlighted, beside the answers. Needs no other file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .answer_format import INPUT, pointer_of

if TYPE_CHECKING:
    from ..results.parts import Quotation

_COLORS = 6
_INDEX = re.compile(r"/\d+")

HEAD = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Extraction</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 0 1rem }
section { border-top: 1px solid rgba(128, 128, 128, 0.4); padding: 0.4rem 0 1rem }
h2 { font-size: 1rem; margin: 0.4rem 0 }
h2 span { font-weight: normal; opacity: 0.7; margin-left: 0.6em }
.record { display: grid; gap: 0.8rem 2rem; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr) }
@media (max-width: 44rem) { .record { grid-template-columns: minmax(0, 1fr) } }
@media (min-width: 44rem) { pre.answer { max-height: 96vh; position: sticky; top: 0.5rem } }
pre { font: inherit; margin: 0; overflow-wrap: anywhere; white-space: pre-wrap }
pre.answer { align-self: start; font: 13px/1.5 ui-monospace, monospace; overflow: auto }
.error { color: light-dark(#b00020, #ff8a80); margin: 0 }
mark { background: rgba(56, 139, 253, 0.28); border-radius: 0.2em; color: inherit }
mark.k1 { background: rgba(46, 160, 67, 0.28) }
mark.k2 { background: rgba(230, 126, 0, 0.30) }
mark.k3 { background: rgba(163, 113, 247, 0.30) }
mark.k4 { background: rgba(219, 70, 120, 0.28) }
mark.k5 { background: rgba(0, 160, 160, 0.30) }
mark.nested { box-shadow: inset 0 -2px rgba(128, 128, 128, 0.9) }
mark:target, mark:has(a:target) { outline: 2px solid }
a { color: inherit; text-decoration: none }
a:hover mark { text-decoration: underline }
</style>
"""


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A record on the page.

    Attributes:
        label: Names the record.
        text: Its text.
        answer: Its answer as JSON; ``None`` if it failed.
        quotes: The quotes of the answer.
        error: Why it failed.
    """

    label: str
    text: str
    answer: str | None = None
    quotes: Sequence[Quotation] = ()
    error: str = ""


def page(records: Iterable[PageRecord]) -> Iterator[str]:
    """Yield the parts of the page."""
    yield HEAD
    for number, record in enumerate(records):
        yield section(number, record)


def section(number: int, record: PageRecord) -> str:
    """Return the part of the page for a record.

    Args:
        number: The number of records before it.
        record: The record.
    """
    value = None if record.answer is None else json.loads(record.answer)
    strings = dict(_strings(value, ""))
    quotes = [
        quote
        for quote in record.quotes
        # The options can give another source of the name.
        if quote.source == INPUT
        and strings.get(quote.pointer) == record.text[quote.start : quote.end]
    ]
    ids = {quote.pointer: f"r{number}-{index}" for index, quote in enumerate(quotes)}
    kinds: dict[str, int] = {}
    for quote in quotes:
        kinds.setdefault(_kind(quote), len(kinds) % _COLORS)
    count = f"<span>{len(quotes):,} quotes</span>" if quotes else ""
    answer = f'<p class="error">{_escaped(record.error)}</p>'
    if record.answer is not None:
        links = {
            quote.pointer: f'<a href="#{ids[quote.pointer]}"><mark class="k{kinds[_kind(quote)]}">'
            for quote in quotes
        }
        answer = f'<pre class="answer">{"".join(_json(value, "", chr(10), links))}</pre>'
    marked = "".join(_marked(record.text, quotes, ids, kinds))
    return (
        f"<section><h2>{_escaped(record.label)}{count}</h2>\n"
        f'<div class="record"><pre dir="auto">{marked}</pre>\n{answer}</div></section>\n'
    )


def _marked(
    text: str, quotes: Sequence[Quotation], ids: dict[str, str], kinds: dict[str, int]
) -> Iterator[str]:
    """Yield the text in runs that are in the same quotes. Quotes may overlap."""
    ordered = sorted(quotes, key=lambda quote: (quote.start, -quote.end))
    borders = sorted({0, len(text), *(at for one in ordered for at in (one.start, one.end))})
    active: list[Quotation] = []
    following = 0
    for begin, end in pairwise(borders):
        active = [quote for quote in active if quote.end > begin]
        anchors = []
        while following < len(ordered) and ordered[following].start == begin:
            active.append(ordered[following])
            anchors.append(f'<a id="{ids[ordered[following].pointer]}"></a>')
            following += 1
        run = _escaped(text[begin:end])
        if active:
            color = kinds[_kind(active[-1])]
            nested = " nested" if len({(one.start, one.end) for one in active}) > 1 else ""
            title = _escaped(", ".join(quote.pointer or "the answer" for quote in active))
            mark = f'<mark class="k{color}{nested}" title="{title}">'
            run = f"{mark}{''.join(anchors)}{run}</mark>"
        yield run


def _json(value: Any, pointer: str, indent: str, links: dict[str, str]) -> Iterator[str]:
    if not isinstance(value, dict | list) or not value:
        text = _escaped(json.dumps(value, ensure_ascii=False))
        yield f"{links[pointer]}{text}</mark></a>" if pointer in links else text
        return
    is_object = isinstance(value, dict)
    has_nested = any(isinstance(member, dict | list) for _, member in _members(value))
    yield "{" if is_object else "["
    for number, (name, member) in enumerate(_members(value)):
        yield ("," if number else "") + (f"{indent}  " if has_nested else " " if number else "")
        if is_object:
            yield f"{_escaped(json.dumps(name, ensure_ascii=False))}: "
        yield from _json(member, pointer + pointer_of(name), f"{indent}  ", links)
    yield (indent if has_nested else "") + ("}" if is_object else "]")


def _strings(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the strings of a JSON value with their pointers."""
    if isinstance(value, str):
        yield pointer, value
    for name, member in _members(value):
        yield from _strings(member, pointer + pointer_of(name))


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list):
        return ((str(index), member) for index, member in enumerate(value))
    return ()


def _kind(quote: Quotation) -> str:
    """Return the pointer without the indices of items."""
    return _INDEX.sub("/*", quote.pointer)


def _escaped(text: str) -> str:
    """Return a text as HTML in UTF-8, without the characters that HTML excludes."""
    plain = text.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")
    return escape(plain)
