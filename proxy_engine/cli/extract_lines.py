"""Extraction from many texts, one a line, in batches; results are in the order of the input."""

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
from .input_lines import InputLines
from .output import OutputFile
from .progress import LinesProgress
from .result_lines import Done, failure_line

if TYPE_CHECKING:
    from ..engine import InferenceEngine
    from ..results import GenerationResult

# The running requests wait this long for a further line to join the batch.
_LINE_SECONDS = 0.05
# After this many invalid lines without a valid one, their failures are written.
_MAX_INVALID_LINES = 1_000


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
    """Write one output line for each input line; the failure of one does not affect others.

    ``output`` holds whole lines, each written once, however this function ends.

    Args:
        engine: Generates the results.
        extraction: The schema, instruction and options.
        lines: The input, after the lines that are done.
        output: Where to write; ``None`` for standard output.
        progress: The progress bar.
        done: The lines that ``output`` already has.
        is_quiet: Whether to write no summary.

    Returns:
        The number of lines that failed.

    Raises:
        OutputFileError: A line cannot be written.
        ProxyError: An error that does not come from a line, such as ``EngineClosedError``.
    """
    started = time.monotonic()
    written, failed, prompt_tokens, completion_tokens = done.lines, done.failures, 0, 0
    write = progress.print_result if output is None else output.write
    if output is not None:
        output.begin(done.size)
    try:
        with contextlib.closing(_outcomes(engine, extraction, lines)) as outcomes, progress:
            for outcome in outcomes:
                if outcome.result is not None:
                    # Line breaks occur only between JSON tokens, where a space is equivalent.
                    write(outcome.result.text.replace("\n", " "))
                    prompt_tokens += outcome.result.usage.prompt_tokens
                    completion_tokens += outcome.result.usage.completion_tokens
                else:
                    error = _line_error(outcome)
                    write(failure_line(outcome.number, error))
                    failed += 1
                    to_stderr(f"proxy-engine: line {outcome.number}: {error}")
                written += 1
                progress.advance(is_failure=outcome.result is None)
    except BaseException:
        if output is not None:
            to_stderr(_resume_hint(output.path, written))
        raise
    if not is_quiet:
        tokens = prompt_tokens, completion_tokens
        to_stderr(_summary(written - done.lines, time.monotonic() - started, *tokens))
    if failed:
        to_stderr(f"proxy-engine: {failed} of {written} lines failed")
    return failed


def _resume_hint(path: str, lines: int) -> str:
    return (
        f"proxy-engine: {path!r} has {lines} lines; to continue, run the same command with "
        "--resume and without --overwrite"
    )


def _summary(lines: int, seconds: float, prompt_tokens: int, completion_tokens: int) -> str:
    return (
        f"{lines} lines in {seconds:.1f} s: {prompt_tokens} prompt tokens, {completion_tokens} "
        f"completion tokens ({completion_tokens / seconds:.1f} tokens/s)"
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result or error of the input's line ``number``; without either it is pending."""

    number: int
    result: GenerationResult[Any] | None = None
    error: Exception | None = None


def _outcomes(
    engine: InferenceEngine, extraction: Extraction, lines: InputLines
) -> Generator[_Outcome]:
    """Yield the outcome of each line, in the order of the input. Closing it cancels the batch.

    Lines are read as the engine takes them. If none is ready, as from a pipe whose writer waits for
    results, the lines read so far are finished first.
    """
    while lines.peek() is not None:
        pending: deque[_Outcome] = deque()
        items = engine.iter_batch(
            _prompts(extraction, lines, pending),
            response_format=extraction.schema,
            ordered=True,
            **extraction.overrides,
        )
        with contextlib.closing(items):
            for item in items:
                while pending[0].error is not None:
                    yield pending.popleft()
                yield replace(pending.popleft(), result=item.result, error=item.error)
        yield from pending


def _prompts(extraction: Extraction, lines: InputLines, pending: deque[_Outcome]) -> Iterator[str]:
    """Yield the prompts of the valid lines, and append every line to ``pending``."""
    invalid = 0
    while invalid < _MAX_INVALID_LINES and (not pending or lines.is_ready(_LINE_SECONDS)):
        line = next(lines, None)
        if line is None:
            return
        try:
            prompt = extraction.prompt(text_of(line.content))
        except ValueError as error:
            invalid += 1
            pending.append(_Outcome(line.number, error=error))
        else:
            pending.append(_Outcome(line.number))
            yield prompt


def _line_error(outcome: _Outcome) -> Exception:
    """Return the line's error; raise an error that a further run may not meet again."""
    error = outcome.error
    assert error is not None, "a finished line has a result or an error"
    if isinstance(error, EngineClosedError) or not isinstance(error, ProxyError | ValueError):
        raise error
    return error
