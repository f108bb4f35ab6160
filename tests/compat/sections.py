"""The generated sections of ``docs/compatibility.md``."""

from __future__ import annotations

from collections.abc import Sequence

from results import Result, results_table, table
from server_fields import COMMAND_LINE, FIELDS

__all__ = ["sections"]


def sections(results: Sequence[Result]) -> dict[str, str]:
    """Return the content of each generated section by its name."""
    servers = dict.fromkeys(field.server for field in FIELDS)
    return {
        "clients": results_table(results),
        **{f"fields of {server}": _fields_table(server) for server in servers},
        "flags of mlx_lm.server": table(
            ["flag", "here"], [[f"`{flag}`", here] for flag, here in COMMAND_LINE.items()]
        ),
    }


def _fields_table(server: str) -> str:
    rows = [
        [f"`{field.name}`", field.outcome, field.note] for field in FIELDS if field.server == server
    ]
    return table(["field", "outcome", ""], rows)
