"""What constraints add to the generate loops of other libraries, beside llguidance's.

Every loop writes the same documents of MaskBench's schemas, by a script. The loop with a script
alone is the base. Two costs are measured for each token, in separate runs:

* *added*: processor time of the whole process above that of the base, all threads counted;
* *call*: processor time of the calling thread inside the constraint, whose arguments are evaluated
  before. MLX applies the mask later, so this is not counted there.

A schema is *new* in the first run after its compilation, and *known* in the second. Compilation is
not counted, and every stack has written another document before. Stacks take turns.

    python benchmarks/logits_processors.py --data maskbench.jsonl.gz [--runtimes mlx-lm] [--each 3]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import numpy as np
from alternation import ratio_of, rotated, settle
from arguments import environment
from documents import Document, choose
from mlx_lm.utils import load_tokenizer
from processor_runtimes import RUNTIMES, Runtime
from random_models import size
from tables import aligned

from proxy_engine.models.embedded import embedded_model
from state_machines import JsonSchemaStateMachine, ProxyError

OURS, LIMITED, PEER = "ours", "ours, max_tokens", "llguidance"
BASE = "base"
FIGURES = Path(__file__).parents[1] / "docs" / "plots" / "logits_processors.json"
ROOM = 64
"""Tokens that ``max_tokens`` leaves behind a document."""


class Timed:
    """A constraint that measures its calls. ``seconds`` of the calling thread's processor time."""

    def __init__(self, inner: Callable[[Any, Any], Any], runtime: Runtime) -> None:
        self._inner = inner
        self._runtime = runtime
        self.seconds = 0.0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self._runtime.evaluate(input_ids, scores)
        started = thread_time()
        result = self._inner(input_ids, scores)
        self.seconds += thread_time() - started
        return result


def constraints(
    runtime: Runtime, document: Document, tokens: Sequence[int]
) -> dict[str, Callable[[], Any]]:
    """Compile a document's schema for each stack; return functions that make its constraint."""
    machines = {
        name: JsonSchemaStateMachine(document.schema, whitespace="spaced")
        for name in (OURS, LIMITED)
    }
    matcher = runtime.matcher(document.schema)
    return {
        OURS: lambda: runtime.our_constraint(machines[OURS], None),
        LIMITED: lambda: runtime.our_constraint(machines[LIMITED], len(tokens) + ROOM),
        PEER: lambda: runtime.peer_constraint(matcher),
    }


def measure(
    runtime: Runtime, document: Document, tokens: Sequence[int], turn: int
) -> Iterator[tuple[str, str, float, float]]:
    """Yield stack, pass, and seconds a token of the process and within the constraint."""
    for_whole, for_calls = (constraints(runtime, document, tokens) for _ in range(2))
    for kind in ("new", "known"):
        for stack in rotated({BASE: None, **for_whole}, turn):
            settle()
            started = process_time()
            _run(runtime, document, tokens, [for_whole[stack]()] if stack != BASE else [])
            whole = process_time() - started
            call = 0.0
            if stack != BASE:
                timed = Timed(for_calls[stack](), runtime)
                _run(runtime, document, tokens, [timed])
                call = timed.seconds
            yield stack, kind, whole / len(tokens), call / len(tokens)


def _run(
    runtime: Runtime, document: Document, tokens: Sequence[int], constraint: list[Any]
) -> None:
    written = runtime.run([runtime.script(tokens), *constraint], len(tokens) + ROOM)
    if written != list(tokens):
        raise AssertionError(f"the loop of {runtime.name} left the script of {document.name}")


def figures_of(runtime: Runtime, documents: Sequence[Document], repeats: int) -> list[Any]:
    """Measure a runtime."""
    whole: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    calls: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    scripts = [runtime.tokenizer.encode(d.text, add_special_tokens=False) for d in documents]
    for _ in measure(runtime, documents[-1], scripts[-1], 0):
        pass
    for repeat in range(repeats):
        sums: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
        for number, (document, tokens) in enumerate(zip(documents, scripts, strict=True)):
            for stack, kind, total, call in measure(runtime, document, tokens, repeat + number):
                sums[document.kind, kind, stack].append((total, call))
        for key, values in sums.items():
            total, call = np.mean(values, axis=0)
            whole[key].append(float(total))
            calls[key].append(float(call))
    return [
        _figure(runtime, documents_kind, kind, stack, whole, calls)
        for documents_kind, kind, stack in whole
        if stack != BASE
    ]


def _figure(
    runtime: Runtime,
    documents: str,
    kind: str,
    stack: str,
    whole: dict[tuple[str, str, str], list[float]],
    calls: dict[tuple[str, str, str], list[float]],
) -> dict[str, Any]:
    key, base, peer = ((documents, kind, name) for name in (stack, BASE, PEER))
    loop = ratio_of(whole[key], whole[base])
    figure = {
        "runtime": runtime.name,
        "documents": documents,
        "schemas": kind,
        "stack": stack,
        "loop_beside_base": loop.as_record(),
        "added_microseconds": round(1e6 * (loop.ours - loop.theirs), 1),
        "call_microseconds": round(1e6 * float(np.median(calls[key])), 1),
    }
    if stack != PEER:
        figure["call_beside_llguidance"] = ratio_of(calls[key], calls[peer]).as_record()
    return figure


def rows(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a table."""
    head = ["runtime", "documents", "schemas", "stack", "loop/base", "added", "call", "call/peer"]
    return [head, *(_row(figure) for figure in figures)]


def _row(figure: dict[str, Any]) -> list[str]:
    beside = figure.get("call_beside_llguidance")
    return [
        figure["runtime"],
        figure["documents"],
        figure["schemas"],
        figure["stack"],
        f"{figure['loop_beside_base']['value']:.3f}",
        f"{figure['added_microseconds']:.0f} µs",
        f"{figure['call_microseconds']:.0f} µs",
        f"{beside['value']:.2f}" if beside else "–",
    ]


def _admits(runtime: Runtime) -> Callable[[Document], bool]:
    """Return whether both engines accept a document's schema and text."""

    def admits(document: Document) -> bool:
        tokens = runtime.tokenizer.encode(document.text, add_special_tokens=False)
        try:
            machine = JsonSchemaStateMachine(document.schema, whitespace="spaced")
            matcher = runtime.matcher(document.schema)
        except (ProxyError, ValueError):
            return False
        return machine.matches(document.text) and matcher.validate_tokens(tokens) == len(tokens)

    return admits


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="MaskBench, gzipped JSON Lines")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES), help="names, separated by commas")
    parser.add_argument("--each", type=int, default=3, help="documents of each kind")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", type=size, default=size("2x64"), help="LAYERSxWIDTH")
    parser.add_argument("--json", type=Path, default=FIGURES)
    arguments = parser.parse_args()
    tokenizer = load_tokenizer(embedded_model())._tokenizer
    figures: list[Any] = []
    versions = {"llguidance": version("llguidance")}
    for name in arguments.runtimes.split(","):
        runtime = RUNTIMES[name](tokenizer, arguments.model)
        versions[name] = version(runtime.library)
        documents = choose(arguments.data, _admits(runtime), each=arguments.each)
        found = figures_of(runtime, documents, arguments.repeats)
        print(aligned(rows(found), 4), flush=True)
        figures += found
    record = {
        "environment": {**environment(), "versions": versions, "data": arguments.data.name},
        "model": str(arguments.model),
        "documents": arguments.each,
        "repeats": arguments.repeats,
        "figures": figures,
    }
    arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
