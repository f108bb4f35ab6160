"""An extraction in a newcomer's first hour, with the embedded model.

Before: columns had answers alone; long texts needed a prompt that fits; quotes were numbers in a
list; a misnamed column failed row by row; Ctrl-C said "the same command"; `schema=` was a
TypeError.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import pandas
import pytest
from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine, InvalidOptionError, QuoteFrom
from proxy_engine.cli.main import main


class Ticket(BaseModel):
    product: Annotated[str, QuoteFrom("input")] = Field(max_length=12)
    urgency: Literal["low", "high"]


class Person(BaseModel):
    name: Annotated[str, QuoteFrom("input")] = Field(max_length=16)


class People(BaseModel):
    people: list[Person]


MINUTES = """Ada Lovelace opened the meeting. Grace Hopper read the minutes.

Emmy Noether spoke about rings. Alan Turing asked a question.

Grace Hopper thanked everybody."""


def test_table_says_how_sure_and_how_long(embedded_engine: InferenceEngine) -> None:
    frame = pandas.DataFrame({"id": [1, 2], "body": ["The printer is on fire!", ""]})
    with pytest.raises(InvalidOptionError, match=r"no column 'text'; its columns: .*'id', 'body'"):
        embedded_engine.extract(frame, Ticket)
    with pytest.raises(InvalidOptionError, match="Did you mean 'response_format'"):
        embedded_engine.extract(frame, schema=Ticket, text="body")  # type: ignore[call-overload]
    table = embedded_engine.extract(
        frame,
        Ticket,
        text="body",
        columns=["confidence", "cut_short", "tokens"],
        temperature=0,
        max_tokens=40,
        progress=False,
    ).to_frame()
    first = table.iloc[0]
    assert 0.5 < first.urgency_confidence <= 1
    assert 0 < first.completion_tokens <= 40
    assert table.cut_short.isna().all()
    assert table.completion_tokens.isna().tolist() == [False, True]


def test_long_text_is_read_in_pieces_and_shown_with_its_quotes(
    embedded_engine: InferenceEngine,
) -> None:
    results = embedded_engine.extract(
        [MINUTES],
        People,
        chunk_tokens=36,
        chunk_overlap=8,
        max_tokens=24,
        columns=["tokens", "cut_short"],
        temperature=0,
        progress=False,
    )
    (record,) = results
    assert record.value is not None
    names = [MINUTES[quote.start : quote.end] for quote in record.quotes]
    assert names == [one.name for one in record.value.people]
    places = [(quote.start, quote.end) for quote in record.quotes]
    # No place is named twice, and the first and the last paragraph have some.
    assert len(places) == len(set(places))
    assert min(places)[0] < MINUTES.index("\n\n")
    assert max(places)[1] > MINUTES.rindex("\n\n")
    assert record.usage is not None
    assert record.usage.completion_tokens > 24
    html = results.to_html()
    assert html.count('title="') == len(places)


def test_command_refuses_a_missing_field_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(InferenceEngine, "__init__", None)
    Path("schema.json").write_text(json.dumps(Ticket.model_json_schema()))
    Path("in.jsonl").write_text('{"id": 1, "body": "The printer is on fire!"}\n')
    arguments = ["extract", "--schema", "schema.json", "in.jsonl"]
    assert main([*arguments, "--text", "txt"]) == 2
    message = "the records have no field 'txt'; their fields: 'id', 'body'. Name the field"
    assert message in capsys.readouterr().err

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("proxy_engine.engine.inference_engine.InferenceEngine", interrupted)
    assert main([*arguments, "--text", "body", "--output", "my out.csv"]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("extract --schema schema.json in.jsonl --text body --output 'my out.csv'")
