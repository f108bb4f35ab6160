"""Time of one token of a model that several ranks of this machine share, and its parts.

Each run starts this program on every rank, with ``mlx.launch`` or ``mpirun``. Ranks of one machine
share its cores and its memory, so they are not faster than one process; the figures are the shares
of a pass.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from arguments import environment, positive
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache
from random_models import save_random_model, size
from records import write_record
from tables import aligned, duration

from proxy_engine import InferenceEngine, RawPrompt
from proxy_engine.distributed.channel import broadcast
from proxy_engine.distributed.operations import RankMessage
from proxy_engine.distributed.session import Session, join
from proxy_engine.distributed.sharding import load_sharded
from proxy_engine.models.load_options import LoadOptions
from proxy_engine.models.loading import LoadedModel, load_model

__all__ = ["distributed_rows", "main"]

EMBEDDED = "embedded"
_RUNS = ("embedded:3:ring", "embedded:3:mpi", "30x576:2:ring", "30x576:2:mpi")
_LAUNCHERS = {
    "ring": (str(Path(sys.executable).with_name("mlx.launch")), "--backend", "ring"),
    # mlx.launch passes options that Open MPI does not have before version 5.
    "mpi": ("mpirun", "--allow-run-as-root", "--oversubscribe"),
}
_PROMPT = [(37 * position) % 1000 for position in range(32)]
_SHORT, _LONG = 8, 40
"""Tokens of the two requests whose difference is the time of a token."""

Step = Callable[[], None]


def main() -> int:
    """Measure the runs that the command line states, and print them."""
    arguments = _parser().parse_args()
    if arguments.measure is not None:
        _measure(arguments)
        return 0
    figures: list[dict[str, Any]] = []
    alone: dict[str, dict[str, Any]] = {}
    for run in arguments.runs:
        model, ranks, backend = run.split(":")
        if model not in alone:
            alone[model] = _run(arguments, model, [])
        # mlx.launch would read this program's options as its own.
        end_of_options = ["--"] if backend == "ring" else []
        shared = _run(arguments, model, [*_LAUNCHERS[backend], "-n", ranks, *end_of_options])
        figures.append(
            {"model": model, "ranks": int(ranks), "backend": backend, "alone": alone[model]}
            | shared
        )
        print(aligned(distributed_rows(figures), texts=3), flush=True)
        if arguments.json is not None:
            write_record(arguments.json, {"environment": environment(), "runs": figures})
    return 0


def distributed_rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each run: wall-clock times per pass or token, and their ratios."""
    rows = [
        [
            *("model", "ranks", "backend", "pass, one process", "pass", "without collectives"),
            *("collectives alone", "message and broadcast", "of a pass"),
            *("token, one process", "token", "ratio"),
        ]
    ]
    for figure in figures:
        wall = {name: times["wall"] for name, times in figure["times"].items()}
        alone = {name: times["wall"] for name, times in figure["alone"]["times"].items()}
        rows.append(
            [
                figure["model"],
                str(figure["ranks"]),
                figure["backend"],
                duration(alone["pass"]),
                duration(wall["pass"]),
                duration(wall["without collectives"]),
                duration(wall["collectives"]),
                duration(wall["message and broadcast"]),
                f"{wall['message and broadcast'] / wall['pass']:.1%}",
                duration(alone["token"]),
                duration(wall["token"]),
                f"{wall['token'] / alone['token']:.2f}",
            ]
        )
    return rows


def _run(arguments: argparse.Namespace, model: str, launcher: Sequence[str]) -> dict[str, Any]:
    """Measure in processes of their own, and return what rank 0 has written."""
    with tempfile.TemporaryDirectory() as directory:
        path, output = model, Path(directory) / "times.json"
        if model != EMBEDDED:
            path = directory
            save_random_model(size(model), Path(directory))
        command = [*launcher, sys.executable, str(Path(__file__).resolve())]
        if launcher:
            command.append("--shared")
        command += ["--measure", str(output), "--model", path]
        command += ["--rounds", str(arguments.rounds), "--passes", str(arguments.passes)]
        # mpirun reports an error for processes that end without MPI_Finalize.
        subprocess.run(command, check=not launcher, timeout=1800)
        return {"times": json.loads(output.read_text(encoding="utf-8"))}


