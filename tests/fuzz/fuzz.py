"""Search for schemas on which the engine and ``jsonschema`` disagree, within a time limit.

Schemas are generated (``schema_strategies``) or, with ``--data``, real ones after random changes. Each
is compiled within limits on time and memory and checked for the properties in ``checks``. Findings are
shrunk, printed and appended to a file; the exit status is 1 if there are any. The seed determines the
sequence of schemas, the time limit its length.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from checks import Finding, OverBudgetError, examined, seconds_at_most
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from mutations import mutated_schema, mutated_value
from schema_strategies import json_values, schemas, values_near
from shrinking import shrunk

MEMORY = 4 << 30
SHRINK_SECONDS = 30
SHRINK_SECONDS_SLOW = 60
MOST_OF_ONE_KIND = 3


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema = draw(schemas(depth=draw(st.integers(1, 3))))
    return schema, [draw(st.one_of(values_near(schema), json_values)) for _ in range(5)]


def drawn(strategy: st.SearchStrategy[Any], number: int, count: int) -> list[Any]:
    """Draw examples of a strategy, determined by the number."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def generated(random: Random) -> Iterator[tuple[Any, list[Any]]]:
    """Yield schemas out of the strategies, with values."""
    while True:
        for schema, values in drawn(_cases(), random.getrandbits(32), 100):
            yield schema, values + [mutated_value(value, random) for value in values[:2]]
            if random.random() < 0.05:
                yield schema, _instances_of(schema, random)


def _instances_of(schema: Any, random: Random) -> list[Any]:
    number = random.getrandbits(32)
    try:
        with seconds_at_most(5):
            values = drawn(from_schema(schema), number, 5)
    except (Exception, OverBudgetError):  # whatever the other generator cannot do
        return []
    return values + [mutated_value(value, random) for value in values[:3]]


def near_real_ones(path: Path, random: Random) -> Iterator[tuple[Any, list[Any]]]:
    """Yield schemas of a MaskBench file after some changes, with their tests and ones near."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        texts = [line for line in lines if len(line) < 40_000]
    while True:
        chosen = [json.loads(random.choice(texts)) for _ in range(20)]
        pool = [case["schema"] for case in chosen if isinstance(case["schema"], dict)]
        for case in chosen:
            if not isinstance(case["schema"], dict):
                continue
            values = [test["data"] for test in case["tests"]]
            random.shuffle(values)
            for round_ in range(4):
                schema = case["schema"]
                if round_:
                    schema = mutated_schema(schema, pool, random)
                near = [mutated_value(v, random) for v in values[:4] for _ in range(2)]
                yield schema, [*values[:6], *near]


def reported(finding: Finding, number: int) -> Finding:
    """Return the finding with a schema, and a value, as small as they become."""
    walks = 2 if finding.has_value else 12
    seconds = SHRINK_SECONDS_SLOW if "slow" in finding.kind else SHRINK_SECONDS

    def again(schema: Any, values: list[Any]) -> Finding | None:
        if not isinstance(schema, dict | bool):
            return None
        other = examined(schema, values, number, Counter(), walks=walks)
        return other if other is not None and other.kind == finding.kind else None

    values = [finding.value] if finding.has_value else []
    schema = shrunk(finding.schema, lambda s: again(s, values) is not None, seconds=seconds)
    if finding.has_value:
        value = shrunk(finding.value, lambda v: again(schema, [v]) is not None, seconds=seconds)
        schema = shrunk(schema, lambda s: again(s, [value]) is not None, seconds=seconds)
        values = [value]
    return again(schema, values) or finding


def main() -> int:
    """Run; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="a MaskBench file (.jsonl or .jsonl.gz)")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.unraisablehook = _unless_over_budget
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    random = Random(options.seed)
    sources = [generated(Random(random.getrandbits(32)))]
    if options.data:
        sources.append(near_real_ones(options.data, Random(random.getrandbits(32))))
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    deadline = time.monotonic() + options.minutes * 60
    next_line = 0.0
    while time.monotonic() < deadline:
        schema, values = next(sources[counts["schemas"] % len(sources)])
        number = random.getrandbits(32)
        finding = examined(schema, values, number, counts)
        if finding is not None:
            kinds[finding.kind] += 1
            if kinds[finding.kind] <= MOST_OF_ONE_KIND:
                line = json.dumps(reported(finding, number).line(), ensure_ascii=False)
                print(line, flush=True)
                with options.findings.open("a") as file:
                    file.write(line + "\n")
        if time.monotonic() > next_line:
            next_line = time.monotonic() + 60
            _print_counts(counts, kinds)
    _print_counts(counts, kinds)
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}", file=sys.stderr)
    return 1 if kinds else 0


def _unless_over_budget(event: sys.UnraisableHookArgs) -> None:
    """Report what happens in callbacks, but for interruptions: these are repeated."""
    if not isinstance(event.exc_value, OverBudgetError):
        sys.__unraisablehook__(event)


def _print_counts(counts: Counter[str], kinds: Counter[str]) -> None:
    named = ("schemas", "schemas judged", "instances", "instances admitted", "walks ended")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    told = ", ".join(f"{counts[name]:,} {name}" for name in named)
    print(f"{told}; {sum(kinds.values())} findings; {peak} MB", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
