"""Measure verbatim quotes: the index of a source, and masks beside those of a plain string.

The source is a text of the project's own documents. The quotes are runs of its words, the same for
all engines. The second pass repeats the first; the walks of the vocabulary are shared. Times are
CPU times of the thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any

from arguments import NamedTokenizer, add_tokenizer, environment, positive
from default_tokenizer import default_tokenizer
from records import write_record
from tables import aligned
from tokenizers import Tokenizer

from state_machines import JsonSchemaStateMachine, Vocabulary
from state_machines.grammar.quote_sources import words_of
from state_machines.grammar.substring import substring_language

__all__ = ["main", "masks", "quotes_of", "source_of"]

_DOCUMENTS = Path(__file__).parents[1]
_WORDS_OF_A_QUOTE = 60
_PERIOD = 1000

Step = Callable[[int], None]
"""Computes the mask, and takes a token."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    named = options.tokenizer or default_tokenizer()
    tokenizer, vocabulary = named.load()
    # The documents have names of special tokens, which are text here.
    tokenizer.encode_special_tokens = True
    report: dict[str, Any] = {"environment": environment(), **named.facts(vocabulary), "rows": []}
    for size in options.characters:
        source = source_of(size)
        rows = _rows(source, tokenizer, vocabulary, named, options)
        report["rows"] += [{"characters": size, **row} for row in rows]
        if options.json:
            write_record(options.json, report)
    table = [
        [str(row["characters"]), row["engine"], row["language"]]
        + [f"{row[name]:.1f}" for name in ("build_ms", "mean_us", "p50_us", "worst_us", "again_us")]
        for row in report["rows"]
    ]
    head = [
        "characters",
        "engine",
        "language",
        "build ms",
        "mean µs",
        "p50",
        "worst",
        "second pass",
    ]
    print(aligned([head, *table], texts=3))
    return 0


def source_of(size: int) -> str:
    """Return a text of a size in characters, of the project's documents and modules."""
    files = sorted(_DOCUMENTS.glob("docs/**/*.md"))
    files += sorted(_DOCUMENTS.glob("proxy_engine/**/*.py"))
    files += sorted(_DOCUMENTS.glob("state_machines/**/*.py"))
    parts: list[str] = []
    length = 0
    for path in files:
        parts.append(path.read_text(encoding="utf-8"))
        length += len(parts[-1])
        if length >= size:
            break
    return "".join(parts)[:size]


def quotes_of(source: str, count: int, seed: int = 0) -> list[str]:
    """Return runs of words of a source."""
    random, words = Random(seed), words_of(source)
    starts = [random.randrange(max(1, len(words) - _WORDS_OF_A_QUOTE)) for _ in range(count)]
    return ["".join(words[at : at + _WORDS_OF_A_QUOTE]) for at in starts]


def masks(step: Step, token_ids: Sequence[int]) -> Iterator[float]:
    """Yield the microseconds of each mask."""
    for token_id in token_ids:
        started = time.thread_time()
        step(token_id)
        yield 1e6 * (time.thread_time() - started)


def _rows(
    source: str,
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    named: NamedTokenizer,
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    texts = quotes_of(source, options.quotes)
    in_json = [tokenizer.encode(json.dumps(text), add_special_tokens=False).ids for text in texts]
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    quote = {"type": "string", "x-substring-of": "source"}
    languages: list[tuple[str, dict[str, Any]]] = [
        ("any string", {"type": "string"}),
        ("words", quote),
        ("chars", {**quote, "x-substring-unit": "chars"}),
    ]
    # The tables of the vocabulary are made once for all requests.
    _steps(JsonSchemaStateMachine({"type": "string", "maxLength": 9}), vocabulary)(in_json[0][0])
    for name, schema in languages:
        started = time.thread_time()
        machine = _compiled(schema, source)
        build = time.thread_time() - started
        first = [us for ids in in_json for us in masks(_steps(machine, vocabulary), ids)]
        second = [us for ids in in_json for us in masks(_steps(machine, vocabulary), ids)]
        yield _row("Proxy Engine", name, build, first, second)
    # Texts of their own, since equal sources share their index.
    yield _row("Proxy Engine", "index", _seconds(lambda: substring_language(f"{source} ")))
    repeated = (source[:_PERIOD] * (1 + len(source) // _PERIOD))[: len(source)]
    index = _seconds(lambda: substring_language(repeated))
    yield _row("Proxy Engine", "index, repeated text", index)
    if options.peer:
        yield from _llguidance(source, plain, named, vocabulary)


def _compiled(schema: dict[str, Any], source: str) -> JsonSchemaStateMachine:
    return JsonSchemaStateMachine(schema, sources={"source": source})


def _steps(machine: JsonSchemaStateMachine, vocabulary: Vocabulary) -> Step:
    matcher = machine.matcher(vocabulary)

    def step(token_id: int) -> None:
        matcher.allowed_tokens()
        matcher.advance(token_id)

    return step


def _llguidance(
    source: str, texts: Sequence[Sequence[int]], named: NamedTokenizer, vocabulary: Vocabulary
) -> Iterator[dict[str, Any]]:
    import llguidance  # noqa: PLC0415
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask  # noqa: PLC0415

    end = min(vocabulary.end_token_ids)
    tokenizer = llguidance.LLTokenizer(
        named.path.read_text(encoding="utf-8"), n_vocab=vocabulary.size, eos_token=end
    )
    for name in ("words", "chars"):
        grammar = f'start: %regex {{"substring_{name}": {json.dumps(source)}}}'
        bitmask = allocate_token_bitmask(1, vocabulary.size)

        def new_matcher(grammar: str = grammar) -> Any:
            matcher = llguidance.LLMatcher(tokenizer, grammar)
            if matcher.is_error():
                raise ValueError(matcher.get_error())
            return matcher

        try:
            build = _seconds(new_matcher)
        except ValueError as error:
            print(f"llguidance, {name}: {str(error)[:200]}", file=sys.stderr)
            continue
        first: list[float] = []
        matcher = new_matcher()
        for ids in texts:

            def step(token_id: int, matcher: Any = matcher, bitmask: Any = bitmask) -> None:
                fill_next_token_bitmask(matcher, bitmask, 0)
                if not matcher.consume_token(token_id):
                    raise ValueError(f"llguidance refuses a token of a quote: {token_id}")

            first += masks(step, ids)
            matcher.reset()
        yield _row("llguidance", name, build, first)


def _seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def _row(
    engine: str,
    language: str,
    build: float,
    first: Sequence[float] = (0.0,),
    second: Sequence[float] = (0.0,),
) -> dict[str, Any]:
    return {
        "engine": engine,
        "language": language,
        "build_ms": 1e3 * build,
        "mean_us": mean(first),
        "p50_us": median(first),
        "worst_us": max(first),
        "again_us": mean(second),
        "masks": len(first),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="quotes.py", description=__doc__.splitlines()[0])
    add_tokenizer(parser)
    parser.add_argument(
        "--characters",
        type=lambda text: [positive(size) for size in text.split(",")],
        default=[10_000, 100_000, 1_000_000],
        help="sizes of the source, comma-separated (10000,100000,1000000)",
    )
    parser.add_argument("--quotes", type=positive, default=20, help="(%(default)s)")
    parser.add_argument("--peer", action="store_true", help="measure llguidance as well")
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
