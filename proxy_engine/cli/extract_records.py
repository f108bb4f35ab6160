"""Extraction from one record, or from many in batches, whose rows are in the order of the input."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tqdm import tqdm

from ..extraction.details import is_limit
from ..extraction.inputs import RecordContent
from ..extraction.options import ExtractionOptions
from ..extraction.outcomes import Engine, Extraction, Outcome
from ..extraction.output_file import open_output, written_whole
from ..extraction.page import Page, record_of
from ..extraction.progress import ExtractionProgress, is_terminal, showing_bar
from ..extraction.rows import JsonLines, unwritten
from ..extraction.run import Run
from ..results.parts import total_usage
from ..runtime.process_runtime import to_stderr
from .flags import CommandLineError, writing_to_standard_output

if TYPE_CHECKING:
    from ..engine.inference_engine import InferenceEngine
    from ..options.overrides import OptionOverrides
    from ..results.generation import GenerationResult
    from ..results.parts import Usage


def extract_record(
    opened_engine: Callable[[], AbstractContextManager[InferenceEngine]],
    extraction: Extraction,
    content: RecordContent,
    options: ExtractionOptions,
    files: Sequence[IO[bytes] | str],
    is_streaming: bool,
    is_quiet: bool,
) -> None:
    """Extract from one record, and write the answer alone.

    Args:
        opened_engine: Returns the engine.
        extraction: The format of the answer, the instruction and options.
        content: The text and images.
        options: The output; standard output without one.
        files: The files that the output must not be.
        is_streaming: Whether to write tokens to standard output as they are generated.
        is_quiet: Whether to show no progress and no summary.

    Raises:
        OutputFileError: The result cannot be written.
        ProxyError: As ``InferenceEngine.stream`` raises it.
    """
    answers, path = extraction.answers, options.output
    with contextlib.ExitStack() as stack:
        output = None
        if path is not None:
            opened = open_output(path, inputs=files, is_replaced=options.overwrite)
            output = stack.enter_context(opened)
        engine = stack.enter_context(opened_engine())
        extraction.check_reads(engine, content)
        is_streaming = is_streaming and output is None
        if is_streaming:
            # What is written cannot be replaced.
            given = extraction.request_options(engine)
            result = _generate(
                engine, extraction, content, given, is_streaming=True, is_quiet=is_quiet
            )
        else:
            result = _generate_again(engine, extraction, content, is_quiet=is_quiet)
        try:
            text = answers.json_text(result)
        except ValueError as error:
            raise unwritten(error, answers.answer_text(result)) from error
        if output is not None:
            output.begin(0)
            output.write(text)
        else:
            with writing_to_standard_output():
                print("" if is_streaming else text, flush=True)
    if not is_quiet:
        to_stderr(_summary(result.usage))
    cut = answers.details.cut_short(result)
    if cut is not None and is_limit(cut):
        place = cut.pointer or "the whole answer"
        to_stderr(f"proxy-engine: {cut.reason} cut the answer short at {place}")


def _generate_again(
    engine: InferenceEngine, extraction: Extraction, content: RecordContent, *, is_quiet: bool
) -> GenerationResult[Any]:
    """Return the answer to a record; an answer that is cut short is generated again."""
    options = extraction.request_options(engine)
    result = _generate(engine, extraction, content, options, is_streaming=False, is_quiet=is_quiet)
    more = extraction.more_tokens(engine, result.cut_short, result.usage)
    if not more:
        return result
    options |= more
    again = _generate(engine, extraction, content, options, is_streaming=False, is_quiet=is_quiet)
    return replace(again, usage=total_usage([again.usage, result.usage]))


def _generate(
    engine: InferenceEngine,
    extraction: Extraction,
    content: RecordContent,
    options: Mapping[str, Any],
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> GenerationResult[Any]:
    # Deferred: `--help` need not wait for the engine's modules.
    from ..results.events import Finished, PromptProgress, TextDelta  # noqa: PLC0415

    answers = extraction.answers
    sources = {"sources": extraction.sources(content)} if answers.quotes_input else {}
    events = engine.stream(
        extraction.prompt(None, content),
        response_format=answers.response_format,
        **cast("OptionOverrides", {**options, **sources}),
    )
    written = 0
    # Some terminals do not know their height; tqdm would then show nothing.
    progress = tqdm(
        bar_format="{desc} {elapsed}",
        desc="waiting",
        leave=False,
        disable=is_quiet or not is_terminal(),
        nrows=20,
        miniters=0,
    )
    with contextlib.closing(events), progress:
        for event in events:
            if isinstance(event, Finished):
                result: GenerationResult[Any] = event.result
                return result
            if isinstance(event, PromptProgress):
                prefilled = f"prefill: {event.processed} of {event.total} tokens"
                progress.set_description_str(prefilled)
            if not isinstance(event, TextDelta):
                continue
            written += len(event.text)
            if is_streaming:
                progress.close()
                with writing_to_standard_output():
                    print(event.text, end="", flush=True)
            else:
                progress.set_description_str(f"generating: {written} characters", refresh=False)
                progress.update(0)
    raise AssertionError("a stream ends with Finished or an error")


def _summary(usage: Usage) -> str:
    accepted = f"{usage.accepted_tokens} of {usage.drafted_tokens} draft tokens accepted"
    return (
        f"prompt: {usage.prompt_tokens} tokens in {usage.prompt_seconds:.1f} s "
        f"({usage.prompt_tokens_per_second:.1f} tokens/s), completion: "
        f"{usage.completion_tokens} tokens in {usage.completion_seconds:.1f} s "
        f"({usage.completion_tokens_per_second:.1f} tokens/s)"
        + (f", {accepted}" if usage.drafted_tokens else "")
    )


_NO_COUNTS = ExtractionProgress(0, 0, None)

AddToPage = Callable[[Outcome], None]
"""Writes the part of the page for an outcome."""


@contextlib.contextmanager
def opened_page(
    path: str | None, extraction: Extraction, *, is_replaced: bool
) -> Iterator[AddToPage | None]:
    """Open the page; ``None`` without a path. A run that does not finish leaves no page.

    Raises:
        CommandLineError: There is a file of the name, or it cannot be written.
        OutputFileError: The page cannot be completed.
    """
    if path is None:
        yield None
        return
    if not is_replaced and Path(path).exists():
        raise CommandLineError(f"{path!r} already exists", hint="--overwrite replaces it.")
    with written_whole(path) as temporary:
        try:
            file = open(temporary, "w", encoding="utf-8")  # noqa: SIM115 - closed below
        except (OSError, ValueError) as error:
            raise CommandLineError(f"cannot write {path!r}: {error}") from error
        page = Page()

        def add(outcome: Outcome) -> None:
            file.write(page.section(record_of(outcome, extraction.quotes(outcome))))

        with file:
            file.write(page.head())
            yield add
            file.write(page.foot())


@dataclass
class RecordsRun:
    """A run over many records; a record that fails does not end it.

    Attributes:
        plan: The run; without an output file, rows go to standard output.
        page: The page of texts and quotes.
        resume_command: The command that continues an interrupted run.
        is_quiet: Whether to show no progress and no summary.
    """

    plan: Run
    page: AddToPage | None
    resume_command: str
    is_quiet: bool
    _counts: ExtractionProgress = _NO_COUNTS
    _earlier: int = 0
    _prompt_tokens: int = 0
    _completion_tokens: int = 0
    _started: float | None = field(default=None)

    def run(self) -> int:
        """Write one output row for each record, and return the number of records that failed.

        The output file holds whole rows, each written once, however this function ends.

        Raises:
            OutputFileError: A row cannot be written.
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        run = replace(self.plan, opened_engine=self._opened_engine)
        unit, total = f"{run.inputs.unit}s", run.inputs.count
        is_bar_shown = is_terminal() and not self.is_quiet
        try:
            with (
                showing_bar(total, unit=unit, is_shown=is_bar_shown) as advance,
                contextlib.closing(run.outcomes()) as outcomes,
            ):
                for outcome in outcomes:
                    outcome = self._take(outcome)
                    advance(outcome.error is not None, outcome.is_limited)
        except BaseException as error:
            if run.output is None or self._started is None:
                raise
            rows = f"{run.output.path!r} has {self._counts.done} rows"
            if isinstance(error, KeyboardInterrupt):
                message = f"interrupted; {rows}; to continue: {self.resume_command}"
                raise KeyboardInterrupt(message) from None
            to_stderr(f"proxy-engine: {rows}; to continue: {self.resume_command}")
            raise
        if self._started is None:
            self._report_earlier("nothing left to do")
            if not self._counts.done and not self.is_quiet:
                _say(f"the input has no {unit}")
        self._report()
        return self._counts.failed

    @contextlib.contextmanager
    def _opened_engine(self) -> Iterator[Engine]:
        self._report_earlier("continuing after them")
        with self.plan.opened_engine() as engine:
            self._earlier = self._counts.done
            self._started = time.monotonic()
            yield engine

    def _report_earlier(self, rest: str) -> None:
        output = self.plan.output
        if self._counts.done and output is not None and not self.is_quiet:
            _say(f"{output.path!r} has {self._counts.done} rows; {rest}")

    def _take(self, outcome: Outcome) -> Outcome:
        """Count a record, write its row and its error, and return its outcome."""
        result, row = outcome.result, ""
        if self.plan.output is None:
            row, outcome = JsonLines(self.plan.extraction.answers).encoded(outcome)
        self._counts = self._counts.after(outcome.error is not None, outcome.is_limited)
        if self.page is not None:
            self.page(outcome)
        if self._started is None:
            return outcome
        if result is not None:
            self._prompt_tokens += result.usage.prompt_tokens
            self._completion_tokens += result.usage.completion_tokens
        if self.plan.output is None:
            with writing_to_standard_output(), tqdm.external_write_mode():
                print(row, flush=True)
        if outcome.error is not None:
            _say(f"proxy-engine: {outcome.item.label}: {outcome.error}")
        return outcome

    def _report(self) -> None:
        counts, unit = self._counts, self.plan.inputs.unit
        if self._started is not None and not self.is_quiet:
            seconds, tokens = time.monotonic() - self._started, self._completion_tokens
            to_stderr(
                f"{counts.done - self._earlier} {unit}s in {seconds:.1f} s: {self._prompt_tokens} "
                f"prompt tokens, {tokens} completion tokens ({tokens / seconds:.1f} tokens/s)"
            )
        if self._started is not None and counts.has_problems:
            to_stderr(f"proxy-engine: {problems(counts, unit)}")


