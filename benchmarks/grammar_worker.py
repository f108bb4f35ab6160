"""Measure one engine on one grammar, in a process that ``grammars`` starts.

The engine compiles and walks the warm-up grammar first. A pass walks all texts, each with a new
matcher of the one compiled grammar.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

from engines import CompiledSchema, RefusedSchemaError, TokenizerSource, load_engine
from grammar_cases import GrammarCase
from tokenizers import Tokenizer
from worker import time_limit

__all__ = ["CLOCKS", "GrammarJob", "GrammarResult", "PassTimes", "Refusal", "main", "walk_texts"]

CLOCKS = {"wall": perf_counter_ns, "thread": thread_time_ns}
"""Clocks: elapsed time, and the processor time of the measuring thread, for a machine in use."""


@dataclass(frozen=True)
class GrammarJob:
    """The job of a worker.

    Attributes:
        engine: A name of :data:`engines.ENGINES`.
        tokenizer: The path of a ``tokenizer.json``.
        end_token_ids: The tokens that end a text.
        case: The grammar that is measured.
        warm_up: The grammar that is compiled and walked before.
        passes: How often all texts are walked.
        clock: A name of :data:`CLOCKS`.
        seconds: Limit for everything.
        results: The path of the file for the :class:`GrammarResult`.
    """

    engine: str
    tokenizer: str
    end_token_ids: tuple[int, ...]
    case: GrammarCase
    warm_up: GrammarCase
    passes: int
    seconds: float
    clock: str = "wall"
    results: str = ""


@dataclass(frozen=True)
class Refusal:
    """A text that the engine did not admit: the number of its tokens taken, and the next one.

    ``token`` is ``None`` where the engine does not let the whole text end. ``error`` is what the
    engine raised, if it did.
    """

    text: str
    after: int
    token: str | None
    error: str = ""


@dataclass
class PassTimes:
    """Times of one pass in nanoseconds, an entry for each token, texts one after another.

    ``mask_ns`` has one more entry for each text: the mask at its end.
    """

    mask_ns: list[int] = field(default_factory=list)
    advance_ns: list[int] = field(default_factory=list)
    between_ns: list[int] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    """The text and the position of each mask."""


@dataclass
class GrammarResult:
    """The outcome of a job. ``reason`` says why the engine did not compile the grammar."""

    version: str = ""
    reason: str = ""
    compile_ns: int = 0
    passes: list[PassTimes] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def walk_texts(
    compiled: CompiledSchema,
    texts: dict[str, list[int]],
    clock: Callable[[], int] = perf_counter_ns,
) -> tuple[PassTimes, list[tuple[str, int, int | None, str]]]:
    """Walk all texts.

    Returns the times, and for each text not admitted its name, the position and the token at which
    it stopped, and the error if there was one.
    """
    times = PassTimes()
    refused: list[tuple[str, int, int | None, str]] = []
    for name, tokens in texts.items():
        taken = len(times.advance_ns)
        error = ""
        try:
            if _walk_text(compiled, name, tokens, times, clock):
                continue
        except Exception as raised:  # Whatever an engine raises is the finding.
            error = f"{type(raised).__name__}: {raised}"
        position = len(times.advance_ns) - taken
        refused.append((name, position, (*tokens, None)[position], error))
    return times, refused


def _walk_text(
    compiled: CompiledSchema,
    name: str,
    tokens: list[int],
    times: PassTimes,
    clock: Callable[[], int],
) -> bool:
    """Walk a text, and return whether it is admitted."""
    matcher = compiled.matcher()
    for position, token in enumerate(tokens):
        begun = clock()
        matcher.mask()
        mask_ns = clock() - begun
        times.mask_ns.append(mask_ns)
        times.places.append((name, position))
        if not matcher.allows(token):
            return False
        begun = clock()
        matcher.advance(token)
        advance_ns = clock() - begun
        times.advance_ns.append(advance_ns)
        times.between_ns.append(mask_ns + advance_ns)
    begun = clock()
    matcher.mask()
    times.mask_ns.append(clock() - begun)
    times.places.append((name, len(tokens)))
    return matcher.accepts_end()


def _exempt_from_collections() -> None:
    """Exempt all objects from later collections, as the commands that run the engine do."""
    gc.collect()
    gc.freeze()


def _run(job: GrammarJob) -> GrammarResult:
    source = TokenizerSource(Path(job.tokenizer), tuple(job.end_token_ids))
    engine = load_engine(job.engine, source)
    tokenizer = Tokenizer.from_file(job.tokenizer)

    def tokens(case: GrammarCase) -> dict[str, list[int]]:
        return {
            name: tokenizer.encode(text, add_special_tokens=False).ids
            for name, text in case.texts.items()
        }

    result = GrammarResult(engine.version)
    case, warm_up, texts = job.case, job.warm_up, tokens(job.case)
    clock = CLOCKS[job.clock]
    try:
        walk_texts(
            engine.compile_grammar(warm_up.grammar, warm_up.notation), tokens(warm_up), clock
        )
        _exempt_from_collections()
        begun = clock()
        compiled = engine.compile_grammar(case.grammar, case.notation)
        result.compile_ns = clock() - begun
    except RefusedSchemaError as error:
        result.reason = str(error)
        return result
    for _ in range(job.passes):
        _exempt_from_collections()
        times, refused = walk_texts(compiled, texts, clock)
        result.passes.append(times)
        result.refusals = [
            Refusal(name, after, None if token is None else tokenizer.decode([token]), error)
            for name, after, token, error in refused
        ]
    return result


def main(job_path: str) -> None:
    """Do the job that a JSON file describes."""
    record = json.loads(Path(job_path).read_text(encoding="utf-8"))
    for name in ("case", "warm_up"):
        record[name] = GrammarCase(**record[name])
    job = GrammarJob(**record)
    with time_limit(job.seconds):
        result = _run(job)
    Path(job.results).write_text(json.dumps(asdict(result)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
