"""Tables: for a terminal, and for a Markdown document."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned", "duration", "markdown"]


def aligned(rows: Sequence[Sequence[str]], texts: int) -> str:
    """Line up columns: the first ``texts`` of them to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if position < texts else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown(rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a Markdown table; the first row is its head, all but ``texts`` columns are numbers."""
    head, *body = rows
    rule = ["---" if position < texts else "---:" for position in range(len(head))]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, rule, *body)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def duration(microseconds: float | None) -> str:
    """Return a time with its unit and three digits; a dash where there is none."""
    if microseconds is None:
        return "–"
    if microseconds >= 999_500:
        return f"{_three_digits(microseconds / 1e6)} s"
    if microseconds >= 999.5:
        return f"{_three_digits(microseconds / 1e3)} ms"
    return f"{_three_digits(microseconds)} µs"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
