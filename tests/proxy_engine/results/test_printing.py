"""``print`` and ``repr`` of what the engine returns: the text, and at most two lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import (
    CutShort,
    ExtractedRecord,
    GenerationResult,
    ImageContent,
    InferenceEngine,
    Interaction,
    ScoredChoice,
    ScoredOption,
    TextContent,
    Tool,
    ToolCall,
    ToolRun,
    Transcript,
    TranscriptSegment,
    Usage,
)

TWO_LINES = 160
USAGE = Usage(9, 7, 0.123456, 0.2)
RESULT: GenerationResult[Any] = GenerationResult("Hi", None, "stop", USAGE, (1, 2), "model")


@given(
    st.text(max_size=300),
    st.lists(st.text(min_size=1, max_size=200), max_size=3),
    st.none() | st.text(max_size=300),
)
def test_repr_fits_two_lines_and_str_is_the_text(
    text: str, names: list[str], pointer: str | None
) -> None:
    calls = tuple(ToolCall("id", name, {"text": text}) for name in names)
    cut = None if pointer is None else CutShort(pointer, "max_tokens")
    result = replace(RESULT, text=text, tool_calls=calls, cut_short=cut, parsed={"a": [text]})
    image = ImageContent(url="data:image/png;base64,AA==")
    turn = Interaction("assistant", [image, TextContent(text)], tool_calls=calls)
    segment = TranscriptSegment(0.0, 1.5, text, tokens=(1,) * 300)
    transcript = Transcript(text, (segment,) * 9, "en", 12.0, None, USAGE, "model")
    shown = [
        result,
        ToolRun(result, (turn,) * 9, 2, calls),
        turn,
        *calls,
        Tool("name", text, {"type": "object", "properties": {name: {} for name in names}}),
        segment,
        transcript,
        ExtractedRecord(3, {"text": text}, {"a": text}, cut_short=cut),
        ScoredChoice(0, (ScoredOption(text, 0.25),) * 50, ScoredOption(text, 0.25)),
        replace(USAGE, cached_tokens=10**9, reasoning_tokens=10**9, retries=3),
    ]
    for value in shown:
        assert len(repr(value)) <= TWO_LINES
        assert "\n" not in repr(value)
        assert repr(value).startswith(type(value).__name__)
    if text or not names:
        assert str(result) == str(shown[1]) == text
    assert str(turn) == str(segment) == str(transcript) == text


def test_answer_with_calls_alone_is_shown_by_its_calls() -> None:
    calls = (ToolCall("1", "add", {"a": 1, "b": "ä"}), ToolCall("2", "now", {}))
    result = replace(RESULT, text="", tool_calls=calls, finish_reason="tool_calls")
    assert str(result) == 'add({"a": 1, "b": "ä"})\nnow({})'
    assert repr(result) == (
        "GenerationResult('', finish_reason='tool_calls', tool_calls=('add', 'now'), "
        "completion_tokens=7)"
    )


def test_repr_names_what_cut_an_answer_short() -> None:
    result = replace(RESULT, finish_reason="length", cut_short=CutShort("/tags", "max_tokens"))
    assert repr(result) == (
        "GenerationResult('Hi', finish_reason='length', cut_short='max_tokens at /tags', "
        "completion_tokens=7)"
    )


def test_records_are_shown_by_their_values_and_errors() -> None:
    assert str(ExtractedRecord(0, "x", {"a": [1, "ä"]})) == '{"a": [1, "ä"]}'
    assert str(ExtractedRecord(0, "x", error=ValueError("no"))) == "ValueError: no"


def test_extraction_is_shown_by_its_first_records_and_counts(tiny_engine: InferenceEngine) -> None:
    results = tiny_engine.extract(["a", ""], Literal["b", "c"], temperature=0.0, progress=False)
    first = f'0: "{results.values[0]}"'
    second = "1: RecordError: the text is empty"
    assert str(results) == f"{first}\n{second}\n2 records, 1 failed, 0 cut short"
    assert repr(results) == "<ExtractionResults: 2 records, 1 failed, 0 cut short>"
