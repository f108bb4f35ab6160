"""One text to one JSON value."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..progress import to_stderr
from .extraction import Extraction
from .output_file import OutputFile
from .progress import text_progress
from .standard_output import writing_to_standard_output

if TYPE_CHECKING:
    from ..engine import InferenceEngine
    from ..results import GenerationResult, Usage

__all__ = ["extract_text"]


def extract_text(
    engine: InferenceEngine,
    extraction: Extraction,
    text: str,
    output: OutputFile | None,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> None:
    """Write the result to ``output``, or to standard output: as it comes, if it ``is_streaming``.

    Raises what ``InferenceEngine.stream`` does, and ``OutputFileError``.
    """
    result = _generate(engine, extraction, text, is_streaming=is_streaming, is_quiet=is_quiet)
    if output is not None:
        output.begin(0)
        output.write(result.text)
    else:
        with writing_to_standard_output():
            print("" if is_streaming else result.text, flush=True)
    if not is_quiet:
        to_stderr(_summary(result.usage))


def _generate(
    engine: InferenceEngine,
    extraction: Extraction,
    text: str,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> GenerationResult[Any]:
    # Deferred, as the engine is: it is there by now.
    from ..events import Finished, PromptProgress, TextDelta  # noqa: PLC0415

    events = engine.stream(
        extraction.prompt(text), response_format=extraction.schema, **extraction.overrides
    )
    written = 0
    with contextlib.closing(events), text_progress(is_quiet=is_quiet) as progress:
        task = progress.add_task("waiting", total=None)
        for event in events:
            if isinstance(event, Finished):
                result: GenerationResult[Any] = event.result
                return result
            if isinstance(event, PromptProgress):
                progress.update(
                    task,
                    description=f"reading the prompt: {event.processed} of {event.total} tokens",
                )
            if not isinstance(event, TextDelta):
                continue
            written += len(event.text)
            if is_streaming:
                progress.stop()
                with writing_to_standard_output():
                    print(event.text, end="", flush=True)
            else:
                progress.update(task, description=f"writing: {written} characters")
    raise AssertionError("a stream ends with Finished or an error")


def _summary(usage: Usage) -> str:
    return (
        f"read {usage.prompt_tokens} tokens in {usage.prompt_seconds:.1f} s "
        f"({usage.prompt_tokens_per_second:.1f} tokens a second), wrote "
        f"{usage.completion_tokens} in {usage.completion_seconds:.1f} s "
        f"({usage.completion_tokens_per_second:.1f} tokens a second)"
    )
