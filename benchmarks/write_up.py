"""Tables in a Markdown document, made from the files of figures.

A document says where a table stands by two comments, and whatever is between them is replaced:
``<!-- figures: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from audit import audit_rows
from audit_judges import judge_rows
from bfcl_answers import tables as answer_tables
from distributed import distributed_rows
from end_to_end_tables import figure_rows, left_out, missed_targets, overhead_rows
from figures import PERCENTILES
from grammar_figures import engine_rows, ratio_rows, refusals
from growth import findings, growth_rows, set_up_rows
from hostile_load_figures import Figures, rows
from memory import point_after
from overlap import CPU_WORK, overlapped
from report import notes
from reported import reported_rows
from speculation_tables import by_kind, passes_rows, speculation_rows
from tables import duration, markdown
from tools import ratio_rows as tool_ratio_rows
from tools import time_rows
from vision_tables import embedding_rows, question_rows

from proxy_engine import Span

__all__ = [
    "DOCUMENTS",
    "TABLES",
    "audit_table",
    "bfcl_tables",
    "distributed_table",
    "end_to_end_tables",
    "filled",
    "grammars_table",
    "growth_table",
    "hostile_load_table",
    "judges_table",
    "logits_processors_table",
    "maskbench_tables",
    "maskbench_whole_tables",
    "memory_table",
    "overlap_table",
    "reported_table",
    "slug",
    "spans_of",
    "tools_table",
    "vision_tables",
]

_PLACE = re.compile(r"(<!-- figures: ([a-z_]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(document: str, tables: dict[str, str]) -> str:
    """Return a document with these tables in their places; other places stay as they are."""

    def replaced(match: re.Match[str]) -> str:
        table = tables.get(match[2])
        return match[0] if table is None else f"{match[1]}\n{table}\n\n{match[3]}"

    return _PLACE.sub(replaced, document)


def slug(name: str) -> str:
    """Return a name as it stands in the name of a file."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def maskbench_tables(report: dict[str, Any]) -> str:
    """Return a table and a plot for each tokenizer."""
    data = report["environment"]
    blocks = [_machine(report)]
    for part in report["tokenizers"]:
        engines = part["engines"]
        blocks.append(
            f"**{part['tokenizer']}** ({part['vocabulary_size']:,} tokens; {engines[0]['of']:,} "
            f"schemas of {data['data']}, seed {data['seed']})"
        )
        blocks.append(markdown(_maskbench_rows(part), texts=1))
        blocks += notes(engines)
        plot = f"plots/between-masks-{slug(part['tokenizer'])}.svg"
        blocks.append(f"![Time between masks, {part['tokenizer']}]({plot})")
    return "\n\n".join(blocks)


def maskbench_whole_tables(report: dict[str, Any]) -> str:
    """Return a table for each tokenizer in the form of MaskBench's own; times in microseconds."""
    data = report["environment"]
    blocks = [_machine(report)]
    for part in report["tokenizers"]:
        engines = part["engines"]
        schemas = f"{engines[0]['of']:,} schemas of {data['data']}"
        blocks += [
            f"**{part['tokenizer']}**, {schemas}; times in µs:",
            markdown(_published_rows(engines), texts=1),
            *notes(engines),
        ]
    return "\n\n".join(blocks)


def _published_rows(engines: Sequence[dict[str, Any]]) -> list[list[str]]:
    rows = [["metric", *(f"{engine['engine']} {engine['version']}" for engine in engines)]]
    passes = [engine["passes"][0] for engine in engines]
    for title, kind in (("TBM", "between_masks"), ("TTFM", "time_to_first_mask")):
        for name, statistic in _STATISTICS.items():
            times = [one_pass["microseconds"][kind] for one_pass in passes]
            cells = ["–" if time is None else f"{time[statistic]:,.0f}" for time in times]
            rows.append([f"{title} {name}", *cells])
    for title, count in _PUBLISHED.items():
        rows.append([title, *(f"{one_pass[count]:,}" for one_pass in passes)])
    return rows


_STATISTICS = {"avg": "mean", **{name: name for name in PERCENTILES}, "p100": "max"}
_PUBLISHED = {
    "tokens": "tokens",
    "schemas": "schemas",
    "passing": "right",
    "compile error": "refused",
    "crash": "crashed",
    "timeout": "timed_out",
    "validation error": "valid_rejected",
    "invalidation error": "invalid_accepted",
}
"""The rows of counts of MaskBench's table, by the name of the figure."""


def audit_table(report: dict[str, Any]) -> str:
    """Return the errors of each engine by keyword."""
    data = report["environment"]
    sentence = (
        f"{data['schemas']:,} schemas of {data['data']}, seed {data['seed']}, {_when(report)}."
    )
    return "\n\n".join([sentence, markdown(audit_rows(report), texts=1)])


