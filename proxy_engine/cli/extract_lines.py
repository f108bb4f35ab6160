"""Extraction from many records in batches; results are rows in the order of the input."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

from ..extraction.inputs import Inputs
from ..extraction.outcomes import Batch, Outcome
from ..extraction.outputs import Done, Output
from ..extraction.rows import JsonLines, RowFormat
from ..runtime.progress import to_stderr
from .extraction import Extraction, check_images
from .page_file import PageFile
from .progress import LinesProgress

if TYPE_CHECKING:
    from ..engine.inference_engine import InferenceEngine


def extract_lines(
    engine: InferenceEngine,
    extraction: Extraction,
    inputs: Inputs,
    output: Output | None,
    progress: LinesProgress,
    done: Done,
    *,
    page: PageFile | None,
    resume_command: str,
    is_quiet: bool,
) -> int:
    """Write one output row for each record; the failure of one does not affect others.

    ``output`` holds whole rows, each written once, however this function ends.

    Args:
        engine: Generates the results.
        extraction: The format of the answers, the prompts and options.
        inputs: The input, after the records that are done.
        output: Where to write; ``None`` for standard output.
        progress: The progress bar.
        done: The rows that ``output`` already has.
        page: The page of texts and quotes.
        resume_command: The command that continues an interrupted run.
        is_quiet: Whether to write no summary.

    Returns:
        The number of records that failed.

    Raises:
        CommandLineError: A record has images, and the model does not read images.
        OutputFileError: A row cannot be written.
        ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
    """
    started = time.monotonic()
    written, failed, prompt_tokens, completion_tokens = done.rows, done.failures, 0, 0
    cut_short = 0
    answers = extraction.answers
    rows: RowFormat = JsonLines(answers) if output is None else output.rows
    check = partial(check_images, engine)
    batch = Batch(
        extraction.prompts,
        answers.response_format,
        extraction.overrides,
        rows.admit,
        check,
        quotes_input=answers.quotes_input,
        chunks=extraction.chunks,
    )
    if output is not None:
        output.begin(done)
    try:
        with contextlib.closing(batch.outcomes(engine, inputs)) as outcomes, progress:
            for outcome in outcomes:
                if outcome.result is not None:
                    prompt_tokens += outcome.result.usage.prompt_tokens
                    completion_tokens += outcome.result.usage.completion_tokens
                    cut_short += outcome.result.cut_short is not None
                _write(outcome, rows, output, progress)
                if page is not None:
                    page.add(outcome)
                failed += outcome.result is None
                written += 1
                progress.advance(is_failure=outcome.result is None)
        if output is not None:
            output.finish()
    except BaseException as error:
        if output is None:
            raise
        hint = f"{output.path!r} has {written} rows; to continue: {resume_command}"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted; {hint}") from None
        to_stderr(f"proxy-engine: {hint}")
        raise
    if not is_quiet:
        seconds = time.monotonic() - started
        done_now = f"{written - done.rows} {inputs.unit}s"
        to_stderr(_summary(done_now, seconds, prompt_tokens, completion_tokens))
    if cut_short:
        unit = f"{inputs.unit}{'' if cut_short == 1 else 's'}"
        to_stderr(
            f"proxy-engine: a limit cut {cut_short} {unit} short; raise --max-tokens, or bound "
            "lists and texts in the schema"
        )
    if failed:
        to_stderr(f"proxy-engine: {failed} of {written} {inputs.unit}s failed")
    return failed


def _write(
    outcome: Outcome,
    rows: RowFormat,
    output: Output | None,
    progress: LinesProgress,
) -> None:
    if output is not None:
        output.write(outcome)
    else:
        progress.print_result(rows.row(outcome))
    if outcome.error is not None:
        to_stderr(f"proxy-engine: {outcome.item.label}: {outcome.error}")


def _summary(done: str, seconds: float, prompt_tokens: int, completion_tokens: int) -> str:
    return (
        f"{done} in {seconds:.1f} s: {prompt_tokens} prompt tokens, {completion_tokens} "
        f"completion tokens ({completion_tokens / seconds:.1f} tokens/s)"
    )
