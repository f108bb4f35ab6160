"""Extraction from one text: the prompt, the stream, and the result."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..progress import to_stderr
from .output import OutputFile, writing_to_standard_output
from .progress import text_progress

if TYPE_CHECKING:
    from ..engine import InferenceEngine
    from ..option_overrides import OptionOverrides
    from ..results import GenerationResult, Usage


@dataclass(frozen=True, slots=True)
class Extraction:
    """The schema, the instruction to the model, and the options of every request."""

    schema: Any
    instruction: str
    overrides: OptionOverrides

    def prompt(self, text: str) -> str:
        """Return the prompt for a text. Raises ``ValueError`` for an empty one."""
        if not text.strip():
            raise ValueError("the text is empty")
        return f"{self.instruction}\n\n{text.strip()}"


def default_instruction(schema: Any) -> str:
    """Return the instruction that names the schema's properties."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return "Answer with JSON about this text:"
    return f"Extract {', '.join(properties)} from this text as JSON:"


def text_of(line: bytes) -> str:
    """Return the text in a line of JSON Lines. Raises ``ValueError``."""
    try:
        value = json.loads(line.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    match value:
        case str(text) | {"text": str(text)}:
            # Raises for a lone surrogate, which JSON can escape and UTF-8 cannot encode.
            text.encode("utf-8")
            return text
    raise ValueError('neither a JSON string nor an object with a "text"')


def extract_text(
    engine: InferenceEngine,
    extraction: Extraction,
    text: str,
    output: OutputFile | None,
    *,
    is_streaming: bool,
    is_quiet: bool,
) -> None:
    """Extract from one text.

    Args:
        engine: The engine.
        extraction: The schema, instruction and options.
        text: The text.
        output: Where to write the result; ``None`` for standard output.
        is_streaming: Whether to write tokens to standard output as they are generated.
        is_quiet: Whether to show no progress and no summary.

    Raises:
        OutputFileError: The result cannot be written.
        ProxyError: As ``InferenceEngine.stream`` raises it.
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
    # Deferred: `--help` need not wait for the engine's modules.
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