def judges_table(report: dict[str, Any]) -> str:
    """Return the instances on which validators differ, or whose label both contradict."""
    data = report["environment"]
    sentence = f"{report['instances']:,} instances of {data['data']}, {_when(report)}."
    return "\n\n".join([sentence, markdown(judge_rows(report), texts=1)])


def reported_table(report: dict[str, Any]) -> str:
    """Return the verdicts and times of the kinds of schemas that users of engines report."""
    sentence = (
        f"{report['tokenizer']}, {report['vocabulary_size']:,} tokens; at most "
        f"{report['case_seconds']:g} s and {report['memory_gib']} GiB for a case."
    )
    table = markdown(reported_rows(report, link=True), texts=1)
    return "\n\n".join([_machine(report), sentence, table])


def distributed_table(report: dict[str, Any]) -> str:
    """Return a table of the time of one token of a model that several ranks share."""
    return "\n\n".join([_machine(report), markdown(distributed_rows(report["runs"]), texts=3)])


def _maskbench_rows(part: dict[str, Any]) -> list[list[str]]:
    engines, common = part["engines"], part["common"]

    def times(number: int, kind: str, statistic: str, of: Sequence[dict[str, Any]]) -> list[str]:
        cells = []
        for engine in of:
            passes = engine["passes"]
            found = passes[number]["microseconds"][kind] if number < len(passes) else None
            cells.append(duration(None if found is None else found[statistic]))
        return cells

    rows = [["", *(f"{engine['engine']} {engine['version']}" for engine in engines)]]
    rows += [
        [f"between masks, {statistic}", *times(0, "between_masks", statistic, engines)]
        for statistic in ("mean", "p50", "p99", "p99.9")
    ]
    rows.append(["slowest single mask", *times(0, "mask", "max", engines)])
    collections = [engine["passes"][0]["longest_collection"] for engine in engines]
    rows.append(["longest garbage collection", *(duration(us or None) for us in collections)])
    rows += [
        [f"time to first mask, {statistic}", *times(0, "time_to_first_mask", statistic, engines)]
        for statistic in ("p50", "p99")
    ]
    if any(len(engine["passes"]) > 1 for engine in engines):
        rows += [
            [f"second pass, {statistic}", *times(1, "between_masks", statistic, engines)]
            for statistic in ("mean", "p50", "p99")
        ]
    if len(engines) > 1 and common["schemas"]:
        same = f"the {common['schemas']:,} schemas all got right"
        rows += [
            [f"{same}: {statistic}", *times(0, "between_masks", statistic, common["engines"])]
            for statistic in ("mean", "p50", "p99")
        ]
    rows.append(["set-up", *(duration(engine["setup_seconds"] * 1e6) for engine in engines)])
    rows.append(["largest memory", *(_mebibytes(engine["peak_bytes"]) for engine in engines)])
    for outcome in ("right", "refused", "valid_rejected", "invalid_accepted", "timed_out"):
        counts = [f"{engine['passes'][0][outcome]:,} of {engine['sample']:,}" for engine in engines]
        rows.append([f"schemas: {outcome.replace('_', ' ')}", *counts])
    return rows


def memory_table(report: dict[str, Any]) -> str:
    """Return one row for each curve: resident memory at the points that are asked about."""
    rows = [["subject", "engine", "imports", "vocabulary", "first mask", "1,000", "10,000", "last"]]
    for curve in report["curves"]:
        stages = {point["after"]: point for point in curve["points"]}
        cells = [
            _mebibytes(stages[name]["resident_bytes"]) if name in stages else "–"
            for name in ("imports", "vocabulary", "first mask")
        ]
        for count in (1_000, 10_000):
            point = point_after(curve, count)
            cells.append("–" if point is None else _mebibytes(point["resident_bytes"]))
        last, unit = curve["points"][-1], "texts" if curve["kept"] else "schemas"
        end = f"{_mebibytes(last['resident_bytes'])} after {last[unit]:,}"
        if curve["died"]:
            end += f" ({curve['died']})"
        subject = f"one machine: {curve['subject']}" if curve["kept"] else curve["subject"]
        rows.append([subject, curve["engine"], *cells, end])
    sentence = (
        f"{report['tokenizer']}, {report['vocabulary_size']:,} tokens; the tokenizer itself takes "
        f"{_mebibytes(report['tokenizer_bytes'])}."
    )
    plot = "![Memory](plots/memory.svg)"
    return "\n\n".join([_machine(report), sentence, markdown(rows, texts=2), plot])


