"""Conformance ledgers: the committed verdicts (right, refused, wrong) of all cases.

A ledger is a file of JSON lines: the counts, then one line per family of cases (a file of the suite, a
collection of MaskBench), then one line per case that is not right. Cases without a line are right, so
improvements show as drift like regressions do.

``python tests/conformance/ledger.py`` computes all ledgers in a few minutes.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from suites import explained, judge_maskbench, judge_official, maskbench, official
from verdicts import Case, Verdict

__all__ = ["LEDGERS", "Ledger", "main"]

HERE = Path(__file__).parent
LEDGERS = ("official-required", "official-optional", "maskbench")


class Ledger:
    """The verdicts of one body of tests: totals of each family, and the cases not right."""

    def __init__(self, families: dict[str, Counter[str]], others: Iterable[Verdict]) -> None:
        self.families = families
        self.others = {verdict.name: verdict for verdict in others}

    @classmethod
    def of(cls, verdicts: Iterable[Verdict]) -> Ledger:
        """Sum verdicts up."""
        families: dict[str, Counter[str]] = {}
        others = []
        for verdict in verdicts:
            families.setdefault(verdict.family, Counter())[verdict.status] += 1
            if verdict.status != "right":
                others.append(verdict)
        return cls(families, others)

    @classmethod
    def read(cls, name: str) -> Ledger:
        """Read a committed ledger."""
        families = {}
        others = []
        for line in _path(name).read_text(encoding="utf-8").splitlines()[1:]:
            entry = json.loads(line)
            if "name" in entry:
                others.append(Verdict.of(entry))
            else:
                family = entry.pop("family")
                families[family] = Counter(entry)
        return cls(families, others)

    @property
    def counts(self) -> Counter[str]:
        """The totals over all families."""
        return sum(self.families.values(), Counter())

    def write(self, name: str) -> None:
        """Write the ledger where it is committed."""
        lines: list[dict[str, object]] = [{"cases": self.counts.total(), **_sorted(self.counts)}]
        lines.extend({"family": f, **_sorted(self.families[f])} for f in sorted(self.families))
        lines.extend(self.others[name].line() for name in sorted(self.others))
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        _path(name).write_text(text, encoding="utf-8")


def _path(name: str) -> Path:
    return HERE / f"{name}.jsonl"


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {status: counts[status] for status in sorted(counts)}


def _judged_maskbench(case: Case) -> Verdict:
    verdict = judge_maskbench(case)
    return explained(case, verdict) if verdict.status == "wrong" else verdict


def _timed(task: tuple[Callable[[Case], Verdict], Case]) -> tuple[Verdict, float]:
    start = time.perf_counter()
    verdict = task[0](task[1])
    return verdict, time.perf_counter() - start


def _computed(judge: Callable[[Case], Verdict], cases: Iterable[Case]) -> Iterator[Verdict]:
    slowest = ("", 0.0)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for verdict, seconds in pool.map(_timed, ((judge, case) for case in cases), chunksize=16):
            slowest = max(slowest, (verdict.name, seconds), key=lambda pair: pair[1])
            yield verdict
    print(f"  slowest: {slowest[0]}, {slowest[1]:.1f} s for schema and tests")


def main() -> None:
    """Compute all ledgers again and write them."""
    tasks: dict[str, tuple[Callable[[Case], Verdict], Iterable[Case]]] = {
        "official-required": (judge_official, official(optional=False)),
        "official-optional": (judge_official, official(optional=True)),
        "maskbench": (_judged_maskbench, maskbench()),
    }
    for name in LEDGERS:
        print(name)
        ledger = Ledger.of(_computed(*tasks[name]))
        ledger.write(name)
        print(f"  {dict(ledger.counts)}")
        refused = Counter((v.error, v.keyword) for v in ledger.others.values() if v.error)
        reasons = Counter(r for v in ledger.others.values() for r in v.reasons.values())
        for what, number in (*refused.most_common(), *reasons.most_common()):
            print(f"  {number:5} {what}")


if __name__ == "__main__":
    main()
