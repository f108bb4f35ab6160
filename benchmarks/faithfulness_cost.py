"""The time of several particles beside that of a single answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from alternation import ratio_of, rotated, settle

from proxy_engine import InferenceEngine

__all__ = ["SHAPES", "Shape", "measure_cost"]

_TEXT = (
    "On Monday Ada Lovelace, 36, from London, wrote to the editor that the engine on page 12 "
    "costs 240 pounds, that it weaves patterns as a loom weaves flowers, and that she needs it "
    "by the third of May."
)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Shape:
    """A form of answer.

    Attributes:
        name: Its name.
        prompt: The prompt.
        schema: The schema of the answer.
        options: Options of the request.
    """

    name: str
    prompt: str
    schema: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


_STRING = {"type": "string", "maxLength": 40}

SHAPES = (
    Shape(
        "object of 4 fields",
        f"{_TEXT}\n\nGive name, city, age and a summary as JSON.",
        _object(name=_STRING, city=_STRING, age={"type": "integer"}, summary=_STRING),
        {"max_tokens": 128},
    ),
    Shape(
        "array of strings",
        f"{_TEXT}\n\nList the things that the text mentions as a JSON array.",
        {
            "type": "array",
            "items": {"type": "string", "maxLength": 20},
            "minItems": 5,
            "maxItems": 5,
        },
        {"max_tokens": 128},
    ),
    Shape(
        "reasoning and answer",
        f"{_TEXT}\n\nHow much do two engines cost? Give reasoning and answer as JSON.",
        _object(reasoning={"type": "string", "maxLength": 120}, answer={"type": "integer"}),
        {"max_tokens": 128},
    ),
    Shape(
        "classification",
        f"{_TEXT}\n\nGive the topic and whether it is urgent as JSON.",
        _object(
            topic={"enum": ["engineering", "literature", "sport", "weather"]},
            urgent={"type": "boolean"},
        ),
        {"max_tokens": 32},
    ),
)


def measure_cost(
    engine: InferenceEngine, shape: Shape, *, particles: int, repeats: int
) -> dict[str, Any]:
    """Return the time of a request with particles over that of one without.

    Every repeat has a seed of its own and runs both in turn. The prompt is not cached, since the
    prefill is part of a request.
    """
    kinds = {"one": 1, "particles": particles}
    wall: dict[str, list[float]] = {name: [] for name in kinds}
    cpu: dict[str, list[float]] = {name: [] for name in kinds}
    tokens: dict[str, list[int]] = {name: [] for name in kinds}
    for repeat in range(repeats + 1):
        for name in rotated(kinds, repeat):
            settle()
            options = {**shape.options, "temperature": 1.0, "seed": repeat}
            if kinds[name] > 1:
                options["particles"] = kinds[name]
            # Another first character each time, so that no prompt is in the prompt cache.
            prompt = f"{repeat}{name[0]}: {shape.prompt}"
            started, begun = time.perf_counter(), time.process_time()
            result = engine.generate(prompt, response_format=shape.schema, **options)
            if repeat:
                # The first repeat warms the caches of masks.
                wall[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - begun)
                lengths = [len(one.token_ids) for one in result.particles]
                tokens[name].append(max(lengths, default=len(result.token_ids)))
    return {
        "shape": shape.name,
        "particles": particles,
        "wall": ratio_of(wall["particles"], wall["one"]).as_record(),
        "cpu": ratio_of(cpu["particles"], cpu["one"]).as_record(),
        "total": round(sum(wall["particles"]) / sum(wall["one"]), 3),
        "tokens": {name: round(sum(found) / len(found), 1) for name, found in tokens.items()},
    }