def _measure(arguments: argparse.Namespace) -> None:
    """Measure the parts on all ranks, then requests of an engine; rank 0 writes the file."""
    path = None if arguments.model == EMBEDDED else arguments.model
    session = join() if arguments.shared else None
    if session is None:
        steps = {"pass": _pass(load_model(path).model)}
    else:
        loaded = load_sharded(path, LoadOptions(), session.group)
        steps = {"pass": _pass(loaded.model), **_steps_of_ranks(session, loaded)}
    times = _times(steps, arguments.rounds, arguments.passes, session)
    # On the other ranks, this follows rank 0 until it ends.
    with InferenceEngine(path, distributed=session is not None) as engine:
        token = [_token_microseconds(engine) for _ in range(arguments.rounds)]
    times["token"] = {"wall": statistics.median(token)}
    arguments.measure.write_text(json.dumps(times), encoding="utf-8")


def _pass(model: Module) -> Step:
    tokens, cache = mx.array([[5]]), make_prompt_cache(model)
    mx.eval(cast("Any", model)(mx.array([_PROMPT]), cache=cache))

    def step() -> None:
        mx.eval(cast("Any", model)(tokens, cache=cache))

    return step


def _steps_of_ranks(session: Session, loaded: LoadedModel) -> dict[str, Step]:
    group, tokens = session.group, mx.array([[5]])
    hidden = mx.zeros((1, 1, loaded.hidden_size or 1))
    message = RankMessage("run_model", [{"object": 1}, tokens, {"object": 2}, {}])
    one_pass = _pass(loaded.model)

    def without_collectives() -> None:
        with _no_collectives():
            one_pass()

    def collectives() -> None:
        value = hidden
        for _ in range(2 * (loaded.num_layers or 1)):
            value = mx.distributed.all_sum(value, group=group)
        mx.eval(value)

    def send() -> None:
        if session.leads:
            session.channel.send(message.encode())
        else:
            RankMessage.decode(cast("Any", session)._following.receive())

    def message_and_broadcast() -> None:
        send()
        mx.eval(broadcast(tokens, group))

    return {
        "without collectives": without_collectives,
        "collectives": collectives,
        "message": send,
        "broadcast": lambda: mx.eval(broadcast(tokens, group)),
        "message and broadcast": message_and_broadcast,
    }


@contextlib.contextmanager
def _no_collectives() -> Iterator[None]:
    """Replace all-reduces by the identity, so that the ranks do not communicate."""
    found = mx.distributed.all_sum
    mx.distributed.all_sum = lambda value, **_: value
    try:
        yield
    finally:
        mx.distributed.all_sum = found


def _times(
    steps: dict[str, Step], rounds: int, passes: int, session: Session | None
) -> dict[str, dict[str, float]]:
    """Return the medians of the rounds in microseconds: wall-clock, and processor of all ranks."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            # The ranks begin at the same time.
            _total(0.0, session)
            began, processor = time.perf_counter(), time.process_time()
            for _ in range(passes):
                step()
            wall, processor = time.perf_counter() - began, time.process_time() - processor
            taken[name].append((wall, _total(processor, session)))
    return {
        name: {
            "wall": statistics.median(wall for wall, _ in values) / passes * 1e6,
            "processor": statistics.median(processor for _, processor in values) / passes * 1e6,
        }
        for name, values in taken.items()
    }


def _total(value: float, session: Session | None) -> float:
    if session is None:
        return value
    total: mx.array = mx.distributed.all_sum(mx.array(value), group=session.group)
    return float(total.item())


def _token_microseconds(engine: InferenceEngine) -> float:
    """Return the time of one token without drafts, from two requests of different lengths."""
    seconds = []
    for limit in (_SHORT, _LONG):
        began = time.perf_counter()
        engine.generate(
            RawPrompt(_PROMPT),
            min_tokens=limit,
            max_tokens=limit,
            temperature=0.0,
            speculation="off",
        )
        seconds.append(time.perf_counter() - began)
    return (seconds[1] - seconds[0]) / (_LONG - _SHORT) * 1e6


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="distributed.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs",
        nargs="+",
        default=list(_RUNS),
        metavar="MODEL:RANKS:BACKEND",
        help="the model is 'embedded' or LAYERSxWIDTH (%(default)s)",
    )
    parser.add_argument("--rounds", type=positive, default=7, help="(%(default)s)")
    parser.add_argument("--passes", type=positive, default=10, help="of a round (%(default)s)")
    parser.add_argument("--json", type=Path, help="file of figures to write")
    parser.add_argument("--model", default=EMBEDDED, help=argparse.SUPPRESS)
    parser.add_argument("--shared", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