def growth_table(report: dict[str, Any]) -> str:
    """Return costs at the largest size with exponents, and the superlinear ones."""
    sentence = f"{report['tokenizer']}, {report['vocabulary_size']:,} tokens."
    found = [f"- {sentence}" for sentence in findings(report["families"])]
    blocks = [_machine(report), sentence, markdown(growth_rows(report["families"]), texts=2)]
    set_up = set_up_rows(report["families"])
    if len(set_up) > 1:
        blocks.append(markdown(set_up, texts=0))
    if found:
        blocks.append(
            "\n".join(
                ["Worse than linear, slower than 20 ms, or not measured to the end:", "", *found]
            )
        )
    return "\n\n".join([*blocks, "![Growth](plots/growth.svg)"])


def grammars_table(report: dict[str, Any]) -> str:
    """Return the ratios to the faster peer, and the times of the first pass of each engine."""
    cases = report["cases"]
    versions = {
        engine: figures["version"]
        for case in cases
        for engine, figures in case["engines"].items()
        if figures["version"]
    }
    engines = ", ".join(f"{name} {version}" for name, version in versions.items())
    sentence = (
        f"{engines}; {report['tokenizer']}, {report['vocabulary_size']:,} tokens; medians of "
        f"{report['repeats']} repeats."
    )
    if report.get("clock") == "thread":
        sentence += " Processor time of the measuring thread, on a machine in use."
    blocks = [
        _machine(report),
        sentence,
        "Ours over the faster peer, first pass and second pass (*again*):",
        markdown(ratio_rows(cases), texts=2),
        "First pass:",
        markdown(engine_rows(cases), texts=3),
    ]
    if refused := refusals(cases):
        blocks.append("\n".join(f"- {sentence}" for sentence in refused))
    return "\n\n".join([*blocks, "![Time between masks by grammar](plots/grammars.svg)"])


def end_to_end_tables(report: dict[str, Any]) -> str:
    """Return the ratios with their targets, and the added time per token."""
    environment = report["environment"]
    stacks = ", ".join(f"{name} {version}" for name, version in report["stacks"].items())
    blas = ", OpenBLAS" if environment["fast_blas"] else ""
    loop = "" if environment["compiled_loop"] else ", masks without the compiled loop"
    sentence = f"{stacks}; MLX {environment['mlx']} on {environment['device']}{blas}{loop}."
    models = [
        f"- {model['model']}: {model['parameters'] / 1e6:,.1f} million weights, "
        f"{model['weight_bytes'] / 2**20:,.0f} MiB, {model['vocabulary_size']:,} tokens"
        for model in {model["model"]: model for model in report["models"]}.values()
    ]
    blocks = [_machine(report), sentence, "\n".join(models)]
    if report["figures"]:
        blocks.append(markdown(figure_rows(report["figures"]), texts=3))
        blocks += missed_targets(report["figures"])
    if report["overhead"]:
        blocks.append(markdown(overhead_rows(report["overhead"]), texts=4))
    if report.get("speculation"):
        times, passes = by_kind(report["speculation"])
        blocks.append(markdown(speculation_rows(times), texts=4))
        blocks.append(markdown(passes_rows(passes), texts=3))
    blocks += left_out(report)
    if report["overhead"]:
        blocks.append("![What a constraint adds to a token](plots/end-to-end.svg)")
    return "\n\n".join(blocks)


def spans_of(report: dict[str, Any]) -> list[Span]:
    """Return the spans of a request from a file of figures, in their order, in seconds."""
    spans = [
        Span(name, step, started / 1000, ended / 1000)
        for name, stretches in report["spans"].items()
        for step, started, ended in stretches
    ]
    return sorted(spans, key=lambda span: (span.started, span.ended))


def overlap_table(report: dict[str, Any]) -> str:
    """Return a summary of the times of one request, and the plot of some of its steps."""
    usage, slower = report["usage"], report["slower_masks"]
    tokens = usage["completion_tokens"]
    spans = spans_of(report)
    mask, advance = (
        f"{duration(1e6 * sum(span.ended - span.started for span in spans if span.name == phase))}"
        f", {overlapped(spans, [phase]):.0%} of it while a pass is under way"
        for phase in CPU_WORK
    )
    sentences = (
        f"Model {report['model']}, {slower['token_ms']:.1f} ms a token of free text; "
        f"the document {report['document']}, {tokens} tokens, "
        f"{usage['forced_tokens']} of them forced, its schema new. "
        f"Masks take {mask}; matchers take {advance}. Where a draft may follow, the next pass "
        "waits until the token is read and the matcher is advanced. Masks that take "
        f"{slower['delay_ms']:.1f} ms longer make tokens "
        f"{max(slower['added_ms'], 0):.2f} ms later: "
        f"{min(slower['hidden'], 1):.0%} of it is hidden."
    )
    return "\n\n".join([_machine(report), sentences, "![Overlap](plots/overlap.svg)"])


