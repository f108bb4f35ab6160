"""Measure how often a value stands in its own quote, and whether such values are right.

``engine.extract`` with and without ``quotes=True``, on the records of the quality benchmark's task
*extraction*, at temperature 0. See ``README.md`` beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arguments import positive
from quality_scores import Interval, interval
from quality_tasks import Record, make_records

from proxy_engine import InferenceEngine
from proxy_engine.models.loading import load_model

__all__ = ["Extracted", "extracted", "main", "stands_in", "table"]

_BATCH = 16
_TOKENS_OF_A_QUOTE = 64
"""Room for a quote in the output. The longest has 200 characters."""


@dataclass(frozen=True)
class Extracted:
    """An answer to a record.

    Attributes:
        right: Whether each field is right.
        quoted: Whether the value of each field is in its own quote, for strings and numbers.
        unquoted: The fields with an empty quote.
        tokens: Tokens of the output.
    """

    right: Mapping[str, bool]
    quoted: Mapping[str, bool]
    unquoted: Sequence[str]
    tokens: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="field_quotes.py", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=positive, default=100, help="records (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the records (%(default)s)")
    parser.add_argument("--model", help="a model directory (the embedded model)")
    parser.add_argument("--out", type=Path, help="a file for the answers, one line of JSON each")
    options = parser.parse_args(arguments)
    records = make_records("extraction", options.seed, options.records)
    loaded = load_model(options.model)
    found: dict[bool, list[Extracted]] = {}
    with InferenceEngine(loaded.model, loaded.tokenizer, batch_size=_BATCH) as engine:
        for quotes in (False, True):
            # Each record has its own schema. Requests of several threads run in one batch.
            with ThreadPoolExecutor(_BATCH) as pool:
                answers = pool.map(lambda each, q=quotes: extracted(engine, each, q), records)
                found[quotes] = list(answers)
    if options.out:
        lines = [{"quotes": key, **asdict(each)} for key in found for each in found[key]]
        options.out.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    print(table(found[False], found[True]))
    return 0


def extracted(engine: InferenceEngine, record: Record, quotes: bool) -> Extracted:
    """Return the answer to a record, with or without quotes."""
    text, _, instruction = record.question.partition("\n\n")
    [result] = engine.extract(
        [text],
        record.schema,
        instruction=instruction,
        quotes=quotes,
        temperature=0.0,
        max_tokens=record.max_tokens + (_TOKENS_OF_A_QUOTE * len(record.gold) if quotes else 0),
        progress=False,
    )
    if result.error is not None:
        raise result.error
    value: Mapping[str, Any] = result.value or {}
    quoted = {quote.pointer[1:]: text[quote.start : quote.end] for quote in result.quotes}
    return Extracted(
        record.matches(value),
        {
            name: stands_in(member, quoted.get(name, ""))
            for name, member in value.items()
            if member is not None and not isinstance(member, bool)
        },
        [name for name in value if name not in quoted],
        0 if result.usage is None else result.usage.completion_tokens,
    )


def stands_in(value: Any, quote: str) -> bool:
    """Return whether a value is in a quote, without regard to case and punctuation."""
    written = value if isinstance(value, str) else json.dumps(value)
    return f" {_words(written)} " in f" {_words(quote)} "


def _words(text: str) -> str:
    kept = (letter if letter.isalnum() else " " for letter in text.casefold())
    return " ".join("".join(kept).split())


def table(without: Sequence[Extracted], answers: Sequence[Extracted]) -> str:
    """Return the figures, a line each, with 95% bootstrap intervals over records."""
    lines = {
        "right fields without quotes": _share(
            [(sum(each.right.values()), len(each.right)) for each in without]
        ),
        "right fields with quotes": _share(
            [(sum(each.right.values()), len(each.right)) for each in answers]
        ),
        "strings and numbers in their quote": _share(
            [(sum(each.quoted.values()), len(each.quoted)) for each in answers]
        ),
        "right, of values in their quote": _share([_right(each, True) for each in answers]),
        "right, of other strings and numbers": _share([_right(each, False) for each in answers]),
        "empty quotes": _share([(len(each.unquoted), len(each.right)) for each in answers]),
    }
    tokens = sum(each.tokens for each in answers) / sum(each.tokens for each in without)
    shown = [
        f"{name}: no values"
        if one is None
        else f"{name}: {100 * one.value:.0f}% ({100 * one.low:.0f} to {100 * one.high:.0f})"
        for name, one in lines.items()
    ]
    return "\n".join([*shown, f"tokens with quotes over those without: {tokens:.1f}"])


def _right(answer: Extracted, is_quoted: bool) -> tuple[int, int]:
    """Return the number of right values among those that are in their quote or not, and of all."""
    chosen = [answer.right[name] for name, found in answer.quoted.items() if found == is_quoted]
    return sum(chosen), len(chosen)


def _share(pairs: Sequence[tuple[int, int]]) -> Interval | None:
    counted = [(right, number) for right, number in pairs if number]
    if not counted:
        return None
    return interval([right for right, _ in counted], [number for _, number in counted])


if __name__ == "__main__":
    sys.exit(main())
