"""Extraction on Ray: rows a second by the number of actors, start-up, and memory of the driver.

* *rate*: rows a second while all actors work: from the first files to the last ones. Runs with
  one and with two actors take turns.
* *processor time*: that of the actors for each row in the same part of the run. If it is equal, two
  actors on idle cores are twice as fast as one.
* *start-up*: a run over a single row, which starts the actors and their engines.
* *memory*: resident memory of the driver over many rows, with an engine that answers at once.

    python benchmarks/ray_extraction.py [--rows 2000] [--repeats 3] [--memory-rows 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import ray
from alternation import ratio_of, rotated
from arguments import environment
from random_models import save_random_model, size

from proxy_engine.integrations.ray.actors import ActorSettings
from proxy_engine.integrations.ray.datasets import run_parts
from proxy_engine.integrations.ray.files import Counts, Location, OutputDirectory, parts_of

FIGURES = Path(__file__).parents[1] / "docs" / "plots" / "ray_extraction.json"
SUPPORT = Path(__file__).parents[1] / "tests" / "support"
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "bb"]}, "size": {"enum": [1, 22, None]}},
    "required": ["kind", "size"],
    "additionalProperties": False,
}
FILES = 16
_MIB = 1 << 20


def stand_in() -> None:
    """Replace the engine of a worker process by one without a model."""
    from types import ModuleType  # noqa: PLC0415 - runs in another process

    sys.path.insert(0, str(SUPPORT))
    from stand_in_engine import StandInEngine  # noqa: PLC0415 - as above

    module = ModuleType("proxy_engine.engine.inference_engine")
    module.InferenceEngine = StandInEngine  # type: ignore[attr-defined]
    sys.modules["proxy_engine.engine.inference_engine"] = module


@contextmanager
def cluster(directory: Path, **options: Any) -> Iterator[None]:
    """Start a cluster with two CPUs on this machine."""
    ray.init(
        num_cpus=2,
        object_store_memory=200 * _MIB,
        include_dashboard=False,
        _temp_dir=str(directory),
        logging_level="error",
        log_to_driver=False,
        **options,
    )
    try:
        yield
    finally:
        ray.shutdown()


def run(
    directory: Path, settings: ActorSettings, rows: int, file_rows: int, actors: int
) -> Iterator[tuple[float, float, Counts]]:
    """Extract from ``rows`` rows; yield an observation at each finished file.

    It has the seconds since the start, the actors' processor time in seconds, and the counts.
    """
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "in").mkdir(parents=True)
    for begin in range(0, rows, file_rows):
        with (directory / "in" / f"{begin:08}.jsonl").open("w", encoding="utf-8") as lines:
            for number in range(begin, min(begin + file_rows, rows)):
                lines.write(json.dumps({"id": number, "text": f"text {number:08d}"}) + "\n")
    source = Location.of(str(directory / "in"))
    output = OutputDirectory(Location.of(str(directory / "out")))
    parts = parts_of(source.files())
    output.open({}, is_resumed=False)
    counts, started = Counts(), time.perf_counter()
    for one in run_parts(
        settings, source, output.location, parts, concurrency=actors, num_cpus=0.5
    ):
        counts = Counts(*map(sum, zip(counts, one, strict=True)))
        yield time.perf_counter() - started, actors_time(), counts
    assert counts.rows == rows, counts


def actors_time() -> float:
    """Return the processor time of the processes of actors, in seconds."""
    seconds = 0.0
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        command = process.info["cmdline"]
        if command and command[0].startswith("ray::FileActor"):
            seconds += process.info["cpu_times"].user + process.info["cpu_times"].system
    return seconds


def rate(directory: Path, settings: ActorSettings, rows: int, actors: int) -> tuple[float, float]:
    """Return rows a second, and rows for each second of the actors' processors; no start-up."""
    seen = list(run(directory, settings, rows, -(-rows // FILES), actors))
    # Until here, each actor has a file to work on.
    (first, busy, before), (last, busy_after, after) = seen[actors - 1], seen[-1 - actors]
    done = after.rows - before.rows
    return done / (last - first), done / (busy_after - busy)


def measure_rates(directory: Path, model: Path, rows: int, repeats: int) -> dict[str, Any]:
    """Measure rates and start-up with one and two actors, in turn."""
    settings = ActorSettings(SCHEMA, engine={"model": str(model)}, options={"temperature": 0})
    rates: dict[int, list[float]] = {1: [], 2: []}
    efficiency: dict[int, list[float]] = {1: [], 2: []}
    starts: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(repeats):
        for name in rotated({"1": 1, "2": 2}, turn):
            actors = int(name)
            (seconds, *_), *_ = list(run(directory, settings, actors, 1, actors))
            starts[actors].append(seconds)
            found, per_second = rate(directory, settings, rows, actors)
            rates[actors].append(found)
            efficiency[actors].append(per_second)
            shown = f"{found:.1f} rows/s, {per_second:.1f} a second of processor time"
            shown += f", start-up {seconds:.1f} s"
            print(f"{actors} actors: {shown}, load {os.getloadavg()[0]:.1f}", flush=True)
    return {
        "rows": rows,
        "rows_per_second": ratio_of(rates[2], rates[1]).as_record(),
        "rows_per_processor_second": ratio_of(efficiency[2], efficiency[1]).as_record(),
        "start_up_seconds": {str(actors): sorted(values) for actors, values in starts.items()},
    }


def measure_memory(directory: Path, rows: int) -> dict[str, Any]:
    """Sample the resident memory of this process at each of a hundred files."""
    sys.path.insert(0, str(SUPPORT))
    from stand_in_engine import SCHEMA as ANSWERS  # noqa: PLC0415 - a helper of the tests

    settings = ActorSettings(ANSWERS)
    process = psutil.Process()
    sampled = [
        process.memory_info().rss / _MIB
        for _ in run(directory, settings, rows, max(rows // 100, 1), 2)
    ]
    tenth = max(len(sampled) // 10, 1)
    return {
        "rows": rows,
        "files": len(sampled),
        "driver_mib": {
            "after_a_tenth": round(sampled[tenth - 1], 1),
            "after_half": round(sampled[len(sampled) // 2], 1),
            "at_the_end": round(sampled[-1], 1),
            "largest": round(max(sampled), 1),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", type=size, default=size("2x64"), metavar="LAYERSxWIDTH")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory-rows", type=int, default=100_000)
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "environment": environment(),
        "ray": version("ray"),
        "model": str(options.model),
        "load_average": os.getloadavg(),
    }
    # The names of Ray's sockets are limited to about 100 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as temporary:
        directory = Path(temporary)
        with cluster(directory, runtime_env={"worker_process_setup_hook": stand_in}):
            figures["memory"] = measure_memory(directory / "run", options.memory_rows)
        print(json.dumps(figures["memory"]), flush=True)
        model = directory / "model"
        model.mkdir()
        save_random_model(options.model, model)
        with cluster(directory):
            figures["rates"] = measure_rates(
                directory / "run", model, options.rows, options.repeats
            )
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
