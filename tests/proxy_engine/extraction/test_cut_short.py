"""Answers that a limit cuts short: the second attempt, counts, columns, pages, resumed runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from schema_strategies import examples
from stand_in_engine import SCHEMA, StandInEngine
from tiny_models import make_tiny_model

from proxy_engine import (
    CutShort,
    ExtractedRecord,
    ExtractionProgress,
    ExtractionResults,
    GenerationOptions,
    InferenceEngine,
    PartOptions,
)
from proxy_engine.errors import OutputValidationError, PromptError, RecordError
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.outcomes import Extraction
from proxy_engine.extraction.page import PageRecord, page
from proxy_engine.extraction.records import RecordReader
from proxy_engine.extraction.sources import record_inputs

KINDS = ("plain", "refuse", "cut", "cut twice", "rejected cut", "")


@examples(60)
@given(
    st.lists(st.sampled_from(KINDS), max_size=40),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_cut_records_are_tried_once_more_and_stay_in_order(
    kinds: list[str], batch_size: int, retries: bool, is_iterator: bool
) -> None:
    engine: Any = StandInEngine(batch_size=batch_size)
    records = [f"#{number} {kind}" if kind else "" for number, kind in enumerate(kinds)]
    extraction = Extraction(AnswerFormat.of(SCHEMA), retry_cut_short=retries)
    given = iter(records) if is_iterator else records
    inputs = record_inputs(given, None, RecordReader("text", None))
    outcomes = list(extraction.outcomes(engine, inputs, lambda _: None))
    assert [outcome.item.index for outcome in outcomes] == list(range(len(kinds)))
    cut_once = {"cut", "cut twice", "rejected cut"} if retries else set()
    for kind, record, outcome in zip(kinds, records, outcomes, strict=True):
        tries = sum(bool(record) and prompt.endswith(record) for prompt in engine.prompts)
        assert tries == (0 if not kind else 2 if kind in cut_once else 1)
        if kind in ("", "refuse") or (kind == "rejected cut" and not retries):
            expected = {"": RecordError, "refuse": PromptError}.get(kind, OutputValidationError)
            assert isinstance(outcome.error, expected)
            continue
        assert outcome.error is None
        assert outcome.result is not None
        assert outcome.result.text in outcome.answer
        assert outcome.is_limited == (kind == "cut twice" or (kind == "cut" and not retries))
        # Both attempts took time and tokens.
        assert outcome.result.usage.completion_tokens == 5 * tries


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> InferenceEngine:
    return InferenceEngine(make_tiny_model(context=400), tiny_tokenizer)


class Words(pydantic.BaseModel):
    words: str = pydantic.Field(max_length=30)


OPTIONS: dict[str, Any] = {"temperature": 0.0, "progress": False}


def cut_length(engine: InferenceEngine) -> int:
    """A limit that cuts the words, while twice as many tokens are enough."""
    whole = engine.extract(["a"], Words, **OPTIONS)
    assert whole.cut_short == {}
    assert whole[0].usage is not None
    tokens = whole[0].usage.completion_tokens
    assert tokens > 24, "the model writes all 30 characters"
    return tokens - 5


def test_second_attempt_has_twice_the_tokens(engine: InferenceEngine) -> None:
    limit = cut_length(engine)
    whole = engine.extract(["a"], Words, **OPTIONS).values
    cut = engine.extract(["a"], Words, max_tokens=limit, retry_cut_short=False, **OPTIONS)
    assert cut.cut_short == {0: CutShort("/words", "max_tokens")}
    assert cut[0].cut_short == cut.cut_short[0]
    assert cut.values != whole
    assert repr(cut) == "<ExtractionResults: 1 records, 0 failed, 1 cut short>"
    again = engine.extract(["a"], Words, max_tokens=limit, **OPTIONS)
    assert (again.values, again.cut_short) == (whole, {})
    short = engine.extract(["a"], Words, max_tokens=11, **OPTIONS)
    assert list(short.cut_short) == [0]
    # Twice the tokens do not change the limit of the part.
    parts = {"structured": PartOptions(max_tokens=limit)}
    part = engine.extract(["a"], Words, max_tokens=100, parts=parts, **OPTIONS)
    assert list(part.cut_short) == [0]
    assert part[0].usage is not None
    # The end token is none of the part's.
    assert part[0].usage.completion_tokens <= limit + 1


def test_context_is_the_limit_unless_one_is_given(tiny_tokenizer: TokenizerWrapper) -> None:
    class Engine(StandInEngine):
        context_length: Any = 4_096

    engine: Any = Engine()
    answers = AnswerFormat.of(SCHEMA)
    assert Extraction(answers).request_options(engine) == {"max_tokens": None}
    assert Extraction(answers, options={"max_tokens": 9}).request_options(engine)["max_tokens"] == 9
    engine.options = GenerationOptions(max_tokens=50)
    extraction = Extraction(answers)
    assert extraction.request_options(engine) == {}
    cut = CutShort("", "max_tokens")
    usage = engine.item(0, "x").result.usage
    assert extraction.more_tokens(engine, cut, usage) == {"max_tokens": 100}
    assert extraction.more_tokens(engine, None, usage) == {}
    assert extraction.more_tokens(engine, CutShort("", "max_seconds"), usage) == {}
    assert extraction.more_tokens(engine, CutShort("", "repetition"), usage) == {}
    # The part's own limit stays.
    limited = replace(extraction, options={"parts": {"structured": PartOptions(max_tokens=50)}})
    assert limited.more_tokens(engine, cut, usage) == {}
    assert limited.more_tokens(engine, cut, replace(usage, reasoning_tokens=20)) == {
        "max_tokens": 100
    }
    # The prompt and the limit fill the context already.
    engine.context_length = usage.prompt_tokens + 50
    assert extraction.more_tokens(engine, cut, usage) == {}
    engine.context_length = None
    engine.options = GenerationOptions()
    assert extraction.request_options(engine) == {}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_say_that_they_are_cut_and_a_resumed_run_counts_them(
    engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    options = {**OPTIONS, "max_tokens": cut_length(engine), "retry_cut_short": False}
    records: list[Any] = [{"text": "a"}, {"text": None}, {"text": "a"}]
    with engine.iter_extract(records, Words, output=path, **options) as stream:
        first = next(stream)
    assert first.cut_short == CutShort("/words", "max_tokens")
    results = engine.extract(records, Words, output=path, resume=True, **options)
    assert list(results.cut_short) == [0, 2]
    assert repr(results).endswith("3 records, 1 failed, 2 cut short>")
    frame = results.to_pandas()
    assert list(frame.columns) == ["text", "words", "cut_short", "cut_short_at", "error"]
    assert frame["cut_short"].tolist()[::2] == ["max_tokens", "max_tokens"]
    assert frame["cut_short_at"].tolist()[::2] == ["/words", "/words"]
    if suffix == "jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [row.get("cut_short") for row in rows] == ["max_tokens", None, "max_tokens"]
    if suffix == "parquet":
        table = pyarrow.parquet.read_table(path)
        assert table["cut_short"].to_pylist() == ["max_tokens", None, "max_tokens"]


def test_rows_of_json_lines_are_the_answers_if_nothing_cut_them(
    engine: InferenceEngine, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    (value,) = engine.extract(["a"], Words, output=path, columns=(), **OPTIONS).values
    without = path.read_text()
    path.unlink()
    Path(f"{path}.manifest").unlink()
    engine.extract(["a"], Words, output=path, **OPTIONS)
    assert path.read_text() == without
    assert value is not None
    assert json.loads(without) == {"text": "a", "words": value.words}


def test_progress_page_and_table_show_cut_records(engine: InferenceEngine) -> None:
    counts: list[ExtractionProgress] = []
    options = {**OPTIONS, "progress": counts.append, "retry_cut_short": False}
    limit = cut_length(engine)
    results = engine.extract(["a", "", "a"], Words, max_tokens=limit, **options)
    assert counts[-1] == ExtractionProgress(done=3, failed=1, total=3, cut_short=2)
    html = results.to_html()
    assert html.count("cut short by max_tokens at /words") == 2
    assert "3 records, 1 failed, 2 cut short" in html
    assert '<mark class="cut">' in html
    # One long value takes no more than its share, and lists are no code.
    table = results._repr_html_()
    assert "max-width:20em" in table
    assert table.count("✂ cut short") == 2
    assert "3 records, 1 failed, 2 cut short" in table


def test_table_shows_values_as_readers_write_them(engine: InferenceEngine) -> None:
    records = [ExtractedRecord(0, {"text": "x"}, {"a": ["b", 1, None], "c": [{"d": True}]})]
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "c": {"type": "array"}}}
    answers = AnswerFormat.of(schema)
    table = ExtractionResults(records, answers=answers, reader=RecordReader("text"))._repr_html_()
    assert ">b, 1, </div>" in table
    assert ">• d: true</div>" in table
    assert "1 records, 0 failed, 0 cut short" in table


def test_mark_of_a_list_that_was_cut_is_at_its_end() -> None:
    answer = json.dumps({"a": [[1], [2]], "b": 3})
    cut = CutShort("/a", "max_tokens")
    html = "".join(page([PageRecord("one", "text", answer, cut_short=cut)]))
    assert html.count('<mark class="cut">]</mark>') == html.count('class="cut">') - 1 == 1
