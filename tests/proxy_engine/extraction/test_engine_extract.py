"""``engine.extract`` and ``engine.iter_extract`` with a tiny random model."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import re
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pandas
import pydantic
import pytest

from proxy_engine import (
    ExtractionProgress,
    InferenceEngine,
    InvalidOptionError,
    InvalidResponseFormatError,
    OutputFileRefusedError,
    RecordError,
)
from proxy_engine.requests.streams import REQUESTS_AHEAD
from state_machines import ChoiceStateMachine
from state_machines.errors import MaxTokensTooSmallError


class Pet(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: Literal[1, 2, 3]


class Row(pydantic.BaseModel):
    id: int
    text: str


@dataclasses.dataclass
class Note:
    text: str


Tagged = namedtuple("Tagged", "tag text")

OPTIONS: dict[str, Any] = {"max_tokens": 60, "temperature": 0.0, "progress": False}


def test_records_of_all_kinds_have_values(tiny_engine: InferenceEngine) -> None:
    records = ["a", {"text": "b", "id": 2}, Note("c"), Row(id=4, text="d"), Tagged(5, "e")]
    results = tiny_engine.extract(records, Pet, **OPTIONS)
    assert [record.index for record in results] == [0, 1, 2, 3, 4]
    assert [record.record for record in results] == records
    assert all(isinstance(value, Pet) for value in results.values)
    assert results.errors == {}
    assert all(record.usage and record.usage.completion_tokens for record in results)


def test_values_equal_those_of_a_batch(tiny_engine: InferenceEngine) -> None:
    texts = [f"text {number}" for number in range(12)]
    options: dict[str, Any] = {"max_tokens": 60, "temperature": 0.0}
    batch = tiny_engine.generate_batch(texts, response_format=Pet, **options)
    results = tiny_engine.extract(texts, Pet, instruction="", **OPTIONS)
    assert results.values == [result.parsed for result in batch]
    prompts = [f"Extract kind, age from this text as JSON:\n\n{text}" for text in texts]
    batch = tiny_engine.generate_batch(prompts, response_format=Pet, **options)
    results = tiny_engine.extract(texts, Pet, **OPTIONS)
    assert results.values == [result.parsed for result in batch]


def test_iterators_as_options_apply_to_all_records(tiny_engine: InferenceEngine) -> None:
    seven = tiny_engine.tokenizer.encode("7")[-1]
    texts = ["a", "b"]
    biases: Any = zip([seven], [1e4], strict=True)
    assert tiny_engine.extract(texts, Literal[3, 5, 7], logit_bias=biases, **OPTIONS).values == [
        7,
        7,
    ]
    stop: Any = iter(["7"])
    with pytest.raises(InvalidOptionError, match="stop strings end free text"):
        tiny_engine.extract(texts, Literal[3, 5, 7], stop=stop, **OPTIONS)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("", "the text is empty"),
        (" \n", "the text is empty"),
        (None, "the record is missing"),
        (float("nan"), "the record is missing"),
        (7, "a record should be a string"),
        ({"body": "x"}, "the record has no field 'text'; its fields: 'body'"),
        ({"text": None}, "the text is missing"),
        ({"text": 3}, "the text should be a string, not 3"),
        ("half a pair: \ud800", "lone surrogate"),
        ("x" * 100_000, "context"),
    ],
)
def test_invalid_record_fails_alone(
    tiny_engine: InferenceEngine, record: Any, message: str
) -> None:
    results = tiny_engine.extract(["before", record, "after"], Pet, **OPTIONS)
    assert list(results.errors) == [1]
    assert message in str(results.errors[1])
    assert results.values[1] is None
    assert results.values[0] is not None
    assert results.values[2] is not None


def test_failing_functions_are_errors_of_their_records(tiny_engine: InferenceEngine) -> None:
    records = [{"title": "a", "body": "b"}, {"title": "c"}]
    results = tiny_engine.extract(
        records, Pet, text=lambda record: record["title"] + record["body"], **OPTIONS
    )
    assert results.values[0] is not None
    assert isinstance(results.errors[1], RecordError)
    assert isinstance(results.errors[1].__cause__, KeyError)
    results = tiny_engine.extract(["a"], Pet, instruction=lambda record: 3, **OPTIONS)  # type: ignore[arg-type, return-value]
    assert "instruction(record) should be a text" in str(results.errors[0])


@pytest.mark.parametrize("error", [ValueError("no animals"), KeyError("no animals")])
def test_rejected_answer_is_the_error_of_its_record(
    tiny_engine: InferenceEngine, error: Exception
) -> None:
    class Strict(pydantic.BaseModel):
        kind: Literal["cat", "dog"]

        @pydantic.field_validator("kind")
        @classmethod
        def check(cls, value: str) -> str:
            raise error

    results = tiny_engine.extract(["a", "b"], Strict, **OPTIONS)
    assert list(results.errors) == [0, 1]
    assert "no animals" in str(results.errors[0])


def test_iterator_is_read_as_the_engine_takes_records(tiny_model: Any, tiny_tokenizer: Any) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield f"text {number}"

    with (
        InferenceEngine(tiny_model, tiny_tokenizer, batch_size=2) as engine,
        engine.iter_extract(endless(), Pet, **OPTIONS) as records,
    ):
        for count in range(1, 6):
            assert next(records).index == count - 1
            # One more is read to learn the fields.
            assert taken <= count + 2 * REQUESTS_AHEAD + 1
        records.close()
        assert list(records) == []
        del records
        gc.collect()
        while engine.running_requests or engine.queued_requests:
            time.sleep(0.001)


def test_interrupted_iterator_stops_the_batch(tiny_engine: InferenceEngine) -> None:
    def interrupted() -> Iterator[str]:
        yield from ["a"] * 40
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny_engine.extract(interrupted(), Pet, **OPTIONS)
    assert tiny_engine.extract(["a"], Pet, **OPTIONS).errors == {}


def test_schemas_that_are_no_objects_have_values(tiny_engine: InferenceEngine) -> None:
    assert tiny_engine.extract(["a"], Literal[4, 5], **OPTIONS).values[0] in (4, 5)
    assert tiny_engine.extract(["a"], {"enum": ["x"]}, **OPTIONS).values == ["x"]
    machine = ChoiceStateMachine(["yes", "no"])
    results = tiny_engine.extract(["a"], machine, **OPTIONS)
    assert results.values[0] in ("yes", "no")


def test_instruction_precedes_the_text(
    tiny_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[Any] = []
    iter_batch = InferenceEngine.iter_batch

    def recording(engine: Any, requests: Any, **arguments: Any) -> Any:
        def copied() -> Iterator[Any]:
            for request in requests:
                prompts.append(request)
                yield request

        return iter_batch(engine, copied(), **arguments)

    monkeypatch.setattr(InferenceEngine, "iter_batch", recording)
    tiny_engine.extract([" a\n"], Pet, instruction="Which pet?", **OPTIONS)
    tiny_engine.extract([{"text": "b", "n": 3}], Pet, instruction=lambda r: f"{r['n']}?", **OPTIONS)
    machine = ChoiceStateMachine(["yes", "no"])
    tiny_engine.extract(["c"], machine, **OPTIONS)
    assert prompts == ["Which pet?\n\na", "3?\n\nb", "Answer about this text:\n\nc"]


def test_counts_are_passed_to_a_function(tiny_engine: InferenceEngine) -> None:
    counts: list[ExtractionProgress] = []
    options = {**OPTIONS, "progress": counts.append}
    tiny_engine.extract(["a", "", "b"], Pet, **options)
    assert counts == [(1, 0, 3, 0), (2, 1, 3, 0), (3, 1, 3, 0)]
    counts.clear()
    tiny_engine.extract(iter(["a"]), Pet, **options)
    assert counts == [(1, 0, None, 0)]


def test_progress_bar_needs_a_terminal(
    tiny_engine: InferenceEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_engine.extract(["a"], Pet, max_tokens=60)
    assert capsys.readouterr().err == ""
    tiny_engine.extract(["a"], Pet, max_tokens=60, progress=True)
    assert "1/1" in capsys.readouterr().err


def test_notebook_shows_a_bar_of_its_own(
    tiny_engine: InferenceEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown: list[tuple[str, str]] = []
    display = SimpleNamespace(
        display=lambda data, **_: shown.append(("display", data["text/html"])),
        update=lambda data, **_: shown.append(("update", data["text/html"])),
    )
    monkeypatch.setattr("proxy_engine.extraction.progress._in_notebook", lambda: True)
    monkeypatch.setattr("proxy_engine.extraction.progress._SECONDS_BETWEEN_UPDATES", 0)
    monkeypatch.setattr("IPython.display.DisplayHandle", lambda: display)
    tiny_engine.extract(["a", ""], Pet, max_tokens=60)
    bars = ['<progress value="1" max="2"></progress> 1 of 2 records, 0 s']
    bars += 2 * [
        '<progress value="2" max="2"></progress> 2 of 2 records, 1 failed, 0 cut short, 0 s'
    ]
    found = [(kind, re.sub(r"\d+ s$", "0 s", html)) for kind, html in shown]
    assert found == list(zip(["display", "update", "update"], bars, strict=True))
    tiny_engine.extract(["a"], Pet, **OPTIONS)
    assert len(shown) == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("records", "arguments", "error", "message"),
    [
        ("text", {}, InvalidOptionError, "iterable of records"),
        ({"text": "x"}, {}, InvalidOptionError, "iterable of records"),
        (3, {}, InvalidOptionError, "iterable of records"),
        (["x"], {"resume": True}, InvalidOptionError, "resume requires an output file"),
        (["x"], {"text": 1.5}, InvalidOptionError, "text should be a valid string, or .*callable"),
        ("in.csv", {}, InvalidOptionError, r"Write pathlib.Path\('in.csv'\) .* \['in.csv'\]"),
        ("x" * 99, {}, InvalidOptionError, r"Write pathlib.Path\(records\) .* \[records\]"),
        ({"text": ["x"]}, {}, InvalidOptionError, r"pandas.DataFrame\(records\) for columns"),
        ({"text": "x"}, {}, InvalidOptionError, "Put a single record into a list"),
        (pandas.DataFrame([[1, "x"]]), {"text": 2}, InvalidOptionError, "no column '2'"),
        (["x"], {"image": b"x.png"}, InvalidOptionError, "image should be a valid string"),
        (["x"], {"output": "x.txt"}, InvalidOptionError, "the suffix of 'x.txt'"),
        (["x"], {"temperature": -1.0}, InvalidOptionError, "temperature"),
        (["x"], {"temprature": 1.0}, InvalidOptionError, "temprature"),
        (["x"], {"n": 2, "temperature": 1.0}, InvalidOptionError, "one answer for each record"),
        (["x"], {"max_tokens": 3}, MaxTokensTooSmallError, "max_tokens"),
        ([{"text": "x", "age": 3}], {}, InvalidOptionError, "two columns of the name 'age'"),
        (["x"], {"text": "kind"}, InvalidOptionError, "two columns of the name 'kind'"),
        (["x"], {"schema": Pet}, InvalidOptionError, "Did you mean 'response_format'"),
        (
            [{"id": 1}, {"body": ""}],
            {},
            InvalidOptionError,
            "no field 'text'; their fields: 'id', ",
        ),
        (["x"], {"columns": ["token"]}, InvalidOptionError, "no columns 'token'. Choose among"),
        (["x"], {"columns": "tokens"}, InvalidOptionError, "a list of names"),
        (
            [{"text": "", "prompt_tokens": 1}],
            {"columns": ["tokens"]},
            InvalidOptionError,
            "two col",
        ),
        (["x"], {"output": "none/x.csv"}, OutputFileRefusedError, "No such file"),
        (["x"], {"output": "a\0.csv"}, OutputFileRefusedError, "cannot write"),
    ],
)
def test_wrong_arguments_are_refused_before_the_model_runs(
    tiny_engine: InferenceEngine,
    records: Any,
    arguments: Any,
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(InferenceEngine, "iter_batch", None)
    with pytest.raises(error, match=message):
        tiny_engine.extract(records, Pet, **{**OPTIONS, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_numbered_columns_have_the_texts(tiny_engine: InferenceEngine) -> None:
    frame = pandas.DataFrame([[1, "x"]])
    for records in (frame, [{0: 1, 1: "x"}]):
        for column in (1, frame.columns[1], "1"):
            assert not tiny_engine.extract(records, Pet, text=column, **OPTIONS).errors


@pytest.mark.parametrize("response_format", [None, {"type": "text"}, 3])
def test_wrong_response_format_is_refused(
    tiny_engine: InferenceEngine, response_format: Any
) -> None:
    with pytest.raises(InvalidResponseFormatError):
        tiny_engine.extract(["x"], response_format, **OPTIONS)


def test_later_record_with_the_name_of_a_column_fails_alone(
    tiny_engine: InferenceEngine,
) -> None:
    records = [{"text": "a"}, {"text": "b", "age": 4}]
    results = tiny_engine.extract(records, Pet, **OPTIONS)
    assert "the field 'age' has the name of a column" in str(results.errors[1])
    assert tiny_engine.extract(records, Pet, prefix="pet_", **OPTIONS).errors == {}
