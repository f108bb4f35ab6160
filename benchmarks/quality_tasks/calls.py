"""Function calls: one, several in parallel, or none.

The answer is a JSON array of calls, each with ``name`` and ``arguments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from quality_tasks.base import Json, Record, is_equal, object_schema, rng_of
from quality_tasks.functions import FUNCTIONS, NO_CALL_QUESTIONS, Function

__all__ = ["compare_calls", "make_record"]

TASK = "calls"

MAX_CALLS = 3
_KINDS = ("single", "single", "parallel", "none")
"""Kinds of consecutive records."""


def make_record(seed: int, number: int) -> Record:
    """Return a record of the task."""
    rng = rng_of(TASK, seed, number)
    kind = _KINDS[number % len(_KINDS)]
    offered = rng.sample(FUNCTIONS, 2 if number % 8 < 4 else 3)
    gold: list[Json] = []
    if kind == "none":
        request = rng.choice(NO_CALL_QUESTIONS)
    elif kind == "single":
        call, request = rng.choice(offered).call(rng)
        gold = [call]
    else:
        needed = rng.sample(offered, 2) if rng.random() < 0.5 else [rng.choice(offered)] * 2
        drawn = [function.call(rng) for function in needed]
        gold = [call for call, _ in drawn]
        request = " ".join(text for _, text in drawn)
    example, _ = rng.choice(offered).call(rng)
    signatures = "\n".join(function.signature for function in offered)
    question = (
        f"Functions:\n{signatures}\n\nRequest: {request}\n\n"
        "State the function calls that the request needs as a JSON array. Each call has "
        '"name" and "arguments". If it needs none, the array is empty: [].'
    )
    return Record(
        TASK,
        kind,
        number,
        question,
        _schema(offered),
        gold,
        [example],
        max_tokens=128,
        compare=compare_calls,
        request=request,
        tools=[function.tool for function in offered],
    )


def compare_calls(gold: Json, value: Json) -> dict[str, bool]:
    """Compare two lists of calls, in any order.

    The fields are ``count`` and, for each gold call, its function and its arguments by name. The
    calls are assigned to the gold calls so that most fields agree. A list with an item that is no
    object has no right count.
    """
    calls = value if isinstance(value, list) and all(isinstance(c, dict) for c in value) else None
    count = {"count": calls is not None and len(calls) == len(gold)}
    candidates: list[Json] = [*(calls or [])[:MAX_CALLS], *[None] * len(gold)]
    assigned = [_fields(gold, chosen) for chosen in permutations(candidates, len(gold))]
    best: dict[str, bool] = max(assigned, key=lambda fields: sum(fields.values()))
    return {**count, **best}


def _fields(gold: Sequence[Json], calls: Sequence[Json]) -> dict[str, bool]:
    fields: dict[str, bool] = {}
    for index, (expected, call) in enumerate(zip(gold, calls, strict=True)):
        given: Any = call if isinstance(call, dict) else {}
        has_name = given.get("name") == expected["name"]
        arguments = given.get("arguments")
        fields[f"{index}.function"] = has_name
        for name, argument in expected["arguments"].items():
            fields[f"{index}.{name}"] = (
                has_name
                and isinstance(arguments, dict)
                and name in arguments
                and is_equal(argument, arguments[name])
            )
    return fields


def _schema(offered: Sequence[Function]) -> dict[str, Any]:
    calls = [
        object_schema({"name": {"const": function.name}, "arguments": function.arguments_schema})
        for function in offered
    ]
    return {"type": "array", "items": {"anyOf": calls}, "maxItems": MAX_CALLS}
