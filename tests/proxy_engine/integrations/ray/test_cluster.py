"""Extraction on a cluster of Ray on this machine, and its faults. ``make test-ray`` runs them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pytest
from object_schemas import closed_object
from pyarrow import parquet
from pydantic import BaseModel

from proxy_engine import EngineError, ModelNotFoundError, OutputFileError
from proxy_engine.cli.main import main
from proxy_engine.extraction.records import RecordReader
from proxy_engine.integrations.ray.actors import ActorSettings
from proxy_engine.integrations.ray.files import Location, OutputDirectory, parts_of

ray = pytest.importorskip("ray")

from proxy_engine.integrations.ray import extract  # noqa: E402 - needs Ray
from proxy_engine.integrations.ray.datasets import connected, run_parts  # noqa: E402 - needs Ray

# They start processes for tens of seconds.
pytestmark = pytest.mark.soak

ROWS = 400
DEATHS = {140: "kill", 260: "exit", 340: "ray.kill"}
"""The rows at which an actor dies when it first reads them."""
SCHEMA = closed_object(kind={"enum": ["a", "bb"]}, size={"enum": [1, 22, None]})


class Tag(BaseModel):
    kind: Literal["a", "bb"]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # The names of Ray's sockets are limited to about 100 bytes.
    directory = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(
        num_cpus=2,
        object_store_memory=100 << 20,
        include_dashboard=False,
        _temp_dir=directory,
        logging_level="warning",
        log_to_driver=False,
    )
    yield
    ray.shutdown()
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    shutil.rmtree(directory, ignore_errors=True)


def text_of(number: int) -> str | None:
    """Return the text of a row; some are hostile."""
    hostile = {11: None, 12: "", 13: "x" * 1_000_000, 14: "\0\n{}", 15: "<|end|>"}
    return hostile.get(number, f"row {number}")


FAILED = {11, 12, 13}


def dying(directory: Path, deaths: dict[int, str], *, is_once: bool = True) -> Callable[[Any], Any]:
    """Return a function of a row that returns its text, and ends the process at some rows."""

    def read(row: Any) -> Any:
        manner = deaths.get(row["id"])
        marker = directory / f"died-at-{row['id']}"
        if manner is not None and not (is_once and marker.exists()):
            marker.touch()
            if manner == "exit":
                # As the kernel ends a process without memory: no cleanup, no exception.
                os._exit(137)
            if manner == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            actor = ray.get_runtime_context().current_actor
            ray.kill(actor, no_restart=manner == "ray.kill for good")
            time.sleep(60)
        return row["text"]

    return read


def settings_of(model: Path, text: Any = "text") -> ActorSettings:
    return ActorSettings(
        SCHEMA, reader=RecordReader(text), engine={"model": str(model)}, options={"temperature": 0}
    )


def write_input(directory: Path) -> None:
    """Write the rows to files of both formats."""
    directory.mkdir()
    rows = [{"id": number, "text": text_of(number)} for number in range(ROWS)]
    half = ROWS // 2
    table = pyarrow.Table.from_pylist(rows[:half])
    parquet.write_table(table, directory / "a.parquet", row_group_size=60)
    lines = "".join(json.dumps(row) + "\n" for row in rows[half:])
    (directory / "b.jsonl").write_text(lines, encoding="utf-8")


def read_output(directory: Path) -> list[dict[str, Any]]:
    rows = []
    for file in sorted(directory.iterdir()):
        if file.suffix == ".parquet":
            rows += parquet.read_table(file).to_pylist()
        elif file.suffix == ".jsonl":
            rows += [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return rows


def check_rows(rows: list[dict[str, Any]], *, ids: list[int]) -> None:
    """Check that each row is there once, with its fields and an answer or an error."""
    assert [row["id"] for row in rows] == ids
    for row in rows:
        assert row["text"] == text_of(row["id"])
        if row["id"] in FAILED:
            assert row["error"]
        else:
            assert not row.get("error")
            assert row["kind"] in ("a", "bb")


def test_dataset_has_each_row_once_if_actors_die(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    rows = [{"id": number, "text": text_of(number)} for number in range(ROWS)]
    extracted = extract(
        ray.data.from_items(rows, override_num_blocks=16),
        SCHEMA,
        model=tiny_model_directory,
        text=dying(tmp_path, DEATHS),
        concurrency=2,
        num_cpus=0.5,
        temperature=0,
    )
    found = sorted(extracted.iter_rows(), key=lambda row: row["id"])
    check_rows(found, ids=list(range(ROWS)))
    assert len(list(tmp_path.iterdir())) == len(DEATHS)


def test_files_have_each_row_once_if_actors_die(tmp_path: Path, tiny_model_directory: Path) -> None:
    write_input(tmp_path / "in")
    (tmp_path / "deaths").mkdir()
    source = Location.of(str(tmp_path / "in"))
    output = OutputDirectory(Location.of(str(tmp_path / "out")))
    parts = parts_of(source.files())
    output.open({}, is_resumed=False)
    settings = settings_of(tiny_model_directory, dying(tmp_path / "deaths", DEATHS))
    counts = list(run_parts(settings, source, output.location, parts, concurrency=2, num_cpus=0.5))
    assert len(list((tmp_path / "deaths").iterdir())) == len(DEATHS)
    assert [sum(numbers) for numbers in zip(*counts, strict=True)][:2] == [ROWS, len(FAILED)]
    # The files in the order of their names have the rows in the order of the input.
    check_rows(read_output(tmp_path / "out"), ids=list(range(ROWS)))


def test_part_that_kills_its_actors_is_left_to_the_next_run(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    (tmp_path / "in").mkdir()
    for name in range(4):
        rows = [json.dumps({"id": 10 * name + number, "text": "x"}) for number in range(10)]
        (tmp_path / "in" / f"{name}.jsonl").write_text("\n".join(rows))
    source = Location.of(str(tmp_path / "in"))
    output = OutputDirectory(Location.of(str(tmp_path / "out")))
    parts = parts_of(source.files())
    output.open({}, is_resumed=False)
    deadly = settings_of(tiny_model_directory, dying(tmp_path, {15: "exit"}, is_once=False))
    with pytest.raises(OutputFileError, match="1 of 4 parts are not finished"):
        list(run_parts(deadly, source, output.location, parts, num_cpus=0.5))
    names = output.open({}, is_resumed=True)
    assert names == {part.name for part in parts if part.number != 1}
    settings = settings_of(tiny_model_directory)
    (counts,) = run_parts(settings, source, output.location, parts[1:2], num_cpus=0.5)
    assert counts.rows == 10
    assert [row["id"] for row in read_output(tmp_path / "out")] == list(range(40))


def test_errors_of_actors_are_raised(tmp_path: Path) -> None:
    rows = ray.data.from_items([{"text": "x"}])
    with pytest.raises(ModelNotFoundError, match="there is no directory '/nowhere'"):
        extract(rows, Tag, model="/nowhere", num_cpus=0.5).take_all()


def test_command_continues_an_interrupted_run(
    tmp_path: Path, tiny_model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = tmp_path / "letters"
    letters.mkdir()
    for number in range(20):
        (letters / f"{number:02}.txt").write_text(f"letter {number}")
    (letters / "inbox.jsonl").write_text('{"id": 1, "text": "x"}\n{\n')
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    model, out = str(tiny_model_directory), tmp_path / "out"
    arguments = ["extract", "--ray", "auto", "--schema", str(tmp_path / "schema.json")]
    arguments += ["--input", str(letters), "--output", str(out)]
    arguments += ["--temperature", "0", "--num-cpus", "0.5"]
    assert main([*arguments, "--model", "/nowhere"]) == 1
    assert "there is no directory '/nowhere'" in capsys.readouterr().err
    shutil.rmtree(out)
    assert main([*arguments, "--model", model]) == 1
    shown = capsys.readouterr().err
    assert "1 of 22 rows failed" in shown
    assert "WARNING" not in shown
    assert "INFO" not in shown
    before = {file: file.read_bytes() for file in out.iterdir()}
    assert len(before) == 3
    (out / "part-00000000.jsonl").unlink()
    assert main([*arguments, "--model", model]) == 2
    assert main([*arguments, "--model", "/nowhere", "--resume"]) == 2
    assert "another model" in capsys.readouterr().err
    assert main([*arguments, "--model", model, "--resume"]) == 0
    assert {file: file.read_bytes() for file in out.iterdir()} == before
    assert main([*arguments, "--model", model, "--resume"]) == 0
    assert "nothing left to do" in capsys.readouterr().err


def test_unreachable_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with (
        pytest.raises(EngineError, match="cannot connect to Ray at 'nowhere"),
        connected("nowhere:1"),
    ):
        pass
