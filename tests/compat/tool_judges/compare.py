"""Compare the tool calls that the grammars write with the calls that other parsers read.

The table has the number of random calls that a judge reads with the same arguments.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "support")]

from cases import Case, cases_of, read_again, read_by_mlx_lm  # noqa: E402
from families import PARSERS, Parsers  # noqa: E402
from notation_families import is_same  # noqa: E402

from state_machines.tool_calls import FORMATS, ToolFormat  # noqa: E402

_COLUMNS = ("ours", "mlx-lm", "vllm", "sglang")


@dataclass
class Score:
    """The calls that a judge was given, and the texts that it read differently."""

    calls: int = 0
    same: int = 0
    different: list[tuple[Case, Any]] = field(default_factory=list)

    def add(self, case: Case, found: Any) -> None:
        """Count the calls of a text. A text with another number of calls counts as different."""
        self.calls += len(case.calls)
        if isinstance(found, list) and len(found) == len(case.calls):
            equal = [
                call["name"] == meant.name and is_same(call["arguments"], meant.arguments)
                for call, meant in zip(found, case.calls, strict=True)
            ]
        else:
            equal = [False]
        self.same += sum(equal)
        if not all(equal):
            self.different.append((case, found))

    def __str__(self) -> str:
        if not self.calls:
            return "no parser"
        return "same" if self.same == self.calls else f"{self.same} of {self.calls}"


def judged(cases: list[tuple[ToolFormat, Case]], given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what vLLM and SGLang read in each case."""
    lines = []
    for entry, case in cases:
        parsers = PARSERS.get(entry.name, Parsers())
        line = {
            "text": parsers.before + case.text,
            "tools": case.tools,
            "tokens": _tokens(entry, parsers),
            "judges": {"vllm": parsers.vllm, "sglang": parsers.sglang},
        }
        lines.append(json.dumps(line))
    done = subprocess.run(
        [given.python, _HERE / "judge.py", "--vllm", given.vllm, "--sglang", given.sglang],
        input="\n".join(lines),
        stdout=subprocess.PIPE,
        stderr=None if given.verbose else subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _tokens(entry: ToolFormat, parsers: Parsers) -> list[str]:
    own = (*entry.tokens, *parsers.tokens, entry.start.strip(), entry.end.strip())
    return list(dict.fromkeys(filter(None, (*own, "<think>", "</think>"))))


def _attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Print the table, and on request the first differences."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--python", required=True, help="Python of the judges' environment")
    arguments.add_argument("--vllm", required=True, help="unpacked source distribution of vLLM")
    arguments.add_argument("--sglang", required=True, help="unpacked wheel of SGLang")
    arguments.add_argument("--calls", type=int, default=60, help="random calls of each format")
    arguments.add_argument("--formats", nargs="*", default=list(FORMATS))
    arguments.add_argument("--differences", type=int, default=0, help="differences that are shown")
    arguments.add_argument("--verbose", action="store_true", help="show what the judges print")
    given = arguments.parse_args()
    cases = [
        (FORMATS[name], case)
        for name in given.formats
        for case in cases_of(FORMATS[name], given.calls)
    ]
    scores = {name: {column: Score() for column in _COLUMNS} for name in given.formats}
    for (entry, case), verdict in zip(cases, judged(cases, given), strict=True):
        own = scores[entry.name]
        own["ours"].add(case, _attempt(lambda case=case: read_again(case)))
        if entry.parser is not None:
            found = _attempt(lambda entry=entry, case=case: read_by_mlx_lm(entry, case))
            own["mlx-lm"].add(case, found)
        for judge, found in verdict.items():
            own[judge].add(case, found)
    print(f"| format | {' | '.join(_COLUMNS)} |")
    print("|---" * (len(_COLUMNS) + 1) + "|")
    for name, row in scores.items():
        print(f"| `{name}` | {' | '.join(str(row[column]) for column in _COLUMNS)} |")
    for name, row in scores.items():
        for column, score in row.items():
            for case, found in score.different[: given.differences]:
                meant = [[call.name, call.arguments] for call in case.calls]
                print(f"\n{name}, {column}\n  text   {case.text!r}\n  meant  {meant}")
                print(f"  found  {found}")


if __name__ == "__main__":
    main()
