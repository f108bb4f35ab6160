"""Benchmark of drafts: documents, draft model, figures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from arguments import NamedTokenizer
from end_to_end import main
from jsonschema import validate
from mlx_lm.tokenizer_utils import TokenizerWrapper
from random_models import Size
from speculation_batches import speculation_batches
from speculation_tasks import COPIED, SETS, Task, make_tasks, share_in_prompt
from speculation_tasks.base import object_schema
from subject import Subject, random_subject

COPY = Task(
    "copy",
    "copied",
    object_schema({"name": {"type": "string"}, "age": {"type": "integer"}}),
    '{"name": "Ada Lovelace", "age": 36}',
    "Who is Ada Lovelace, 36?",
)
PROSE = Task("prose", "free text", None, "the quick brown fox jumps", "Write.")


@pytest.fixture(scope="module")
def tokenizer(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: TokenizerWrapper
) -> NamedTokenizer:
    file = tmp_path_factory.mktemp("tiny") / "tokenizer.json"
    tiny_tokenizer.backend_tokenizer.save(str(file))
    return NamedTokenizer("tiny", file)


@pytest.fixture(scope="module")
def subject(tokenizer: NamedTokenizer) -> Any:
    one = random_subject(Size(2, 32), tokenizer, ["ours", "mlx-lm"])
    yield one
    one.close()


@pytest.mark.parametrize("kind", SETS)
def test_documents_match_their_schemas_and_set(kind: str) -> None:
    tasks = make_tasks(kind)
    assert len({task.name for task in tasks}) == len(tasks) >= 12
    for task in tasks:
        assert 200 <= len(task.text) <= 600
        if task.schema is not None:
            validate(json.loads(task.text), task.schema)
        if kind == "copied":
            assert share_in_prompt(task) >= COPIED
        if kind == "paraphrased":
            assert share_in_prompt(task) < 0.2
    assert [task.text for task in make_tasks(kind, 2)] == [task.text for task in tasks[:2]]


def test_batches_write_the_documents_of_each_row(subject: Subject) -> None:
    tasks = [COPY, dataclasses.replace(PROSE, kind="free string")]
    figures = list(speculation_batches(subject, {"mixed": tasks}, repeats=1))
    assert {figure["rows"] for figure in figures} == {
        "all rows",
        "copied rows",
        "free string rows",
    }


def test_command_measures_drafts_without_other_data(
    tokenizer: NamedTokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    arguments = ["--figures", "speculation", "--model", "1x32", "--tasks", "1", "--repeats", "1"]
    arguments += ["--sets", "free text"]
    arguments += ["--tokenizer", f"tiny={tokenizer.path}", "--stacks", "ours", "--json", str(file)]
    assert main(arguments) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert {figure["set"] for figure in report["speculation"]} == {"free text"}
    assert "tokens/pass" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--figures", "strings"])
