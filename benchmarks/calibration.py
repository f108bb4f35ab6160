"""Measure whether confidences are probabilities: how often values of each confidence are right.

The values are the scalars of answers in the quality benchmark's tasks. The methods answer the same
questions:

* ``values``: ``confidence=True``; the confidence is ``result.confidence(pointer)``. Temperature 0.
* ``values_per_token``: the same answers, ``normalized``.
* ``exact``: ``exact_choices``; the confidence is ``result.confidence(pointer)``, of enumerations,
  Booleans and small integers only. Temperature 0.

Writes the figures and all values to a file, ``docs/plots/calibration.json`` for ``plots.py``. The
methods that the file has already, with the same settings, are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from arguments import environment, positive
from calibration_figures import Judged, figures
from quality_tasks import TASKS, Record, make_records
from quality_tasks.base import is_equal

from proxy_engine import BatchRequest, GenerationResult, InferenceEngine
from proxy_engine.models.loading import load_model

__all__ = ["METHODS", "Method", "answers", "judged_values", "main", "with_small_integers"]

MAX_INTEGER = 200
"""Integers are restricted to 0 to this number, where the gold value is."""

_TASKS = ("classification", "extraction")
_BATCH = 16


@dataclass(frozen=True)
class Method:
    """A way to obtain confidences.

    Attributes:
        options: Options of the requests.
        normalized: Whether confidences are those of a token.
        finite: Whether only values with at most a few hundred alternatives are judged.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    normalized: bool = False
    finite: bool = False


METHODS: Mapping[str, Method] = {
    "values": Method({"temperature": 0.0, "confidence": True}),
    "values_per_token": Method({"temperature": 0.0, "confidence": True}, normalized=True),
    "exact": Method({"temperature": 0.0, "exact_choices": True}, finite=True),
}
"""All methods by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="calibration.py", description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(_TASKS))
    parser.add_argument("--records", type=positive, default=40, help="per task (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of records and sampling (%(default)s)")
    parser.add_argument("--model", help="a model directory (the embedded model)")
    parser.add_argument(
        "--out", type=Path, default=Path("calibration.json"), help="file (%(default)s)"
    )
    options = parser.parse_args(arguments)
    records = [
        bounded
        for task in options.tasks
        for record in make_records(task, options.seed, options.records)
        if measured(bounded := with_small_integers(record))
    ]
    loaded = load_model(options.model)
    settings = {
        "model": loaded.name,
        "seed": options.seed,
        "tasks": options.tasks,
        "records_per_task": options.records,
    }
    report: dict[str, Any] = {**settings, "environment": environment(), "methods": {}}
    if options.out.exists():
        before = json.loads(options.out.read_text(encoding="utf-8"))
        if all(before.get(name) == value for name, value in settings.items()):
            report["methods"] = before["methods"]
    results: dict[str, list[GenerationResult[Any]]] = {}
    with InferenceEngine(loaded.model, loaded.tokenizer) as engine:
        for name in options.methods:
            method = METHODS[name]
            asked = json.dumps(method.options)
            if asked not in results:
                results[asked] = answers(engine, method, records, options.seed)
            found = judged_values(method, records, results[asked])
            report["methods"][name] = {
                **figures(found),
                "kinds": {kind: figures(part) for kind, part in by_kind(found).items()},
                "judged": [asdict(each) for each in found],
            }
            options.out.write_text(f"{json.dumps(report, indent=1)}\n", encoding="utf-8")
            print(_line(name, report["methods"][name]), flush=True)
            for kind, part in report["methods"][name]["kinds"].items():
                print(_line(f"  {kind}", part), flush=True)
    return 0


def with_small_integers(record: Record) -> Record:
    """Return a record whose integers are bounded where the gold value is in these bounds."""
    properties = {
        name: {**schema, "minimum": 0, "maximum": MAX_INTEGER}
        if "integer" in _types(schema) and _is_small(record.gold.get(name))
        else schema
        for name, schema in record.schema["properties"].items()
    }
    return replace(record, schema={**record.schema, "properties": properties})


def _types(schema: Mapping[str, Any]) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types


def _is_small(gold: Any) -> bool:
    return gold is None or (isinstance(gold, int) and 0 <= gold <= MAX_INTEGER)


def measured(record: Record) -> dict[str, str]:
    """Return the kinds of the values that are judged, by name of the member.

    They are one of a few hundred values at most. Some of them may be null.
    """
    kinds = {}
    for name, schema in record.schema["properties"].items():
        if name in record.gold:
            if "enum" in schema:
                kinds[name] = "enum"
            elif "boolean" in _types(schema):
                kinds[name] = "boolean"
            elif "integer" in _types(schema) and schema.get("maximum") == MAX_INTEGER:
                kinds[name] = "integer"
    return kinds


def kinds_of(record: Record) -> dict[str, str]:
    """Return the kinds of all scalars of the gold answer, by name of the member."""
    others = {
        name: "string" if "string" in _types(record.schema["properties"][name]) else "number"
        for name, gold in record.gold.items()
        if not isinstance(gold, list | dict)
    }
    return {**others, **measured(record)}


def answers(
    engine: InferenceEngine, method: Method, records: Sequence[Record], seed: int
) -> list[GenerationResult[Any]]:
    """Return the results of a method, one for each record."""
    found: list[GenerationResult[Any]] = []
    for start in range(0, len(records), _BATCH):
        requests = [
            BatchRequest(
                record.question,
                record.schema,
                options={
                    "max_tokens": record.max_tokens,
                    "seed": seed + record.number,
                    **method.options,
                },
            )
            for record in records[start : start + _BATCH]
        ]
        found += engine.generate_batch(requests)
    return found


def judged_values(
    method: Method, records: Sequence[Record], results: Sequence[GenerationResult[Any]]
) -> list[Judged]:
    """Return the values of a method's answers, each with its confidence and whether it is right.

    Values without a confidence are left out: their choice could not be scored.
    """
    found = []
    for record, result in zip(records, results, strict=True):
        for name, kind in (measured(record) if method.finite else kinds_of(record)).items():
            stated = result.confidence(f"/{name}", normalized=method.normalized)
            if stated is not None:
                is_right = is_equal(record.gold[name], result.parsed[name])
                found.append(Judged(record.task, record.number, name, kind, stated, is_right))
    return found


def by_kind(values: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Return the values by kind."""
    found: dict[str, list[Judged]] = {}
    for each in values:
        found.setdefault(each.kind, []).append(each)
    return found


def _line(name: str, found: Mapping[str, Any]) -> str:
    shown = (
        f"{figure.replace('_', ' ')} {value:.3f} ({low:.3f} to {high:.3f})"
        for figure, (value, low, high) in (
            (figure, found[figure])
            for figure in ("accuracy", "confidence", "calibration_error", "brier_score", "auroc")
            if found[figure] is not None
        )
    )
    return f"{name}: {found['values']} values, {', '.join(shown)}"


if __name__ == "__main__":
    sys.exit(main())
