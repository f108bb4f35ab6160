"""Reading, sampling and tokenising MaskBench's cases."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engines.base import ToolSchema
from tokenizers import Tokenizer

__all__ = [
    "Case",
    "Instance",
    "load_cases",
    "read_cases",
    "sample_lines",
    "sample_positions",
    "write_cases",
]


@dataclass(frozen=True)
class Instance:
    """A JSON value as tokens, and whether the schema allows it."""

    valid: bool
    tokens: list[int]


@dataclass(frozen=True)
class Case:
    """A schema and its instances. ``skipped`` of them are no Unicode text (lone surrogates).

    With ``tools``, the case is free text with calls of them, and has no schema.
    """

    name: str
    schema: Any
    instances: list[Instance]
    skipped: int
    tools: list[ToolSchema] = field(default_factory=list)


def sample_lines(data: Path, count: int | None, seed: int) -> list[str]:
    """``count`` lines of a gzipped JSON Lines file by chance, in the order of the file."""
    with gzip.open(data, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    return [lines[position] for position in sample_positions(len(lines), count, seed)]


def sample_positions(total: int, count: int | None, seed: int) -> list[int]:
    """``count`` of ``total`` positions by chance, in order; all where ``count`` is no less."""
    if count is None or count >= total:
        return list(range(total))
    return sorted(random.Random(seed).sample(range(total), count))


def load_cases(lines: Iterable[str], tokenizer: Tokenizer) -> Iterator[Case]:
    """Tokenise every instance as ``json.dumps(data, ensure_ascii=False)`` writes it."""
    for line in lines:
        record = json.loads(line)
        instances = []
        for test in record["tests"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            if text.isascii() or _is_unicode(text):
                tokens = tokenizer.encode(text, add_special_tokens=False).ids
                instances.append(Instance(test["valid"], tokens))
        yield Case(
            record["name"], record["schema"], instances, len(record["tests"]) - len(instances)
        )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def write_cases(cases: Iterable[Case], path: Path) -> None:
    """Write cases for the worker processes."""
    with path.open("w", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps(asdict(case)) + "\n")


def read_cases(path: Path) -> Iterator[Case]:
    """Read what ``write_cases`` wrote, one case at a time."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            instances = [Instance(**instance) for instance in record.pop("instances")]
            yield Case(instances=instances, **record)
