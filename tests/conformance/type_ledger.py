"""The ledger of types: where masks and the reader of a type disagree, and why.

The first line of ``types.jsonl`` has the counts, each other line a type with one of three verdicts:

- ``unread``: the masks admit a text that the type refuses.
- ``left out``: the masks do not admit an instance that the type reads.
- ``refused``: the type does not compile, although it reads a text.

``python tests/conformance/type_ledger.py`` draws 1,000 texts a type and writes it anew.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))

from type_catalogue import CATALOGUE, Entry  # noqa: E402
from type_catalogue.readers import gaps_of  # noqa: E402
from type_catalogue.verdicts import Verdict, judge  # noqa: E402

__all__ = ["KINDS", "differences", "read", "recorded"]

PATH = HERE / "types.jsonl"

KINDS = ("unread", "left out", "refused")

REASONS: dict[tuple[str, str], str] = {
    ("left out", r"\w+: int of 4300 digits"): "an integer has at most 308 digits",
    ("left out", r"\w+: float"): "without a bound beyond 1e308, an exponent is at most 307",
    ("left out", r"pydantic: set of int or bool, .*"): "different numbers of a set are of one type",
    ("left out", r"msgspec: keys, timedelta"): "a key is the text that msgspec writes",
    (
        "left out",
        r"\w+: float, multiple of 3",
    ): "a multiple of an integer is written without a point",
    ("refused", r"pydantic: model of Python's patterns"): "a back-reference is not regular",
    (
        "refused",
        r"pydantic: compiled pattern, possessive",
    ): "possessive quantifiers are not read; the error says what to write instead",
}
"""Why types leave out texts or are refused, by a pattern of the keys of types."""

_TEXTS = 1000
_SHOWN = 120


def reason_of(kind: str, entry: Entry) -> str:
    """Return why a type has a verdict; ``"open"`` if no reason is known.

    A type that refuses admitted texts names the requirement among its gaps.
    """
    if kind == "unread":
        return "; ".join(gap.reason for gap in gaps_of(entry)) or "open"
    fitting = (
        why
        for (of, pattern), why in REASONS.items()
        if of == kind and re.fullmatch(pattern, entry.key)
    )
    return next(fitting, "open")


def differences(verdict: Verdict) -> dict[str, str]:
    """Return the kinds of differences of a verdict, each with an example."""
    found: dict[str, str] = {}
    if verdict.error is not None:
        return {"refused": verdict.error} if verdict.entry.instances else {}
    if verdict.unread:
        found["unread"] = min(verdict.unread, key=lambda text: (len(text), text))
    if verdict.left_out:
        found["left out"] = verdict.left_out[0]
    return found


def lines_of(number: int, count: int) -> list[dict[str, Any]]:
    """Return the lines of the type with a number in the catalogue."""
    entry = CATALOGUE[number]
    verdict = judge(entry, count)
    assert verdict.failure is None, f"{entry.key}: {verdict.failure}"
    return [
        {
            "type": entry.key,
            "verdict": kind,
            "reason": reason_of(kind, entry),
            "example": _address_free(example[:_SHOWN]),
        }
        for kind, example in differences(verdict).items()
    ]


def ledger(count: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of the ledger.

    Args:
        count: The number of texts a type.
        jobs: The number of processes.
    """
    numbers = range(len(CATALOGUE))
    with ProcessPoolExecutor(jobs) as pool:
        results = pool.map(lines_of, numbers, [count] * len(numbers), chunksize=8)
        lines = [line for result in results for line in result]
    counts = Counter(line["verdict"] for line in lines)
    yield {"types": len(CATALOGUE), **{kind: counts[kind] for kind in KINDS}}
    yield from lines


def read() -> list[dict[str, Any]]:
    """Return the lines of the committed ledger."""
    return [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]


def recorded() -> set[tuple[str, str]]:
    """Return the verdicts of the committed ledger, each with the key of its type."""
    return {(line["type"], line["verdict"]) for line in read()[1:]}


def _address_free(text: str) -> str:
    """Return a text without addresses of objects, which differ in each process."""
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=_TEXTS, help="texts drawn for a type")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    gc.freeze()
    written = [*ledger(arguments.texts, arguments.jobs)]
    text = "".join(json.dumps(line) + "\n" for line in written)
    PATH.write_text(text, encoding="utf-8")
    print(written[0], sum(line.get("reason") == "open" for line in written), "open")
