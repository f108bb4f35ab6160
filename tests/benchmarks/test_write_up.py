"""docs/performance.md contains the tables of the files of figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from write_up import DOCUMENTS, TABLES, filled

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = [name for name in TABLES if (DOCS / "plots" / f"{name}.json").exists()]


def figures(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((DOCS / "plots" / f"{name}.json").read_text("utf-8"))
    return record


def documents() -> str:
    return "\n".join((DOCS / name).read_text(encoding="utf-8") for name in DOCUMENTS)


@pytest.mark.parametrize("name", TABLES)
def test_document_has_a_placeholder_for_each_table(name: str) -> None:
    assert documents().count(f"<!-- figures: {name} -->") == 1


@pytest.mark.parametrize("name", FIGURES)
def test_document_contains_the_tables_of_the_figures(name: str) -> None:
    document = documents()
    assert filled(document, {name: TABLES[name](figures(name))}) == document


@pytest.mark.parametrize("name", FIGURES)
def test_figures_contain_no_absolute_paths(name: str) -> None:
    text = (DOCS / "plots" / f"{name}.json").read_text(encoding="utf-8")
    assert re.search(r'"(/|[A-Z]:\\)', text) is None
