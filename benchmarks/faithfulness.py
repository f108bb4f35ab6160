"""Measure how far answers are from the model's own distribution among the valid answers.

See ``README.md`` beside this file. Code in reading order: ``faithfulness_cases`` (requests whose
answers can be enumerated), ``faithfulness_simulation`` (particles without a model),
``faithfulness_distance`` (distances by number of particles), ``faithfulness_cost`` (times),
``faithfulness_gain`` (quality of answers), ``faithfulness_tables``. The enumeration is
``exact_conditional`` in ``tests/support``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arguments import environment, positive
from faithfulness_cases import CASES, Case, animal_cases
from faithfulness_cost import SHAPES, measure_cost
from faithfulness_distance import measure_case
from faithfulness_gain import GAIN_TASKS, measure_gain
from faithfulness_tables import render
from records import write_record

from proxy_engine import InferenceEngine
from proxy_engine.runtime.blas import has_fast_blas

__all__ = ["main"]

FIGURES = ("distance", "animals", "cost", "gain")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    report: dict[str, Any] = {}
    if options.json is not None and options.json.exists():
        report = json.loads(options.json.read_text(encoding="utf-8"))
    report["environment"] = {**environment(), "fast_blas": has_fast_blas()}
    for name in options.figures:
        report[name] = _MEASURES[name](options)
        if options.json is not None:
            write_record(options.json, report)
    print(render(report))
    return 0


def _distance(options: argparse.Namespace) -> list[dict[str, Any]]:
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    return [_measured(case, options, options.engine_draws) for case in chosen]


def _animals(options: argparse.Namespace) -> list[dict[str, Any]]:
    cases = animal_cases(lambda size: InferenceEngine(batch_size=size, on_progress=None))
    return [_measured(case, options, options.animal_draws) for case in cases]


def _measured(case: Case, options: argparse.Namespace, engine_draws: int) -> dict[str, Any]:
    return measure_case(
        case,
        counts=options.particles,
        draws=options.draws,
        engine_counts=options.engine_particles if engine_draws else (),
        engine_draws=engine_draws,
        on_point=_say,
    )


def _cost(options: argparse.Namespace) -> list[dict[str, Any]]:
    with InferenceEngine(options.model, on_progress=None) as engine:
        found = []
        for shape in SHAPES:
            found.append(measure_cost(engine, shape, particles=8, repeats=options.repeats))
            _say(shape.name, found[-1])
        return found


def _gain(options: argparse.Namespace) -> list[Any]:
    return measure_gain(
        GAIN_TASKS,
        records=options.records,
        samples=8,
        seed=options.seed,
        model=options.model,
        on_row=lambda row: _say("gain", row),
    )


_MEASURES: dict[str, Callable[[argparse.Namespace], list[Any]]] = {
    "distance": _distance,
    "animals": _animals,
    "cost": _cost,
    "gain": _gain,
}


def _say(name: str, figures: Any) -> None:
    print(f"{name}: {json.dumps(figures)}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faithfulness.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--figures", type=_figures, default=list(FIGURES), help=f"of {', '.join(FIGURES)} (all)"
    )
    parser.add_argument("--cases", type=_names, default=[], help="names of cases (all)")
    parser.add_argument(
        "--particles",
        type=_counts,
        default=[1, 2, 4, 8, 16, 32, 64, 128],
        help="numbers of particles in simulations, 1 for masking (powers of 2 up to 128)",
    )
    parser.add_argument(
        "--draws", type=positive, default=10_000, help="in simulations (%(default)s)"
    )
    parser.add_argument(
        "--engine-particles",
        type=_counts,
        default=[1, 4, 16],
        help="numbers of particles in requests to the engine (1,4,16)",
    )
    parser.add_argument(
        "--engine-draws", type=int, default=500, help="requests per number (%(default)s)"
    )
    parser.add_argument(
        "--animal-draws", type=int, default=50, help="the same, embedded model (%(default)s)"
    )
    parser.add_argument("--repeats", type=positive, default=10, help="of times (%(default)s)")
    parser.add_argument("--records", type=positive, default=40, help="per task (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of records (%(default)s)")
    parser.add_argument("--model", help="a model directory, for cost and gain (embedded)")
    parser.add_argument(
        "--json", type=Path, metavar="FIGURES.json", help="updated with the figures measured"
    )
    return parser


def _names(text: str) -> list[str]:
    known = [case.name for case in CASES]
    names = [name.strip() for name in text.split(";")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no {name!r} (of {'; '.join(known)})")
    return names


def _figures(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in FIGURES:
            raise argparse.ArgumentTypeError(f"no {name!r} (of {', '.join(FIGURES)})")
    return names


def _counts(text: str) -> list[int]:
    return sorted(positive(count) for count in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
