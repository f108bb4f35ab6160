"""Extraction from one record: the prompt, the stream, and the result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..extras import is_installed
from ..progress import to_stderr
from .errors import CommandLineError
from .output import OutputFile, writing_to_standard_output
from .progress import text_progress
from .records import Record

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..engine import InferenceEngine
    from ..option_overrides import OptionOverrides
    from ..results import GenerationResult, Usage


@dataclass(frozen=True, slots=True)
class Extraction:
    """The schema, the instruction to the model, and the options of every request.

    Attributes:
        schema: The JSON Schema of the results.
        instruction: The instruction; ``None`` for one that names the schema's properties.
        overrides: The options.
    """

    schema: Any
    instruction: str | None
    overrides: OptionOverrides

    def prompt(self, record: Record) -> Prompt:
        """Return the prompt for a record: its images, the instruction and its text."""
        # Deferred: `import proxy_engine.__main__` imports no pydantic.
        from ..conversation.content import TextContent  # noqa: PLC0415
        from ..conversation.interaction import Interaction, Role  # noqa: PLC0415

        text = self.instruction or _default_instruction(self.schema, record)
        if record.text.strip():
            text = f"{text}\n\n{record.text.strip()}"
        if not record.images:
            return text
        return Interaction(Role.USER, [*record.images, TextContent(text)])


def _default_instruction(schema: Any, record: Record) -> str:
    images = ("image" if len(record.images) == 1 else "images") if record.images else ""
    source = " and ".join(filter(None, ["text" if record.text.strip() else "", images]))
    these = "these" if source == "images" else "this"
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return f"Answer with JSON about {these} {source}:"
    return f"Extract {', '.join(properties)} from {these} {source} as JSON:"


def check_reads(engine: InferenceEngine, record: Record) -> None:
    """Raise ``CommandLineError`` for a record with images if the model reads none."""
    if not record.images or "image" in engine.input_modalities:
        return
    hint = "Name a multimodal model with --model."
    if not is_installed("vision"):
        hint = f"{hint[:-1]}, and install 'proxy-engine[vision]'."
    raise CommandLineError(f"the model {engine.model_name!r} does not read images", hint=hint)


def extract_record(
    engine: InferenceEngine,
    extraction: Extraction,
    record: Record,
    output: OutputFile | None,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> None:
    """Extract from one record.

    Args:
        engine: The engine.
        extraction: The schema, instruction and options.
        record: The text and images.
        output: Where to write the result; ``None`` for standard output.
        is_streaming: Whether to write tokens to standard output as they are generated.
        is_quiet: Whether to show no progress and no summary.

    Raises:
        CommandLineError: The record has images, and the model does not read images.
        OutputFileError: The result cannot be written.
        ProxyError: As ``InferenceEngine.stream`` raises it.
    """
    check_reads(engine, record)
    result = _generate(engine, extraction, record, is_streaming=is_streaming, is_quiet=is_quiet)
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
    record: Record,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> GenerationResult[Any]:
    # Deferred: `--help` need not wait for the engine's modules.
    from ..events import Finished, PromptProgress, TextDelta  # noqa: PLC0415

    events = engine.stream(
        extraction.prompt(record), response_format=extraction.schema, **extraction.overrides
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
