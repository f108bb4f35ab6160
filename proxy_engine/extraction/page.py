"""An HTML page of texts with their quotes highlighted, beside the answers. Needs no other file.

``page.html`` is the template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment

from .details import is_limit
from .json_values import in_utf8, pointer_of
from .progress import ExtractionProgress
from .rows import error_text, unwritten
from .schemas import INPUT

if TYPE_CHECKING:
    from ..results.parts import CutShort, Quotation
    from .outcomes import Outcome

_COLORS = 6
_INDEX = re.compile(r"/\d+")


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A record on the page.

    Attributes:
        label: Names the record.
        text: Its text.
        answer: Its answer as JSON; ``None`` if it failed.
        quotes: The quotes of the answer.
        error: Why it failed.
        has_field_quotes: Whether quotes state properties. Others are strings of the answer.
        cut_short: What cut the answer short.
    """

    label: str
    text: str
    answer: str | None = None
    quotes: Sequence[Quotation] = ()
    error: str = ""
    has_field_quotes: bool = False
    cut_short: CutShort | None = None


class _Mark(NamedTuple):
    """The classes and the id of a quote's mark."""

    classes: str
    id: str


def record_of(outcome: Outcome, quotes: Sequence[Quotation]) -> PageRecord:
    """Return an outcome as a record on the page."""
    try:
        text = outcome.item.read().text
    except ValueError:
        text = ""
    if outcome.error is not None:
        return PageRecord(outcome.item.label, text, error=error_text(outcome.error))
    has_field_quotes = outcome.answers.field_quotes is not None
    try:
        answer = outcome.text
    except ValueError as error:
        refused = error_text(unwritten(error, outcome.answer))
        return PageRecord(outcome.item.label, text, error=refused)
    return PageRecord(
        outcome.item.label,
        text,
        answer,
        quotes,
        has_field_quotes=has_field_quotes,
        cut_short=outcome.cut_short,
    )


class Page:
    """The parts of the page: :meth:`head`, a :meth:`section` for each record, :meth:`foot`."""

    def __init__(self) -> None:
        self._counts = ExtractionProgress(0, 0, None)

    def head(self) -> str:
        """Return the beginning."""
        return str(_template().head())

    def section(self, record: PageRecord) -> str:
        """Return the part for a record."""
        number, is_failure = self._counts.done, record.answer is None
        self._counts = self._counts.after(is_failure, is_limit(record.cut_short))
        return _section(number, record)

    def foot(self) -> str:
        """Return the end: the counts of records, which are shown at the top."""
        return str(_template().foot(f"{self._counts.done:,} records, {self._counts.problems}"))


def page(records: Iterable[PageRecord]) -> Iterator[str]:
    """Yield the parts of the page."""
    parts = Page()
    yield parts.head()
    yield from map(parts.section, records)
    yield parts.foot()


@cache
def _template() -> Any:
    source = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, finalize=_printable)
    return environment.from_string(source).module


def _printable(value: Any) -> Any:
    """Replace the characters of a text that HTML and UTF-8 exclude."""
    return in_utf8(value.replace("\0", "\ufffd")) if type(value) is str else value


def _section(number: int, record: PageRecord) -> str:
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
        # The options can give another source of the name, unless there are quotes of properties.
        if quote.source == INPUT
        and (
            record.has_field_quotes
            or strings.get(quote.pointer) == record.text[quote.start : quote.end]
        )
    ]
    kinds: dict[str, int] = {}
    for quote in quotes:
        kinds.setdefault(_kind(quote), len(kinds) % _COLORS)
    marks = {
        quote.pointer: _Mark(f"k{kinds[_kind(quote)]}", f"r{number}-{index}")
        for index, quote in enumerate(quotes)
    }
    runs = _runs(record.text, quotes, marks)
    answer = _json(value, "", "\n", _with_cut(marks, record.cut_short))
    return str(_template().section(record, len(quotes), runs, answer))


def _with_cut(marks: dict[str, _Mark], cut: CutShort | None) -> dict[str, _Mark]:
    """Return marks, with a mark for the value that was cut short."""
    if cut is None:
        return marks
    known = marks.get(cut.pointer, _Mark("", ""))
    return {**marks, cut.pointer: _Mark(f"{known.classes} cut".strip(), known.id)}


def _runs(
    text: str, quotes: Sequence[Quotation], marks: dict[str, _Mark]
) -> Iterator[tuple[str, str, list[str], str]]:
    """Yield the text in runs that are in the same quotes. Quotes may overlap.

    Each is given with the classes of its mark, the ids of the quotes that begin with it, and a
    title.
    """
    ordered = sorted(quotes, key=lambda quote: (quote.start, -quote.end))
    borders = sorted({0, len(text), *(at for mark in ordered for at in (mark.start, mark.end))})
    active: list[Quotation] = []
    following = 0
    for begin, end in pairwise(borders):
        active = [quote for quote in active if quote.end > begin]
        anchors = []
        while following < len(ordered) and ordered[following].start == begin:
            active.append(ordered[following])
            anchors.append(marks[ordered[following].pointer].id)
            following += 1
        classes = marks[active[-1].pointer].classes if active else ""
        if len({(mark.start, mark.end) for mark in active}) > 1:
            classes += " nested"
        title = ", ".join(quote.pointer or "the answer" for quote in active)
        yield text[begin:end], classes, anchors, title


def _json(
    value: Any, pointer: str, indent: str, marks: dict[str, _Mark]
) -> Iterator[tuple[str, str, str]]:
    """Yield a JSON value in texts, each with the classes of its mark and the id of its quote."""
    mark = marks.get(pointer, _Mark("", ""))
    if not isinstance(value, dict | list) or not value:
        yield json.dumps(value, ensure_ascii=False), *mark
        return
    is_object = isinstance(value, dict)
    has_nested = any(isinstance(member, dict | list) for _, member in _members(value))
    yield "{" if is_object else "[", "", ""
    for number, (name, member) in enumerate(_members(value)):
        space = f"{indent}  " if has_nested else " " if number else ""
        label = f"{json.dumps(name, ensure_ascii=False)}: " if is_object else ""
        yield f"{',' if number else ''}{space}{label}", "", ""
        yield from _json(member, pointer + pointer_of(name), f"{indent}  ", marks)
    yield indent if has_nested else "", "", ""
    # The end of an object or array that was cut short has its mark.
    yield "}" if is_object else "]", *mark._replace(id="")


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
