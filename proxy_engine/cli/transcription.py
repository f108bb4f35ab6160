"""Transcripts of recordings in their order, in a form for standard output or a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tqdm import tqdm

from state_machines.errors import ProxyError

from ..errors import EngineClosedError
from ..extraction.json_values import encode
from ..extraction.output_file import OutputFile
from ..extraction.progress import is_terminal
from ..extraction.rows import failure
from ..runtime.process_runtime import to_stderr
from .errors import writing_to_standard_output

if TYPE_CHECKING:
    from ..engine.inference_engine import InferenceEngine
    from ..transcription.options import TranscriptionOverrides
    from ..transcription.results import Transcript, TranscriptSegment, TranscriptWord


class Recording(NamedTuple):
    """A recording and its path as the command line has it."""

    path: str
    source: Path | bytes


@dataclass(frozen=True, slots=True)
class Form:
    """The form of transcripts.

    Attributes:
        kind: The format.
        has_names: Whether each transcript has the name of its file.
        has_words: Whether objects have the times of words.
    """

    kind: Literal["text", "srt", "vtt", "json"]
    has_names: bool
    has_words: bool

    def encode(self, recording: Recording, transcript: Transcript[Any]) -> str:
        """Return a transcript, without a line break at its end."""
        match self.kind:
            case "srt":
                return transcript.to_srt().removesuffix("\n")
            case "vtt":
                return transcript.to_vtt().removesuffix("\n")
            case "json":
                return json.dumps(self._object(recording, transcript), ensure_ascii=False)
        text = transcript.text.strip()
        return f"{recording.path}: {text}" if self.has_names else text

    def _object(self, recording: Recording, transcript: Transcript[Any]) -> dict[str, Any]:
        return {
            "file": recording.path,
            "text": transcript.text.strip(),
            **({"lead_in": transcript.lead_in} if transcript.lead_in else {}),
            "language": transcript.language,
            "duration": round(transcript.duration, 3),
            "segments": [self._segment(segment) for segment in transcript.segments],
        }

    def _segment(self, segment: TranscriptSegment) -> dict[str, Any]:
        written = {**_times(segment), "text": segment.text.strip()}
        if self.has_words:
            written["words"] = [
                {**_times(word), "text": word.text.strip()} for word in segment.words
            ]
        return written


def _times(part: TranscriptSegment | TranscriptWord) -> dict[str, Any]:
    return {"start": round(part.start, 3), "end": round(part.end, 3)}


def transcribe_recordings(
    engine: InferenceEngine,
    recordings: Sequence[Recording],
    form: Form,
    output: OutputFile | None,
    *,
    response_format: Any,
    overrides: TranscriptionOverrides,
    is_quiet: bool,
) -> int:
    """Write the transcripts of recordings in their order; a failure does not end the run.

    Args:
        engine: The engine with a speech model.
        recordings: The recordings.
        form: The form of the transcripts.
        output: Where to write; ``None`` for standard output.
        response_format: The constraint of the transcripts.
        overrides: The options of the transcripts.
        is_quiet: Whether to show no progress.

    Returns:
        The number of recordings that failed.

    Raises:
        OutputFileError: A transcript cannot be written.
        ProxyError: An error that does not come from a recording, such as ``EngineClosedError``.
    """
    failed = 0
    if output is not None:
        output.begin(0)
    for recording in recordings:
        try:
            transcript = _transcribe(engine, recording, response_format, overrides, is_quiet)
        except ProxyError as error:
            if isinstance(error, EngineClosedError) or len(recordings) == 1:
                raise
            failed += 1
            to_stderr(f"proxy-engine: {recording.path!r}: {error}")
            if form.kind == "json":
                _write(encode({"error": failure({"file": recording.path}, error)}), output)
            continue
        _write(form.encode(recording, transcript), output)
    if failed:
        to_stderr(f"proxy-engine: {failed} of {len(recordings)} recordings failed")
    return failed


def _transcribe(
    engine: InferenceEngine,
    recording: Recording,
    response_format: Any,
    overrides: TranscriptionOverrides,
    is_quiet: bool,
) -> Transcript[Any]:
    bar = tqdm(
        total=1,
        bar_format="{desc} {bar:20} {n:.0f} of {total:.0f} s, {remaining} left",
        desc=recording.path,
        leave=False,
        disable=is_quiet or not is_terminal(),
        nrows=20,
    )

    def advance(done: float, total: float) -> None:
        bar.total, bar.n = total, done
        bar.refresh()

    with bar:
        transcript: Transcript[Any] = engine.transcribe(
            recording.source, response_format=response_format, on_progress=advance, **overrides
        )
    if not is_quiet:
        to_stderr(_summary(recording, transcript))
    return transcript


def _write(text: str, output: OutputFile | None) -> None:
    if output is not None:
        output.write(text)
        return
    with writing_to_standard_output():
        print(text, flush=True)


def _summary(recording: Recording, transcript: Transcript[Any]) -> str:
    usage = transcript.usage
    seconds = usage.prompt_seconds + usage.completion_seconds
    return (
        f"{recording.path}: {transcript.duration:.1f} s of audio in {seconds:.1f} s, "
        f"{usage.completion_tokens} tokens"
    )
