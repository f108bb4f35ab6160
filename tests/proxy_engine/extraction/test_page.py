"""The page of texts and their quotes."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from proxy_engine.extraction.page import PageRecord, page
from proxy_engine.results.parts import Quotation

TEXT = 'a <b> & \u0431\u0432\0 "c" end'
ANSWER = {"of": ["a <b>", "<b> &", "end"], "n": "a", "<i>": None}
QUOTES = [
    Quotation("/of/0", "input", 0, 5),
    Quotation("/of/1", "input", 2, 7),
    Quotation("/of/2", "input", 16, 19),
    Quotation("/n", "title", 0, 1),
]


class Reader(HTMLParser):
    """Collects the texts of ``pre`` elements, the marks of the first one, and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.marks: dict[str, str] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self._title = ""
        self._is_text = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "pre":
            self.texts.append("")
            self._is_text = True
        if tag == "mark":
            self._title = given.get("title") or ""
        self.ids += [given["id"]] if given.get("id") else []  # type: ignore[list-item]
        self.links += [given["href"]] if given.get("href") else []  # type: ignore[list-item]

    def handle_endtag(self, tag: str) -> None:
        if tag == "mark":
            self._title = ""
        self._is_text &= tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._is_text:
            self.texts[-1] += data
        if self._title:
            self.marks[self._title] = self.marks.get(self._title, "") + data


def test_page_has_the_text_with_its_quotes_and_the_answer() -> None:
    records = [
        PageRecord("one", TEXT, json.dumps(ANSWER), QUOTES),
        PageRecord("<two>", "b", error="<X>: no"),
    ]
    html = "".join(page(records))
    reader = Reader()
    reader.feed(html)
    assert reader.texts[0] == TEXT.replace("\0", "\ufffd")
    assert json.loads(reader.texts[1]) == ANSWER
    # Quotes that overlap share their common part; that of another source is not shown.
    assert reader.marks == {"/of/0": "a ", "/of/0, /of/1": "<b>", "/of/1": " &", "/of/2": "end"}
    assert [f"#{one}" for one in reader.ids] == reader.links == ["#r0-0", "#r0-1", "#r0-2"]
    assert "&lt;two&gt;" in html
    assert "&lt;X&gt;: no" in html
    assert "src=" not in html
    assert html.count("href=") == html.count('href="#r')
    assert "color-scheme: light dark" in html
