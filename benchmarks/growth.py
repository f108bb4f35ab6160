"""Measure how costs grow with the vocabulary and with schemas, and fit the exponents.

See ``README.md`` beside this file. Code in reading order: ``families`` (what grows),
``growth_measure`` (the measurement), ``figures`` (the fit).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arguments import environment, named_tokenizer, positive
from families import FAMILIES, MIXED, Family, Member
from figures import fit_growth
from growth_measure import Measured, cut_vocabulary, measure_member, measure_vocabulary, tokens_of
from growth_measure import walk as walk_once
from records import write_record
from tables import aligned, duration

from state_machines import JsonSchemaStateMachine, Vocabulary

__all__ = ["COSTS", "SET_UP", "SLOW", "STEEP", "findings", "growth_rows", "main", "set_up_rows"]

COSTS = ("compile", "first_mask", "mean_mask", "slowest_mask", "mean_advance", "walk", "again")

SET_UP = ("vocabulary", "first_of_all")
"""Costs paid once per vocabulary: building it, and the extra time of its first mask."""

STEEP = 1.15
"""Exponents above this are findings: worse than linear, and not by chance."""

SLOW = 20_000.0
"""A single mask of more microseconds is a finding however it grows: a model would wait for it."""

_VOCABULARY_SIZES = [32_000, 64_000, 128_000, 192_000, 262_144]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    _, vocabulary = options.tokenizer.load()
    chosen = [family for family in FAMILIES if options.only in family.name]
    if options.profile:
        _profile(chosen[0], options.profile, vocabulary)
        return 0
    report: dict[str, Any] = {
        "environment": environment(),
        **options.tokenizer.facts(vocabulary),
        "repeats": options.repeats,
        "families": [],
    }
    if options.only in "vocabulary":
        report["families"].append(_vocabulary_growth(vocabulary, options))
    # So that children find it made, as in a server that has run for a while.
    JsonSchemaStateMachine({}).matcher(vocabulary).allowed_tokens()
    for family in chosen:
        report["families"].append(_family_growth(family, vocabulary, options))
        if options.json:
            write_record(options.json, report)
    print(aligned(growth_rows(report["families"]), texts=2), end="\n\n")
    print(aligned(set_up_rows(report["families"]), texts=0), end="\n\n")
    for sentence in findings(report["families"]):
        print(sentence)
    return 0


def _parser() -> argparse.ArgumentParser:
    names = ", ".join(family.name for family in FAMILIES)
    parser = argparse.ArgumentParser(prog="growth.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tokenizer",
        type=named_tokenizer,
        required=True,
        metavar="[NAME=]FILE",
        help="a large one: it is cut down to the smaller vocabularies",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help=f"families with this in their name: {names}"
    )
    parser.add_argument("--repeats", type=positive, default=3, help="(%(default)s)")
    parser.add_argument("--largest", type=positive, help="leave larger sizes out")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="limit for one size (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument(
        "--profile", type=positive, metavar="SIZE", help="only profile the first family at a size"
    )
    return parser


def _family_growth(
    family: Family, vocabulary: Vocabulary, options: argparse.Namespace
) -> dict[str, Any]:
    points = []
    for size in family.sizes:
        if options.largest and size > options.largest:
            break
        print(f"{family.name}: {size}", file=sys.stderr, flush=True)
        member = family.member(size)
        measured = measure_member(member, vocabulary, options.repeats, options.seconds)
        points.append(_point(size, measured))
        if measured.ended == "limit":
            break
    return _with_fits({"family": family.name, "grows": family.grows, "points": points})


def _vocabulary_growth(vocabulary: Vocabulary, options: argparse.Namespace) -> dict[str, Any]:
    points = []
    for size in (size for size in _VOCABULARY_SIZES if size <= vocabulary.size):
        print(f"vocabulary: {size}", file=sys.stderr, flush=True)
        cut = cut_vocabulary(vocabulary, size)
        points.append(
            _point(size, measure_vocabulary(cut, MIXED, options.repeats, options.seconds))
        )
    return _with_fits({"family": "vocabulary", "grows": "tokens", "points": points})


def _point(size: int, measured: Measured) -> dict[str, Any]:
    return {"size": size, "tokens": measured.tokens, "ended": measured.ended, **measured.costs}


def _with_fits(family: dict[str, Any]) -> dict[str, Any]:
    fits = {}
    for cost in (*SET_UP, *COSTS):
        found = [(p["size"], p[cost]) for p in family["points"] if p.get(cost)]
        fit = fit_growth([size for size, _ in found], [value for _, value in found])
        if fit is not None:
            fits[cost] = fit.as_record()
    return {**family, "fits": fits}


def growth_rows(families: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return rows for each family: largest size, then cost there and exponent for each cost."""
    titles = [title.replace("_", " ") for title in COSTS]
    rows = [["family", "grows", "up to", *titles]]
    for family in families:
        done = [point for point in family["points"] if not point["ended"]]
        largest: dict[str, Any] = done[-1] if done else {}
        row = [family["family"], family["grows"], f"{largest.get('size', 0):,}"]
        for cost in COSTS:
            fit = family["fits"].get(cost)
            exponent = "" if fit is None else f" (n^{fit['exponent']:.2f})"
            row.append(duration(largest.get(cost)) + exponent)
        rows.append(row)
    return rows


def set_up_rows(families: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return rows of the costs per vocabulary by size; only a header without any."""
    rows = [["tokens", "building the vocabulary", "its first mask of all"]]
    for family in families:
        for point in family["points"]:
            if SET_UP[0] in point:
                rows.append([f"{point['size']:,}", *(duration(point[cost]) for cost in SET_UP)])
    return rows


def findings(families: Sequence[dict[str, Any]]) -> list[str]:
    """Print superlinear costs, slow masks and sizes that were not measured."""
    sentences = []
    for family in families:
        for cost, fit in family["fits"].items():
            if fit["exponent"] > STEEP:
                last = next(p for p in reversed(family["points"]) if p.get(cost))
                sentences.append(
                    f"{family['family']}: {cost.replace('_', ' ')} grows with exponent "
                    f"{fit['exponent']:.2f}; {duration(last[cost])} at {last['size']}"
                )
        slow = [p for p in family["points"] if p.get("slowest_mask", 0) > SLOW]
        if slow:
            places = [f"{duration(p['slowest_mask'])} at {p['size']}" for p in slow]
            shown = [places[0], *places[1:][-1:]]
            sentences.append(f"{family['family']}: the slowest mask takes {', '.join(shown)}")
        sentences += [
            f"{family['family']}: {point['ended']} at {point['size']}"
            for point in family["points"]
            if point["ended"]
        ]
    return sentences


def _profile(family: Family, size: int, vocabulary: Vocabulary) -> None:
    """Show where the time goes: compiling, then walking the text once."""
    member: Member = family.member(size)
    tokens = tokens_of(member, vocabulary)
    JsonSchemaStateMachine({}).matcher(vocabulary).allowed_tokens()
    compiling, walking = cProfile.Profile(), cProfile.Profile()
    machine = compiling.runcall(JsonSchemaStateMachine, member.schema)
    walking.runcall(walk_once, machine, vocabulary, tokens)
    for title, profile in (("compile", compiling), ("walk", walking)):
        print(f"{family.name}, {size}: {title}")
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    sys.exit(main())