def resume_command(arguments: Sequence[str], *, is_begun: bool = True) -> str:
    """Return the command that continues a run, quoted for a shell.

    Args:
        arguments: The arguments of the run, the command's name first.
        is_begun: Whether the output has rows of the run. Otherwise the command is the same.
    """
    program = [sys.argv[0]]
    if Path(program[0]).name == "__main__.py":
        program = [sys.orig_argv[0], "-m", "proxy_engine"]
    elif shutil.which(Path(program[0]).name) == program[0]:
        program = [Path(program[0]).name]
    name, *given = arguments
    if is_begun:
        end = given.index("--") if "--" in given else len(given)
        # `argparse` takes abbreviations: `--ov` and `--res` are the shortest.
        options = [option for option in given[:end] if not option.startswith("--ov")]
        is_resumed = any(option.startswith("--res") for option in options)
        given = [*([] if is_resumed else ["--resume"]), *options, *given[end:]]
    return shlex.join([*program, name, *given])


def problems(counts: ExtractionProgress, unit: str) -> str:
    """Return the last line of a run in which records failed or answers were cut short."""
    found = f"{counts.failed:,} of {counts.done:,} {unit}s failed"
    if counts.cut_short:
        found += f", {counts.cut_short:,} cut short; "
        found += "raise --max-tokens, or bound lists and texts in the schema"
    return found


def _say(message: str) -> None:
    """Write a line above the bar."""
    with tqdm.external_write_mode(sys.stderr):
        to_stderr(message)
