"""Descriptions of masks, and their HTML."""

from __future__ import annotations

from html.parser import HTMLParser

from small_vocabulary import small_vocabulary

from state_machines import ChoiceStateMachine, JsonSchemaStateMachine, RegexStateMachine, Vocabulary

VOCABULARY = small_vocabulary()


class Page(HTMLParser):
    """Collects the text, and checks that tags are balanced and harmless."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "span", "code", "ul", "li", "table", "tr", "td", "b"}
        assert {name for name, _ in attrs} <= {"style", "title"}
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_groups_count_all_allowed_tokens() -> None:
    matcher = RegexStateMachine(r"[a-f0-9 <]+").matcher(VOCABULARY)
    matcher.advance(ord("a"))
    found = matcher.explain()
    mask = matcher.allowed_tokens()
    assert found.allowed == int(mask.sum()) == sum(group.count for group in found.groups)
    assert found.is_end_allowed
    names = {group.name for group in found.groups}
    assert names == {"letters", "digits", "whitespace", "punctuation", "end tokens"}
    assert all(mask[i] for group in found.groups for i, _ in group.examples)
    assert "may end here" in str(found)


def test_matcher_is_shown_with_what_may_follow() -> None:
    matcher = ChoiceStateMachine(["<b>", "&", "yes"]).matcher(VOCABULARY)
    text = Page(matcher._repr_html_()).text
    assert "cannot end here" in text
    assert "<b>" in text
    assert "yes" in text


def test_explanation_is_shown_with_the_refused_rest() -> None:
    matcher = JsonSchemaStateMachine({"enum": ["<i>", "</div>"]}).matcher(VOCABULARY)
    text = Page(matcher.explain('"<b>')._repr_html_()).text
    assert "'b' does not" in text
    assert "may follow" in text


def test_vocabulary_is_shown_with_its_special_tokens() -> None:
    text = Page(VOCABULARY._repr_html_()).text
    assert f"{VOCABULARY.size}" in text
    assert "</s>" in text
    assert "<tool>" in text
    assert "ids without text5" in text


def test_smallest_vocabulary_is_shown() -> None:
    assert "</s>" in Page(Vocabulary([b"</s>"], end_token_ids=[0])._repr_html_()).text


def test_explanations_are_printed_as_text() -> None:
    class Printer:
        written = ""

        def text(self, text: str, /) -> None:
            self.written += text

    matcher = ChoiceStateMachine(["yes", "no"]).matcher(VOCABULARY)
    for found in (matcher.explain("x"), matcher.explain()):
        printer = Printer()
        found._repr_pretty_(printer, False)
        assert printer.written == str(found)
