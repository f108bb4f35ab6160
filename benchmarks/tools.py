"""Measure sets of tools, beside llguidance and XGrammar: the time to the first mask.

See ``README.md`` beside this file. The tools are those that real MCP servers list. A set that is
larger than their number repeats them under other names, with another title in the schema, so that
no engine knows a schema from another tool.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from alternation import ratio_of, rotated
from arguments import add_engines, add_tokenizer, environment, positive
from data_files import NO_MCP_TOOLS, mcp_tool_definitions
from default_tokenizer import default_tokenizer
from engines import ToolSchema
from records import write_record
from supervisor import run_worker
from tables import aligned, duration
from tool_worker import CLOCKS, ToolJob, ToolResult

__all__ = ["main", "ratio_rows", "set_figures", "time_rows", "tool_set"]

_WORKER = Path(__file__).with_name("tool_worker.py")
_ENGINES = ("ours", "llguidance", "xgrammar")
_OURS = "ours"
_COUNTS = (10, 50, 128, 500)
_TIMES = ("cold", "exchanged", "name")
_TITLES = ("first mask", "one tool exchanged", "name and arguments")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    named = options.tokenizer or default_tokenizer()
    _, vocabulary = named.load()
    tools = [(tool["name"], tool["inputSchema"]) for tool in mcp_tool_definitions()]
    if not tools:
        raise SystemExit(NO_MCP_TOOLS)
    unique = list(dict(tools).items())

    def job(engine: str, some: list[ToolSchema], other: ToolSchema | None) -> ToolJob:
        ends, path = tuple(sorted(vocabulary.end_token_ids)), str(named.path)
        return ToolJob(engine, path, ends, some, other, options.case_seconds, options.clock)

    refused: dict[str, list[str]] = {}
    for engine in options.engines:
        refused[engine] = measure(job(engine, unique, None)).refused
    left = {name for names in refused.values() for name in names}
    common = [tool for tool in unique if tool[0] not in left]
    report: dict[str, Any] = {
        "environment": environment(),
        **named.facts(vocabulary),
        "repeats": options.repeats,
        "clock": options.clock,
        "tools": len(unique),
        "refused": refused,
        "sets": [],
    }
    for count in options.counts:
        *some, other = tool_set(common, count + 1)
        results: dict[str, list[ToolResult]] = {name: [] for name in options.engines}
        for repeat in range(options.repeats):
            for engine in rotated(results, repeat):
                print(f"{count} tools: {engine}", file=sys.stderr, flush=True)
                results[engine].append(measure(job(engine, some, other)))
        report["sets"].append({"tools": count, **set_figures(results)})
        # After each set, so that an interrupted run leaves the figures it has.
        if options.json:
            write_record(options.json, report)
    print(aligned(time_rows(report["sets"]), 2), end="\n\n")
    print(aligned(ratio_rows(report["sets"]), 1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools.py", description=__doc__.splitlines()[0])
    add_tokenizer(parser)
    add_engines(parser, _ENGINES)
    parser.add_argument(
        "--counts",
        type=lambda text: [positive(part) for part in text.split(",")],
        default=list(_COUNTS),
        help="numbers of tools, comma-separated",
    )
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="process",
        help="wall, or the processor time of the process, for a machine in use (%(default)s)",
    )
    parser.add_argument("--repeats", type=positive, default=5, help="(%(default)s)")
    parser.add_argument(
        "--case-seconds", type=float, default=300.0, help="limit for one process (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


def tool_set(tools: Sequence[ToolSchema], count: int) -> list[ToolSchema]:
    """Return a number of different tools, some of them repeated under another name and title."""
    return [
        (name, schema) if not again else (f"{name}_{again}", {**schema, "title": f"{again}"})
        for index in range(count)
        for again, (name, schema) in [(index // len(tools), tools[index % len(tools)])]
    ]


def measure(job: ToolJob) -> ToolResult:
    """Run a job in a process of its own. A process that dies gives its reason as the result's."""
    with tempfile.TemporaryDirectory() as folder:
        results, job_file = Path(folder, "results.json"), Path(folder, "job.json")
        job_file.write_text(json.dumps(asdict(replace(job, results=str(results)))))
        process = run_worker(_WORKER, job_file)
        if not results.exists():
            return ToolResult(reason=f"the process ended: {process.stderr.strip()[-300:]}")
        return ToolResult(**json.loads(results.read_text(encoding="utf-8")))


def set_figures(results: dict[str, list[ToolResult]]) -> dict[str, Any]:
    """Return the figures of one set of tools: medians over the repeats, in microseconds.

    A ratio is the median of the ratios of the repeats: ours over the faster peer of each.
    """
    engines: dict[str, Any] = {}
    for name, repeats in results.items():
        first = repeats[0]
        engines[name] = {"version": first.version, "reason": first.reason}
        if not first.reason:
            times = {each: median(getattr(r, each) for r in repeats) / 1000 for each in _TIMES}
            peak = median(repeat.peak_bytes for repeat in repeats)
            engines[name] |= {each: float(f"{value:.4g}") for each, value in times.items()}
            engines[name]["peak_bytes"] = int(peak)
    whole = {name: runs for name, runs in results.items() if not any(r.reason for r in runs)}
    peers = [runs for name, runs in whole.items() if name != _OURS]
    ratios = {}
    for each in _TIMES if _OURS in whole and peers else ():
        fastest = [min(getattr(run, each) for run in runs) for runs in zip(*peers, strict=True)]
        own = [getattr(run, each) for run in whole[_OURS]]
        ratios[each] = ratio_of(own, fastest).as_record()
    return {"engines": engines, "ratios": ratios}


def time_rows(sets: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each set and engine."""
    rows = [["tools", "engine", *_TITLES, "memory"]]
    for each in sets:
        for engine, figures in each["engines"].items():
            row = [f"{each['tools']}", engine]
            if figures["reason"]:
                # A process that ended by itself has no version.
                outcome = "refused" if figures["version"] else "no result"
                rows.append([*row, outcome, *["–"] * len(_TITLES)])
                continue
            cells = [duration(figures[time]) for time in _TIMES]
            rows.append([*row, *cells, f"{figures['peak_bytes'] / 2**20:,.0f} MiB"])
    return rows


def ratio_rows(sets: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each set: ours over the faster peer."""
    rows = [["tools", *_TITLES]]
    for each in sets:
        cells = [f"{each['ratios'][time]['value']:.2f}" for time in _TIMES if each["ratios"]]
        rows.append([f"{each['tools']}", *(cells or ["–"] * len(_TIMES))])
    return rows


if __name__ == "__main__":
    sys.exit(main())
