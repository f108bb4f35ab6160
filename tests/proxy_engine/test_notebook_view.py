"""Results as HTML: content, confidences, and escaping."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.conversation.content import ToolCall
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.notebook_view import segments_of
from proxy_engine.results.parts import (
    AnswerPart,
    Logprob,
    ScoredChoice,
    ScoredOption,
    TokenLogprobs,
    Usage,
)

TAGS = {"div", "pre", "details", "summary", "span", "sub", "table", "tr", "th", "td", "b"}

PLAIN = (AnswerPart("text", "ab é!"),)


class Page(HTMLParser):
    """Collects text, tags and attributes, and checks that tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def result(text: str, parsed: Any = None, **changes: Any) -> GenerationResult[Any]:
    pointer = None if parsed is None else ""
    whole = GenerationResult(
        text=text,
        parsed=parsed,
        finish_reason="stop",
        usage=Usage(1234, 5, 0.25, 0.5, cached_tokens=1000),
        token_ids=(),
        model="tiny",
        parts=(AnswerPart("structured", text, pointer=pointer),),
    )
    return dataclasses.replace(whole, **changes)


def page(shown: GenerationResult[Any]) -> Page:
    return Page(shown._repr_html_())


def choice(offset: int, chosen: str, probability: float) -> ScoredChoice:
    options = (ScoredOption(chosen, probability), ScoredOption("?", 1 - probability))
    return ScoredChoice(offset, options, options[0])


def test_json_is_indented_and_numbers_stay_as_written() -> None:
    text = '{"a": [1.50, {}], "b": {"c": null}}'
    shown = page(result(text, json.loads(text))).text
    assert '{\n  "a": [\n    1.50,\n    {}\n  ],\n  "b": {\n    "c": null\n  }\n}' in shown


def test_usage_is_one_line() -> None:
    shown = page(result("Hi")).text
    assert shown == "Hitiny · 1,234 (1,000 cached) + 5 tokens · 0.25 + 0.50 s · stop"


def test_caption_counts_accepted_draft_tokens() -> None:
    usage = Usage(1, 2000, 0.25, 0.5, drafted_tokens=1900, accepted_tokens=1500)
    assert "· 1 + 2,000 (1,500 drafted) tokens ·" in page(result("Hi", usage=usage)).text


def test_measured_values_have_a_number_and_a_shade() -> None:
    text = '{"a": true, "b": false, "c": 1}'
    scored = (choice(6, "true", 0.25), choice(17, "false", 1.0))
    shown = page(result(text, json.loads(text), scored_choices=scored))
    assert '"a": true\u200a0.25,' in shown.text
    assert '"b": false\u200a1.00,' in shown.text
    assert '"c": 1\n' in shown.text
    shades = [style["style"] for tag, style in shown.tags if tag == "span"]
    assert [re.findall(r"(0\.\d\d)\)", str(shade)) for shade in shades] == [["0.34"], ["0.00"]]


def test_tool_calls_have_marks_at_name_and_arguments() -> None:
    parts = (
        AnswerPart("tool_call", "<f=get>", True, "/tool_calls/0/name"),
        AnswerPart("tool_call", '{"on": true}', pointer="/tool_calls/0/arguments"),
    )
    scored = (choice(3, "get>", 0.5), choice(14, "true", 0.75))
    call = ToolCall("1", "get", {"on": True})
    shown = page(
        result(
            "", parts=parts, tool_calls=(call,), scored_choices=scored, finish_reason="tool_calls"
        )
    )
    assert 'get\u200a0.50 {\u200a0.75\n  "on": true\u200a0.75\n}' in shown.text


def test_reasoning_is_folded() -> None:
    parts = (
        AnswerPart("reasoning", "Well <b>"),
        AnswerPart("reasoning", "</think>", is_marker=True),
        AnswerPart("structured", "true", pointer=""),
    )
    shown = page(result("true", True, reasoning="Well <b>", parts=parts))
    assert [tag for tag, _ in shown.tags].count("details") == 1
    assert "reasoning, 8 characters" in shown.text
    assert shown.text.count("Well <b>") == 1
    assert "</think>" not in shown.text


def test_parts_of_a_composition_are_named() -> None:
    parts = (
        AnswerPart("why", "Because."),
        AnswerPart("price", "3", pointer="/price"),
        AnswerPart("label", "cat", pointer="/label"),
    )
    shown = page(result("Because.3cat", {"price": 3, "label": "cat"}, parts=parts))
    assert shown.text.startswith("Because./price3/labelcat")


