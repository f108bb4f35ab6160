"""Memory of long extractions."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from proxy_engine import InferenceEngine

ROWS = 20_000


@pytest.mark.soak
def test_memory_is_flat_over_many_records(tiny_engine: InferenceEngine, tmp_path: Path) -> None:
    def records() -> Iterator[dict[str, Any]]:
        for number in range(ROWS):
            # Texts that the prompt cache does not have.
            yield {"id": number, "text": f"{number * 7919 % 100_003} {'x' * 20}"}

    process = psutil.Process()
    sizes: dict[int, int] = {}
    path = tmp_path / "out.csv"
    with tiny_engine.iter_extract(
        records(), Literal[1, 2], instruction="?", output=path, progress=False, temperature=0.0
    ) as stream:
        for record in stream:
            assert record.error is None
            if record.index + 1 in (ROWS // 10, ROWS):
                sizes[record.index + 1] = process.memory_info().rss
    with path.open(newline="") as file:
        assert [int(row["id"]) for row in csv.DictReader(file)] == list(range(ROWS))
    grown = sizes[ROWS] - sizes[ROWS // 10]
    print({rows: size >> 20 for rows, size in sizes.items()}, "MiB")
    # The prompt cache may still grow to its limit; records of 1 kB each would be 18 MiB.
    assert grown < 64 << 20
