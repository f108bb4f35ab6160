"""Measure whether confidences are probabilities: how often values of each confidence are right.

The values are enumerations, Booleans and small integers of the quality benchmark's tasks. The
methods answer the same questions:

* ``tokens``: masking; the confidence is the product of the masked probabilities of the tokens that
  overlap the value, as read from ``logprobs``. Temperature 0.
* ``exact``: ``exact_choices``; the confidence is ``result.confidence(pointer)``. Temperature 0.
* ``particles``: 8 particles; the same. Temperature 1.
* ``values``: ``confidence``, for all scalars of the answers, strings and other numbers too; the
  confidence is ``result.confidence(pointer)``. Temperature 0.
* ``values_per_token``: the same, ``normalized``.

Writes the figures and all values to a file, ``docs/plots/calibration.json`` for ``plots.py``. The
methods that the file has already, with the same settings, are kept.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

from arguments import environment, positive
from calibration_figures import Judged, figures
from quality_prompts import prompt_of
from quality_tasks import TASKS, Record, make_records
from quality_tasks.base import is_equal

from proxy_engine import BatchRequest, GenerationResult, InferenceEngine
from proxy_engine.models.loading import load_model
from proxy_engine.results.confidence import AnswerValues
from proxy_engine.results.parts import Particle

__all__ = ["METHODS", "judged_values", "main", "token_confidence", "with_small_integers"]

MAX_INTEGER = 200
"""Integers are restricted to 0 to this number, where the gold value is."""

_TASKS = ("classification", "extraction", "arithmetic")
_BATCH = 8

Confidence: TypeAlias = Callable[[InferenceEngine, GenerationResult[Any], str], float | None]


def token_confidence(
    engine: InferenceEngine, result: GenerationResult[Any], pointer: str
) -> float | None:
    """Return the product of the masked probabilities of the tokens that overlap a value.

    ``None`` without log-probabilities. The probabilities are at temperature 1.
    """
    answer = Particle(result.text, result.parsed, 0.0, 1.0, parts=result.parts)
    span = AnswerValues.of(answer).spans[pointer]
    if result.logprobs is None or span is None:
        return None
    total = 0.0
    for (start, end), entry in zip(_token_spans(engine, result), result.logprobs, strict=True):
        if start < span[1] and span[0] < end:
            total += entry.chosen.after_mask
    return math.exp(total)


def _token_spans(
    engine: InferenceEngine, result: GenerationResult[Any]
) -> Iterator[tuple[int, int]]:
    position = 0
    for token_id in result.token_ids:
        size = len(engine.vocabulary.token_bytes[token_id] or b"")
        yield position, position + size
        position += size


def _confidence(
    engine: InferenceEngine, result: GenerationResult[Any], pointer: str
) -> float | None:
    del engine
    return result.confidence(pointer)


def _normalized(
    engine: InferenceEngine, result: GenerationResult[Any], pointer: str
) -> float | None:
    del engine
    return result.confidence(pointer, normalized=True)


METHODS: Mapping[str, tuple[Mapping[str, Any], Confidence]] = {
    "tokens": ({"temperature": 0.0, "logprobs": 0}, token_confidence),
    "exact": ({"temperature": 0.0, "exact_choices": True}, _confidence),
    "particles": ({"temperature": 1.0, "particles": 8}, _confidence),
    "values": ({"temperature": 0.0, "confidence": True}, _confidence),
    "values_per_token": ({"temperature": 0.0, "confidence": True}, _normalized),
}
"""Options of the request, and the confidence, by method."""


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
    with InferenceEngine(loaded.model, loaded.tokenizer) as engine:
        for method in options.methods:
            found = judged_values(engine, method, records, options.seed)
            report["methods"][method] = {
                **figures(found),
                "kinds": {kind: figures(part) for kind, part in by_kind(found).items()},
                "judged": [asdict(each) for each in found],
            }
            options.out.write_text(f"{json.dumps(report, indent=1)}\n", encoding="utf-8")
            print(_line(method, report["methods"][method]), flush=True)
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


def judged_values(
    engine: InferenceEngine, method: str, records: Sequence[Record], seed: int
) -> list[Judged]:
    """Return the values of a method's answers, each with its confidence and whether it is right.

    Values without a confidence are left out: their choice could not be scored.
    """
    options, confidence = METHODS[method]
    found = []
    for start in range(0, len(records), _BATCH):
        part = records[start : start + _BATCH]
        requests = [
            BatchRequest(
                prompt_of(record, "schema"),
                record.schema,
                options={"max_tokens": record.max_tokens, "seed": seed + record.number, **options},
            )
            for record in part
        ]
        for record, result in zip(part, engine.generate_batch(requests), strict=True):
            every = method in ("values", "values_per_token")
            for name, kind in (kinds_of(record) if every else measured(record)).items():
                stated = confidence(engine, result, f"/{name}")
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


def _line(method: str, found: Mapping[str, Any]) -> str:
    names = ("accuracy", "confidence", "calibration_error", "brier_score", "top_half_accuracy")
    shown = (
        f"{name.replace('_', ' ')} {found[name][0]:.3f} "
        f"({found[name][1]:.3f} to {found[name][2]:.3f})"
        for name in names
    )
    return f"{method}: {found['values']} values, {', '.join(shown)}"


if __name__ == "__main__":
    sys.exit(main())