def test_all_answers_are_shown() -> None:
    first = result("red", "red")
    both = dataclasses.replace(first, choices=(first, result("blue", "blue")))
    shown = page(both).text
    assert shown.startswith("answer 1 of 2redanswer 2 of 2blue")


def test_colours_fit_dark_themes() -> None:
    text = '{"a": true}'
    scored = (choice(6, "true", 0.25),)
    html = result(text, {"a": True}, scored_choices=scored)._repr_html_()
    assert set(re.findall(r"(?<![-\w])color:([^;\"]+)", html)) == {"inherit"}
    assert set(re.findall(r"background:([^;\"(]+)", html)) == {"none", "rgba"}


TEXT = st.text(st.sampled_from("<>&\"'/ab\n\\{}🙂"), max_size=20)


@given(TEXT, TEXT, TEXT, TEXT)
def test_texts_of_the_model_are_escaped(text: str, name: str, thought: str, note: str) -> None:
    value = {name: [text, {text: note}]}
    written = json.dumps(value, ensure_ascii=False)
    calls = (ToolCall("1", name or "f", {text: note}),)
    for shown in (
        result(written, value, reasoning=thought),
        result(note, parts=(AnswerPart("text", note),), model=name),
        result(text, tool_calls=calls, reasoning=thought),
    ):
        html = page(shown)
        assert {tag for tag, _ in html.tags} <= TAGS
        assert {key for _, attributes in html.tags for key in attributes} <= {"style", "title"}
        assert shown.reasoning in html.text
    assert note in page(result(note)).text
    assert json.dumps(text, ensure_ascii=False) in page(result(written, value)).text


def spans(shown: Page) -> list[str]:
    """The titles of the marked tokens."""
    return [str(attrs["title"]) for tag, attrs in shown.tags if tag == "span" and "title" in attrs]


def test_tokens_are_marked_by_origin() -> None:
    shown = page(
        result("ab é!", None, token_origins="sfdds", token_lengths=(1, 1, 2, 1, 1), parts=PLAIN)
    )
    assert shown.text.startswith("ab é!")
    assert spans(shown) == ["forced by the grammar", "drafted and accepted"]
    assert "5 tokens: 2 sampled, 1 forced by the grammar, 2 drafted and accepted" in shown.text


def test_output_is_shown_by_part() -> None:
    parts = (
        AnswerPart("reasoning", "<think>", is_marker=True),
        AnswerPart("reasoning", "Hm"),
        AnswerPart("reasoning", "</think>", is_marker=True),
        AnswerPart("structured", "true", pointer=""),
    )
    shown = page(
        result("true", True, parts=parts, token_origins="fsfs", token_lengths=(7, 2, 8, 4))
    )
    assert "<think>Hm</think>true" in shown.text
    assert "reasoning structured marker forced by the grammar" in shown.text
    assert spans(shown) == ["forced by the grammar"] * 2


def test_probabilities_are_shown_on_hover() -> None:
    half, sure = Logprob(1, math.log(0.25), math.log(0.5)), Logprob(2, math.log(0.125), 0.0)
    shown = page(
        result(
            "ab",
            None,
            token_origins="sfs",
            token_lengths=(1, 0, 1),
            logprobs=(TokenLogprobs(half), TokenLogprobs(sure)),
        )
    )
    assert spans(shown) == [
        "sampled, probability 0.5, without the grammar 0.25",
        "sampled, probability 1, without the grammar 0.125",
    ]


def test_output_with_replaced_bytes_is_shown_without_tokens() -> None:
    parts = (AnswerPart("text", "a"), AnswerPart("text", "\ufffd"))
    shown = page(result("a\ufffd", None, parts=parts, token_origins="sf", token_lengths=(1, 1)))
    assert spans(shown) == []
    assert "a\ufffd" in shown.text


@given(
    st.lists(st.tuples(st.text("aé日🙂<", max_size=4), st.booleans()), max_size=5),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("sfd")), max_size=20),
)
def test_segments_are_the_output(
    texts: list[tuple[str, bool]], tokens: list[tuple[int, str]]
) -> None:
    parts = tuple(AnswerPart("text", text, marker) for text, marker in texts)
    left = sum(len(text.encode()) for text, _ in texts)
    lengths = []
    for length, _ in tokens:
        lengths.append(min(length, left))
        left -= lengths[-1]
    origins = "".join(origin for _, origin in tokens)
    shown = result(
        "", None, parts=parts, token_origins=f"{origins}s", token_lengths=(*lengths, left)
    )
    written = "".join(segment.text for segment in segments_of(shown))
    assert written == "".join(text for text, _ in texts)
