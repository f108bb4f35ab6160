"""The results of the clients' checks: stored as JSON lines, written as a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = [
    "DOCUMENT",
    "RESULTS",
    "Result",
    "read_results",
    "table",
    "with_section",
    "write_results",
]

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "compatibility.md"
RESULTS = Path(__file__).with_name("results.jsonl")


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check of a client.

    Attributes:
        client: The client's name.
        version: Its version, and that of its runtime if it is not Python.
        feature: The feature that was checked.
        works: Whether the check succeeded.
        how: The calls of the client.
        problem: The error of a check that failed; otherwise empty.
    """

    client: str
    version: str
    feature: str
    works: bool
    how: str
    problem: str = ""


def read_results(path: Path = RESULTS) -> list[Result]:
    """Read stored results."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Result(**json.loads(line)) for line in lines]


def write_results(results: Iterable[Result], path: Path = RESULTS) -> None:
    """Store results, one JSON object per line."""
    lines = [json.dumps(asdict(result), ensure_ascii=False) for result in results]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    names = list(header)
    lines = [_line(names), _line(["---"] * len(names)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def results_table(results: Iterable[Result]) -> str:
    """Return the table of the clients' checks."""
    rows = []
    for result in results:
        outcome = "yes" if result.works else f"no: {result.problem}"
        rows.append([f"{result.client} {result.version}", result.feature, outcome, result.how])
    return table(["client", "feature", "works", "how it was tried"], rows)


def with_section(document: str, name: str, content: str) -> str:
    """Return a document with the content between the markers of ``name`` replaced.

    Raises:
        ValueError: The document has no such markers.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = document.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"no section {name!r} in the document")
    return f"{before}{begin}\n{content}\n{end}{after}"
