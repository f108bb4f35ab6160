"""Extraction from one record: the stream and the result."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import PromptError
from ..extraction.answer_format import AnswerFormat
from ..extraction.chunks import Chunks
from ..extraction.inputs import Content
from ..extraction.outcomes import Outcome, check_reads, with_input
from ..extraction.outputs import Done, Output
from ..extraction.prompts import Prompts
from ..runtime.progress import to_stderr
from .errors import CommandLineError
from .input_arguments import STANDARD_INPUT
from .input_files import InputFile
from .output import writing_to_standard_output
from .progress import text_progress

if TYPE_CHECKING:
    from ..engine.inference_engine import InferenceEngine
    from ..options.overrides import OptionOverrides
    from ..results.generation import GenerationResult
    from ..results.parts import Usage


@dataclass(frozen=True, slots=True)
class Extraction:
    """What all requests share.

    Attributes:
        answers: The format of the answers.
        prompts: Writes the prompts.
        overrides: The options.
        chunks: How long texts are divided; ``None``: not at all.
    """

    answers: AnswerFormat
    prompts: Prompts
    overrides: OptionOverrides
    chunks: Chunks | None = None


def check_images(engine: InferenceEngine, content: Content) -> None:
    """Raise ``CommandLineError`` for content with images if the model reads none."""
    try:
        check_reads(engine, content, hint="Name a multimodal model with --model.")
    except PromptError as error:
        raise CommandLineError(error.what, hint=error.hint) from error


def extract_record(
    engine: InferenceEngine,
    extraction: Extraction,
    content: Content,
    output: Output | None,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> None:
    """Extract from one record.

    Args:
        engine: The engine.
        extraction: The format of the answer, the prompts and options.
        content: The text and images.
        output: Where to write the result; ``None`` for standard output.
        is_streaming: Whether to write tokens to standard output as they are generated.
        is_quiet: Whether to show no progress and no summary.

    Raises:
        CommandLineError: The record has images, and the model does not read images.
        OutputFileError: The result cannot be written.
        ProxyError: As ``InferenceEngine.stream`` raises it.
    """
    check_images(engine, content)
    result = _generate(engine, extraction, content, is_streaming=is_streaming, is_quiet=is_quiet)
    if output is not None:
        output.begin(Done())
        output.write(Outcome(InputFile(STANDARD_INPUT), result))
        output.finish()
    else:
        text = "" if is_streaming else extraction.answers.json_text(result)
        with writing_to_standard_output():
            print(text, flush=True)
    if not is_quiet:
        to_stderr(_summary(result.usage))


def _generate(
    engine: InferenceEngine,
    extraction: Extraction,
    content: Content,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> GenerationResult[Any]:
    # Deferred: `--help` need not wait for the engine's modules.
    from ..results.events import Finished, PromptProgress, TextDelta  # noqa: PLC0415

    answers, overrides = extraction.answers, extraction.overrides
    if answers.quotes_input:
        overrides = {**overrides, "sources": with_input(overrides, content.text)}
    events = engine.stream(
        extraction.prompts.write(None, content),
        response_format=answers.response_format,
        **overrides,
    )
    written = 0
    with contextlib.closing(events), text_progress(is_quiet=is_quiet) as progress:
        task = progress.add_task("waiting", total=None)
        for event in events:
            if isinstance(event, Finished):
                result: GenerationResult[Any] = event.result
                return result
            if isinstance(event, PromptProgress):
                prefilled = f"prefill: {event.processed} of {event.total} tokens"
                progress.update(task, description=prefilled)
            if not isinstance(event, TextDelta):
                continue
            written += len(event.text)
            if is_streaming:
                progress.stop()
                with writing_to_standard_output():
                    print(event.text, end="", flush=True)
            else:
                progress.update(task, description=f"generating: {written} characters")
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
