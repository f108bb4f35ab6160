"""Extraction from many records in batches; results are lines in the order of the input."""

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
from .extraction import Extraction, check_reads
from .inputs import Inputs, Item
from .output import OutputFile
from .progress import LinesProgress
from .result_lines import Done, failure_line

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..engine import InferenceEngine
    from ..results import GenerationResult

# The running requests wait this long for a further item to join the batch.
_ITEM_SECONDS = 0.05
# After this many invalid items without a valid one, their failures are written.
_MAX_INVALID_ITEMS = 1_000


def extract_lines(
    engine: InferenceEngine,
    extraction: Extraction,
    inputs: Inputs,
    output: OutputFile | None,
    progress: LinesProgress,
    done: Done,
    *,
    is_quiet: bool,
) -> int:
    """Write one output line for each item; the failure of one does not affect others.

    ``output`` holds whole lines, each written once, however this function ends.

    Args:
        engine: Generates the results.
        extraction: The schema, instruction and options.
        inputs: The input, after the items that are done.
        output: Where to write; ``None`` for standard output.
        progress: The progress bar.
        done: The lines that ``output`` already has.
        is_quiet: Whether to write no summary.

    Returns:
        The number of items that failed.

    Raises:
        CommandLineError: A record has images, and the model does not read images.
        OutputFileError: A line cannot be written.
        ProxyError: An error that does not come from an item, such as ``EngineClosedError``.
    """
    started = time.monotonic()
    written, failed, prompt_tokens, completion_tokens = done.lines, done.failures, 0, 0
    write = progress.print_result if output is None else output.write
    if output is not None:
        output.begin(done.size)
    try:
        with contextlib.closing(_outcomes(engine, extraction, inputs)) as outcomes, progress:
            for outcome in outcomes:
                if outcome.result is not None:
                    # Line breaks occur only between JSON tokens, where a space is equivalent.
                    write(outcome.result.text.replace("\n", " "))
                    prompt_tokens += outcome.result.usage.prompt_tokens
                    completion_tokens += outcome.result.usage.completion_tokens
                else:
                    error = _item_error(outcome)
                    write(failure_line(outcome.item, error))
                    failed += 1
                    to_stderr(f"proxy-engine: {outcome.item.label}: {error}")
                written += 1
                progress.advance(is_failure=outcome.result is None)
    except BaseException:
        if output is not None:
            to_stderr(_resume_hint(output.path, written))
        raise
    if not is_quiet:
        seconds = time.monotonic() - started
        done_now = f"{written - done.lines} {inputs.unit}s"
        to_stderr(_summary(done_now, seconds, prompt_tokens, completion_tokens))
    if failed:
        to_stderr(f"proxy-engine: {failed} of {written} {inputs.unit}s failed")
    return failed


def _resume_hint(path: str, lines: int) -> str:
    return (
        f"proxy-engine: {path!r} has {lines} lines; to continue, run the same command with "
        "--resume and without --overwrite"
    )


def _summary(done: str, seconds: float, prompt_tokens: int, completion_tokens: int) -> str:
    return (
        f"{done} in {seconds:.1f} s: {prompt_tokens} prompt tokens, {completion_tokens} "
        f"completion tokens ({completion_tokens / seconds:.1f} tokens/s)"
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result or error of an item; without either it is pending."""

    item: Item
    result: GenerationResult[Any] | None = None
    error: Exception | None = None


def _outcomes(
    engine: InferenceEngine, extraction: Extraction, inputs: Inputs
) -> Generator[_Outcome]:
    """Yield the outcome of each item, in the order of the input. Closing it cancels the batch.

    Items are read as the engine takes them. If none is ready, as from a pipe whose writer waits for
    results, the items read so far are finished first.
    """
    while inputs.peek() is not None:
        pending: deque[_Outcome] = deque()
        items = engine.iter_batch(
            _prompts(engine, extraction, inputs, pending),
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


def _prompts(
    engine: InferenceEngine, extraction: Extraction, inputs: Inputs, pending: deque[_Outcome]
) -> Iterator[Prompt]:
    """Yield the prompts of the valid items, and append every item to ``pending``."""
    invalid = 0
    while invalid < _MAX_INVALID_ITEMS and (not pending or inputs.is_ready(_ITEM_SECONDS)):
        item = next(inputs, None)
        if item is None:
            return
        try:
            record = item.read()
            prompt = extraction.prompt(record)
        except ValueError as error:
            invalid += 1
            pending.append(_Outcome(item, error=error))
        else:
            # All records with images would fail: the run ends, and another model can resume it.
            check_reads(engine, record)
            pending.append(_Outcome(item))
            yield prompt


def _item_error(outcome: _Outcome) -> Exception:
    """Return the item's error; raise an error that a further run may not meet again."""
    error = outcome.error
    assert error is not None, "a finished item has a result or an error"
    if isinstance(error, EngineClosedError) or not isinstance(error, ProxyError | ValueError):
        raise error
    return error