def hostile_load_table(report: dict[str, Any]) -> str:
    """Return a row for each kind of hostile requests."""
    kinds = [
        Figures(**{name: value for name, value in kind.items() if name != "missed"})
        for kind in report["kinds"]
    ]
    table = markdown(rows(kinds, report["deadline_seconds"]), texts=2)
    sentence = f"Model {report['model']}; the deadline is {report['deadline_seconds']:g} s."
    return "\n\n".join([_machine(report), sentence, table])


def vision_tables(report: dict[str, Any]) -> str:
    """Return the times of questions about an image, and other ratios."""
    machine = report["environment"]
    blas = ", OpenBLAS" if machine["fast_blas"] else ""
    sentence = (
        f"MLX {machine['mlx']} on {machine['device']}{blas}, mlx-vlm {machine['mlx-vlm']}; "
        f"language model {report['text_model']}, vision tower {report['vision_tower']}, images of "
        f"{report['pixels']} x {report['pixels']} pixels ({report['image_tokens']} image tokens)."
    )
    figures = report["figures"]
    tables = [markdown(question_rows(figures), texts=1), markdown(embedding_rows(figures), texts=2)]
    return "\n\n".join([_machine(report), sentence, *tables])


def logits_processors_table(report: dict[str, Any]) -> str:
    """Return what constraints add to the loops of other libraries, by stack."""
    machine = report["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    sentence = (
        f"{versions}; a random llama of {report['model']} (layers x width), {report['documents']} "
        f"documents of each kind, {report['repeats']} repeats."
    )
    rows = [["runtime", "documents", "schemas", "stack", "loop", "added", "call", "call, ratio"]]
    for figure in report["figures"]:
        beside = figure.get("call_beside_llguidance")
        rows.append(
            [
                figure["runtime"],
                f"{figure['documents']}-heavy",
                figure["schemas"],
                figure["stack"],
                f"{figure['loop_beside_base']['value']:.3f}",
                duration(figure["added_microseconds"]),
                duration(figure["call_microseconds"]),
                "–" if beside is None else f"{beside['value']:.2f}",
            ]
        )
    return "\n\n".join([_machine(report), sentence, markdown(rows, texts=4)])


def tools_table(report: dict[str, Any]) -> str:
    """Return the tables of sets of tools."""
    refused = ", ".join(
        f"{len(names)} by {engine}" for engine, names in report["refused"].items() if names
    )
    clock = "processor time" if report["clock"] == "process" else "wall-clock time"
    sentence = (
        f"Medians of {report['repeats']} runs, {clock}. Source: {report['tools']} tools, without "
        f"the ones that an engine refuses ({refused or 'none'})."
    )
    return "\n\n".join(
        [
            _machine(report),
            sentence,
            markdown(time_rows(report["sets"]), texts=2),
            "Ours over the faster peer of each run:",
            markdown(tool_ratio_rows(report["sets"]), texts=1),
        ]
    )


def bfcl_tables(report: dict[str, Any]) -> str:
    """Return a table of right answers by category and one of all measures by arm."""
    sentence = f"{_machine(report)} Shares in %, differences in points."
    return "\n\n".join([sentence, answer_tables(report)])


def _machine(report: dict[str, Any]) -> str:
    machine = report["environment"]
    return (
        f"{machine['processor']}, {machine['cpus']} CPUs, {machine['platform']}, "
        f"Python {machine['python']}, {_when(report)}."
    )


def _when(report: dict[str, Any]) -> str:
    """Return the date, and the commit if the figures have it."""
    machine = report["environment"]
    commit = machine.get("commit")
    return f"{machine['date']}, commit {commit}" if commit else str(machine["date"])


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "maskbench": maskbench_tables,
    "maskbench_whole": maskbench_whole_tables,
    "memory": memory_table,
    "growth": growth_table,
    "end_to_end": end_to_end_tables,
    "overlap": overlap_table,
    "hostile_load": hostile_load_table,
    "vision": vision_tables,
    "logits_processors": logits_processors_table,
    "distributed": distributed_table,
    "grammars": grammars_table,
    "tools": tools_table,
    "audit": audit_table,
    "audit_outlines_cases": audit_table,
    "audit_judges": judges_table,
    "reported": reported_table,
    "bfcl": bfcl_tables,
}
"""How the table of each file of figures is made."""

DOCUMENTS = (
    "audit.md",
    "logits-processors.md",
    "performance.md",
    "quality.md",
    "reliability.md",
    "scaling.md",
)
"""The documents that have tables."""
