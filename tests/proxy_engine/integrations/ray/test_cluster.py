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
from pyarrow import parquet
from pydantic import BaseModel

from proxy_engine import EngineError, ModelNotFoundError, OutputFileError
from proxy_engine.cli.main import main
from proxy_engine.integrations.ray.actors import ActorSettings
from proxy_engine.integrations.ray.output import MANIFEST, OutputDirectory
from proxy_engine.integrations.ray.partitions import Location, list_files, plan_partitions

ray = pytest.importorskip("ray")

from proxy_engine.integrations.ray import extract  # noqa: E402 - needs Ray
from proxy_engine.integrations.ray.run import (  # noqa: E402 - needs Ray
    ActorResources,
    Counts,
    connected,
    run_partitions,
)

# They start processes for tens of seconds.
pytestmark = pytest.mark.soak

ROWS = 2_000
DEATHS = {700: "kill", 1_300: "exit", 1_700: "ray.kill"}
"""The rows at which an actor dies when it first reads them."""
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "bb"]}, "size": {"enum": [1, 22, None]}},
    "required": ["kind", "size"],
    "additionalProperties": False,
}


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
        SCHEMA, text=text, engine={"model": str(model)}, options={"temperature": 0}
    )


def write_input(directory: Path) -> None:
    """Write the rows to files of both formats."""
    directory.mkdir()
    rows = [{"id": number, "text": text_of(number)} for number in range(ROWS)]
    half = ROWS // 2
    table = pyarrow.Table.from_pylist(rows[:half])
    parquet.write_table(table, directory / "a.parquet", row_group_size=300)
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
    source = Location.of(str(tmp_path / "in"), "input")
    output = OutputDirectory(Location.of(str(tmp_path / "out"), "output"), "out")
    partitions = plan_partitions(source, list_files(source, "in"), 250, lambda *_: None)
    output.open({}, is_resumed=False)
    deaths = {**DEATHS, 1_900: "ray.kill for good"}
    settings = settings_of(tiny_model_directory, dying(tmp_path / "deaths", deaths))
    counts = Counts()
    for one in run_partitions(settings, source, output, partitions, ActorResources(2, 0.5)):
        counts += one
    assert (counts.partitions, counts.rows, counts.failed) == (len(partitions), ROWS, len(FAILED))
    assert len(list((tmp_path / "deaths").iterdir())) == len(deaths)
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        MANIFEST,
        *(partition.name for partition in partitions),
    }
    # The files in the order of their names have the rows in the order of the input.
    check_rows(read_output(tmp_path / "out"), ids=list(range(ROWS)))


def test_partition_that_kills_its_actors_is_left_to_the_next_run(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    (tmp_path / "in").mkdir()
    table = pyarrow.table({"id": range(100, 140), "text": ["x"] * 40})
    parquet.write_table(table, tmp_path / "in" / "a.parquet")
    source = Location.of(str(tmp_path / "in"), "input")
    output = OutputDirectory(Location.of(str(tmp_path / "out"), "output"), "out")
    partitions = plan_partitions(source, list_files(source, "in"), 10, lambda *_: None)
    output.open({}, is_resumed=False)
    deadly = settings_of(tiny_model_directory, dying(tmp_path, {115: "exit"}, is_once=False))
    with pytest.raises(OutputFileError, match=r"1 of 4 partitions are not .*00000001\.parquet"):
        list(run_partitions(deadly, source, output, partitions, ActorResources(1, 0.5)))
    assert partitions[1].name not in output.names()
    assert len(output.names()) == 4
    attempts = list((tmp_path / "out" / "_attempts" / partitions[1].name).iterdir())
    # Further attempts end at once.
    assert len(attempts) > 4
    again = run_partitions(
        settings_of(tiny_model_directory), source, output, partitions[1:2], ActorResources(1, 0.5)
    )
    assert sum(one.rows for one in again) == 10
    assert [row["id"] for row in read_output(tmp_path / "out")] == list(range(100, 140))


def test_errors_of_actors_are_raised(tmp_path: Path) -> None:
    rows = ray.data.from_items([{"text": "x"}])
    with pytest.raises(ModelNotFoundError, match="there is no directory '/nowhere'"):
        extract(rows, Tag, model="/nowhere", num_cpus=0.5).take_all()


def test_command_continues_an_interrupted_run(
    tmp_path: Path, tiny_model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    rows = "".join(json.dumps({"id": number, "body": "x"}) + "\n" for number in range(60))
    (tmp_path / "in" / "a.jsonl").write_text(rows + "{\n", encoding="utf-8")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    model, out = str(tiny_model_directory), tmp_path / "out"
    arguments = ["extract", "--ray", "auto", "--schema", str(tmp_path / "schema.json")]
    arguments += ["--input", str(tmp_path / "in"), "--output", str(out), "--text", "body"]
    arguments += ["--partition-rows", "20", "--temperature", "0", "--num-cpus", "0.5"]
    assert main([*arguments, "--model", "/nowhere"]) == 1
    assert "there is no directory '/nowhere'" in capsys.readouterr().err
    shutil.rmtree(out)
    assert main([*arguments, "--model", model]) == 1
    assert "1 of 61 rows failed" in capsys.readouterr().err
    before = {file: file.read_bytes() for file in out.iterdir()}
    assert len(before) == 5
    (out / "part-00000001.jsonl").unlink()
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
