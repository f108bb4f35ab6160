"""Measure one engine on sets of tools, in a process that ``tools`` starts.

The engine compiles a warm-up tool first, and computes masks with it. Everything else is measured as
a user meets it: the sets of tools are new to the engine, except in the names of the figures.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter_ns, process_time_ns

from engines import CALL_BEGIN, RefusedSchemaError, TokenizerSource, ToolSchema, load_engine
from engines.base import Engine, EngineMatcher
from residence import peak_memory
from tokenizers import Tokenizer
from worker import time_limit

__all__ = ["CLOCKS", "ToolJob", "ToolResult", "main", "measure_tools", "refused_tools"]

CLOCKS = {"wall": perf_counter_ns, "process": process_time_ns}
"""Clocks: elapsed time, and the processor time of all threads, for a machine in use."""

_WARM_UP: ToolSchema = ("warm_up", {"type": "object", "properties": {"a": {"type": "string"}}})


@dataclass(frozen=True)
class ToolJob:
    """The job of a worker.

    Attributes:
        engine: A name of :data:`engines.ENGINES`.
        tokenizer: The path of a ``tokenizer.json``.
        end_token_ids: The tokens that end a text.
        tools: The tools; the last one is called.
        other: The tool that replaces the first one in the second set; ``None`` looks for refused
            tools and measures nothing.
        seconds: Limit for everything.
        clock: A name of :data:`CLOCKS`.
        results: The path of the file for the :class:`ToolResult`.
    """

    engine: str
    tokenizer: str
    end_token_ids: tuple[int, ...]
    tools: list[ToolSchema]
    other: ToolSchema | None
    seconds: float
    clock: str = "wall"
    results: str = ""


@dataclass
class ToolResult:
    """The outcome of a job; times in nanoseconds.

    Attributes:
        version: The version of the engine.
        reason: Why the engine did not compile the tools.
        refused: The names of refused tools.
        cold: From the set of tools to the first mask.
        exchanged: The same for the set with another first tool.
        name: To take the tokens of a call up to its arguments, and their first mask.
        peak_bytes: The peak of resident memory, above that before the tools.
    """

    version: str = ""
    reason: str = ""
    refused: list[str] = field(default_factory=list)
    cold: int = 0
    exchanged: int = 0
    name: int = 0
    peak_bytes: int = 0


def refused_tools(engine: Engine, tools: list[ToolSchema]) -> list[str]:
    """Return the names of the tools that an engine does not compile, each alone."""
    refused = []
    for tool in tools:
        try:
            engine.compile_tools([tool]).matcher().mask()
        except Exception:  # Whatever an engine raises is a refusal.
            refused.append(tool[0])
    return refused


def measure_tools(
    engine: Engine,
    tools: list[ToolSchema],
    other: ToolSchema,
    encode: Callable[[str], list[int]],
    clock: Callable[[], int] = perf_counter_ns,
) -> ToolResult:
    """Measure sets of tools. Raises :class:`RefusedSchemaError`."""
    result = ToolResult(engine.version)
    _call(_first_mask(engine, [_WARM_UP]), _WARM_UP, encode)
    _exempt_from_collections()
    before = peak_memory()
    begun = clock()
    matcher = _first_mask(engine, tools)
    result.cold = clock() - begun
    begun = clock()
    _call(matcher, tools[-1], encode)
    result.name = clock() - begun
    result.peak_bytes = peak_memory() - before
    _exempt_from_collections()
    begun = clock()
    _first_mask(engine, [other, *tools[1:]])
    result.exchanged = clock() - begun
    return result


def _first_mask(engine: Engine, tools: list[ToolSchema]) -> EngineMatcher:
    matcher = engine.compile_tools(tools).matcher()
    matcher.mask()
    return matcher


def _call(matcher: EngineMatcher, tool: ToolSchema, encode: Callable[[str], list[int]]) -> None:
    """Take the tokens of a call up to its arguments, and compute the mask there."""
    for token_id in encode(CALL_BEGIN.replace("NAME", tool[0]).rstrip()):
        matcher.advance(token_id)
    matcher.mask()


def _exempt_from_collections() -> None:
    """Exempt all objects from later collections, as the commands that run the engine do."""
    gc.collect()
    gc.freeze()


def _run(job: ToolJob) -> ToolResult:
    source = TokenizerSource(Path(job.tokenizer), tuple(job.end_token_ids))
    engine = load_engine(job.engine, source)
    tokenizer = Tokenizer.from_file(job.tokenizer)
    if job.other is None:
        return ToolResult(engine.version, refused=refused_tools(engine, job.tools))

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    try:
        return measure_tools(engine, job.tools, job.other, encode, CLOCKS[job.clock])
    except RefusedSchemaError as error:
        return ToolResult(engine.version, reason=str(error))


def main(job_path: str) -> None:
    """Do the job that a JSON file describes."""
    job = ToolJob(**json.loads(Path(job_path).read_text(encoding="utf-8")))
    with time_limit(job.seconds):
        result = _run(job)
    Path(job.results).write_text(json.dumps(asdict(result)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
