"""The tokens of requests of all kinds, as they were recorded.

``python tests/support/recorded_requests.py`` prints the requests whose tokens differ from the record, and
``--write`` writes the record anew, after a change that is meant to change tokens.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixed_engines import engines
from mixed_requests import KINDS, Alone, Answer, Spec
from tiny_models import make_tiny_tokenizer

RECORD = Path(__file__).parents[1] / "data" / "recorded_requests.json"

PROMPTS = ("x", "the red dog, the red fox", "x" * 40 + " abc 12 abc 12")


def specs() -> Iterator[Spec]:
    """Yield requests of every kind: a greedy one and one with temperature, with prompts by turns."""
    for number, kind in enumerate(KINDS):
        for seed in (0, 1):
            yield Spec(kind, PROMPTS[(number + seed) % len(PROMPTS)], seed)


def name_of(spec: Spec) -> str:
    """Return the name of a request in the record."""
    return f"{spec.kind} {spec.seed}"


def recorded(answer: Answer) -> dict[str, Any]:
    """Return what the record has of an answer: what does not depend on floating-point rounding."""
    result = answer.result
    if result is None:
        return {"error": answer.error}
    cut = result.cut_short
    return {
        "tokens": [list(choice.token_ids) for choice in result.choices or (result,)],
        "end": result.finish_reason if cut is None else f"{result.finish_reason} {cut}",
    }


def differences(alone: Alone) -> dict[str, tuple[Any, Any]]:
    """Return the answers that differ from the record, with those of the record, by request."""
    record, answers = json.loads(RECORD.read_text(encoding="utf-8")), answers_of(alone)
    names = dict.fromkeys([*record, *answers])
    pairs = {name: (answers.get(name), record.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def answers_of(alone: Alone) -> dict[str, Any]:
    """Return the answers of all requests, by name."""
    return {name_of(spec): recorded(alone.answer(spec)) for spec in specs()}


def write(alone: Alone) -> None:
    """Write the record."""
    lines = [f"{json.dumps(n)}: {json.dumps(a)}" for n, a in answers_of(alone).items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the record anew")
    options = parser.parse_args()
    with engines("plain", make_tiny_tokenizer()) as (_, alone):
        if options.write:
            write(alone)
        for name, (answer, record) in differences(alone).items():
            print(f"{name}: {answer}\nin the record: {record}")


if __name__ == "__main__":
    main()
