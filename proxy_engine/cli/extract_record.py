"""Extraction from one record: the stream and the result."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

from ..extraction.inputs import Content
from ..extraction.outcomes import Extraction
from ..extraction.output_file import OutputFile
from ..runtime.progress import to_stderr
from .output import writing_to_standard_output
from .progress import text_progress

if TYPE_CHECKING:
    from ..engine.inference_engine import InferenceEngine
    from ..options.overrides import OptionOverrides
    from ..results.generation import GenerationResult
    from ..results.parts import Usage


def extract_record(
    engine: InferenceEngine,
    extraction: Extraction,
    content: Content,
    output: OutputFile | None,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> None:
    """Extract from one record.

    Args:
        engine: The engine.
        extraction: The format of the answer, the instruction and options.
        content: The text and images.
        output: Where to write the result; ``None`` for standard output.
        is_streaming: Whether to write tokens to standard output as they are generated.
        is_quiet: Whether to show no progress and no summary.

    Raises:
        OutputFileError: The result cannot be written.
        ProxyError: As ``InferenceEngine.stream`` raises it.
    """
    result = _generate(engine, extraction, content, is_streaming=is_streaming, is_quiet=is_quiet)
    text = extraction.answers.json_text(result)
    if output is not None:
        output.begin(0)
        output.write(text)
    else:
        with writing_to_standard_output():
            print("" if is_streaming else text, flush=True)
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

    answers = extraction.answers
    sources = {"sources": extraction.sources(content)} if answers.quotes_input else {}
    events = engine.stream(
        extraction.prompt(None, content),
        response_format=answers.response_format,
        **cast("OptionOverrides", {**extraction.options, **sources}),
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
