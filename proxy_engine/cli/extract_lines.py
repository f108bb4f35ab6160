"""Many texts, one a line, to as many JSON values, in the same order."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from state_machines.errors import ProxyError

from ..errors import EngineClosedError
from ..progress import to_stderr
from .extraction import Extraction, text_of
from .failures import failure_line
from .input_lines import InputLines
from .output_file import OutputFile
from .progress import LinesProgress
from .resuming import Done

if TYPE_CHECKING:
    from ..engine import InferenceEngine
    from ..results import GenerationResult

__all__ = ["extract_lines"]

# The rows of a batch that are there are at work meanwhile; without a line that is late they go on.
_SECONDS_TO_WAIT = 0.05
# Lines that need no model are told of after so many, even if none comes that does.
_MOST_REFUSED = 1_000


def extract_lines(
    engine: InferenceEngine,
    extraction: Extraction,
    lines: InputLines,
    output: OutputFile | None,
    progress: LinesProgress,
    done: Done,
    *,
    is_quiet: bool,
) -> int:
    """Write one line for each of ``lines``, after those that are ``done``; returns how many failed.

    A line that fails does not keep others from being done. However this ends, what is in
    ``output`` are whole lines, each written once. Raises ``OutputFileError``, and what is no line's
    own fault, such as ``EngineClosedError``.
    """
    started = time.monotonic()
    written, failed = done.lines, done.failures
    read_tokens = written_tokens = 0
    if output is not None:
        output.begin(done.size)
    write = progress.print_result if output is None else output.write
    try:
        with contextlib.closing(_outcomes(engine, extraction, lines)) as outcomes, progress:
            for outcome in outcomes:
                if outcome.result is not None:
                    # Between tokens of JSON a line break is worth a space; in them there is none.
                    write(outcome.result.text.replace("\n", " "))
                    read_tokens += outcome.result.usage.prompt_tokens
                    written_tokens += outcome.result.usage.completion_tokens
                else:
                    error = _own_error(outcome)
                    write(failure_line(outcome.number, error))
                    failed += 1
                    to_stderr(f"proxy-engine: line {outcome.number}: {error}")
                written += 1
                progress.advance(is_failure=outcome.result is None)
    except BaseException:
        if output is not None:
            to_stderr(
                f"proxy-engine: {output.path!r} has {written} lines; the same command with "
                "--resume, and without --overwrite, goes on after them"
            )
        raise
    if not is_quiet:
        seconds = time.monotonic() - started
        to_stderr(
            f"{written - done.lines} lines in {seconds:.1f} s: read {read_tokens} tokens, wrote "
            f"{written_tokens} ({written_tokens / seconds:.1f} tokens a second)"
        )
    if failed:
        to_stderr(f"proxy-engine: {failed} of {written} lines failed")
    return failed


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of the input's line ``number``; neither a result nor an error: nothing yet."""

    number: int
    result: GenerationResult[Any] | None = None
    error: Exception | None = None


def _outcomes(
    engine: InferenceEngine, extraction: Extraction, lines: InputLines
) -> Generator[_Outcome]:
    """What comes of each line, in their order. To close this cancels what runs.

    Lines are read as the engine takes them. Where there are no more for now, as from a pipe whose
    other end waits for results, those that were read are done first.
    """
    while lines.peek() is not None:
        untold: deque[_Outcome] = deque()
        items = engine.iter_batch(
            _prompts(extraction, lines, untold),
            response_format=extraction.schema,
            ordered=True,
            **extraction.overrides,
        )
        with contextlib.closing(items):
            for item in items:
                while untold[0].error is not None:
                    yield untold.popleft()
                yield replace(untold.popleft(), result=item.result, error=item.error)
        yield from untold


def _prompts(extraction: Extraction, lines: InputLines, untold: deque[_Outcome]) -> Iterator[str]:
    """The prompts of lines that have one; each line is entered in ``untold``."""
    refused = 0
    while refused < _MOST_REFUSED and (not untold or lines.is_ready(_SECONDS_TO_WAIT)):
        line = next(lines, None)
        if line is None:
            return
        try:
            prompt = extraction.prompt(text_of(line.content))
        except ValueError as error:
            refused += 1
            untold.append(_Outcome(line.number, error=error))
        else:
            untold.append(_Outcome(line.number))
            yield prompt


def _own_error(outcome: _Outcome) -> Exception:
    """The error that is the line's own; raises one that is not, since a next try may do better."""
    error = outcome.error
    assert error is not None, "what was told of has a result or an error"
    if isinstance(error, EngineClosedError) or not isinstance(error, ProxyError | ValueError):
        raise error
    return error
