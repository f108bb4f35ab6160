"""``transcribe``: recordings in, transcripts or subtitles out."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tqdm import tqdm

from state_machines import (
    ChoiceStateMachine,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    RegexStateMachine,
    StateMachine,
)
from state_machines.errors import GrammarError, PatternError, ProxyError, SchemaError

from ..errors import EngineClosedError
from ..extraction.json_values import encode
from ..extraction.output_file import OutputFile, open_output
from ..extraction.paths import STANDARD_INPUT, opened_file
from ..extraction.progress import is_terminal
from ..extraction.rows import failure
from ..runtime import process_runtime
from ..runtime.process_runtime import to_stderr
from .flags import (
    CommandLineError,
    Parser,
    add_load_flags,
    given_load_arguments,
    writing_to_standard_output,
)
from .schema_argument import read_schema

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from ..engine.inference_engine import InferenceEngine
    from ..transcription import TranscriptionOverrides
    from ..transcription.results import Transcript, TranscriptSegment, TranscriptWord

DEFAULT_MODEL = "mlx-community/whisper-large-v3-turbo-asr-fp16"
# Recordings of this computer's user. The limits of a server's clients are lower.
_MAX_BYTES, _MAX_SECONDS = 4 << 30, 24 * 3600
_DESCRIPTION = """\
Writes the transcript of a recording to standard output; progress is written to standard error. With
several recordings, each line of the output has the name of a file and its transcript; with --json,
each line is an object. A recording that fails is reported on standard error, and the exit status is
1. Files are WAV, FLAC or MP3; with ffmpeg also Ogg, M4A, WebM and others. With --pattern, --choice,
--grammar or --schema the transcript matches it, and the recording has at most 30 seconds."""


def add_parser(commands: _SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "transcribe", help="turn speech into text or subtitles", description=_DESCRIPTION
    )
    parser.add_argument(
        "--model",
        metavar="M",
        default=DEFAULT_MODEL,
        help="a speech model: a directory, a Hugging Face repo id, or whisper-tiny.en, a small "
        "model of English in the Python package index (default: %(default)s)",
    )
    add_load_flags(parser, "revision")
    parser.add_argument(
        "--language", metavar="L", help="spoken language, such as de (default: detected)"
    )
    parser.add_argument("--translate", action="store_true", help="write English")
    parser.add_argument(
        "--prompt", metavar="TEXT", help="text that could precede the transcript: names, style"
    )
    forms = parser.add_mutually_exclusive_group()
    for form, about in (
        ("srt", "write SubRip subtitles"),
        ("vtt", "write WebVTT subtitles"),
        ("json", "write an object with the text, its segments and their times, one a line"),
    ):
        forms.add_argument(
            f"--{form}", dest="form", action="store_const", const=form, default="text", help=about
        )
    parser.add_argument("--words", action="store_true", help="add the times of words to --json")
    constraints = parser.add_mutually_exclusive_group()
    constraints.add_argument("--pattern", metavar="RE", help="an ECMA-262 pattern")
    constraints.add_argument(
        "--choice", action="append", metavar="TEXT", help="one of the possible texts; repeatable"
    )
    constraints.add_argument(
        "--grammar", metavar="FILE", help="a context-free grammar, in GBNF or Lark"
    )
    constraints.add_argument("--schema", metavar="FILE", help="a JSON Schema")
    parser.add_argument(
        "--lead-in",
        metavar="RE",
        help="words that may precede the constrained text, as a pattern, and are left out of it",
    )
    parser.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing --output")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "recordings", nargs="+", metavar="FILE", help="recordings; - for standard input"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    response_format = _response_format(options)
    _check_combination(options, is_constrained=response_format is not None)
    overrides = _overrides(options)
    with (
        _recordings(options) as recordings,
        _opened_output(options) as output,
        _engine(options) as engine,
    ):
        failed = transcribe_recordings(
            engine,
            recordings,
            Form(options.form, has_names=len(recordings) > 1, has_words=options.words),
            output,
            response_format=response_format,
            overrides=overrides,
            is_quiet=options.quiet,
        )
    return 1 if failed else 0


def _check_combination(options: argparse.Namespace, *, is_constrained: bool) -> None:
    """Raise ``CommandLineError`` for options that have no effect together."""
    has_times = options.form in ("srt", "vtt")
    if has_times and len(options.recordings) > 1:
        raise CommandLineError(f"--{options.form} requires a single recording")
    if has_times and is_constrained:
        raise CommandLineError(
            f"--{options.form} requires a transcript without constraint, which has times"
        )
    needs = [
        ("--words", options.words, "--json", options.form == "json"),
        ("--words", options.words, "a transcript without constraint", not is_constrained),
        ("--overwrite", options.overwrite, "--output", options.output is not None),
        ("--lead-in", options.lead_in is not None, "a constraint", is_constrained),
    ]
    for name, is_given, needed, has_needed in needs:
        if is_given and not has_needed:
            raise CommandLineError(f"{name} requires {needed}")


def _response_format(options: argparse.Namespace) -> Any:
    """Return the constraint, which is checked before the model is loaded."""
    for name, compile_constraint in _CONSTRAINTS.items():
        given = getattr(options, name)
        if given is not None:
            try:
                return compile_constraint(given)
            except (SchemaError, PatternError, GrammarError, ValueError) as error:
                raise CommandLineError(f"--{name}: {error}") from error
    return None


def _read_grammar(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandLineError(f"cannot read the grammar {path!r}: {error.strerror}") from error


_CONSTRAINTS: dict[str, Callable[[Any], StateMachine]] = {
    "pattern": RegexStateMachine,
    "choice": ChoiceStateMachine,
    "grammar": lambda path: GrammarStateMachine.from_text(_read_grammar(path)),
    "schema": lambda path: JsonSchemaStateMachine(
        read_schema(path), whitespace="spaced", additional_properties="closed"
    ),
}


def _overrides(options: argparse.Namespace) -> TranscriptionOverrides:
    # Deferred: `--help` need not wait for it.
    from ..transcription import TranscriptionOptions, TranscriptionOverrides  # noqa: PLC0415

    overrides = TranscriptionOverrides(
        task="translate" if options.translate else "transcribe",
        timestamps="word" if options.words else "segment",
    )
    if options.language is not None:
        overrides["language"] = options.language
    if options.prompt is not None:
        overrides["prompt"] = options.prompt
    if options.lead_in is not None:
        overrides["lead_in"] = options.lead_in
    # The engine, which loads the model first, checks it again.
    TranscriptionOptions(**overrides)
    return overrides


@contextlib.contextmanager
def _recordings(options: argparse.Namespace) -> Iterator[list[Recording]]:
    paths = options.recordings
    if paths == [STANDARD_INPUT]:
        with opened_file(STANDARD_INPUT) as source:
            yield [Recording(STANDARD_INPUT, source.read())]
        return
    for path in paths:
        if path == STANDARD_INPUT:
            raise CommandLineError("standard input cannot be one of several inputs")
        # Raises if it is missing, a directory, or cannot be read.
        with opened_file(path):
            pass
    yield [Recording(path, Path(path)) for path in paths]


@contextlib.contextmanager
def _opened_output(options: argparse.Namespace) -> Iterator[OutputFile | None]:
    if options.output is None:
        yield None
        return
    inputs = [path for path in options.recordings if path != STANDARD_INPUT]
    with open_output(options.output, inputs=inputs, is_replaced=options.overwrite) as output:
        yield output


def _engine(options: argparse.Namespace) -> InferenceEngine:
    # Deferred: this imports MLX, which a wrong command line need not wait for.
    from ..engine.inference_engine import InferenceEngine  # noqa: PLC0415
    from ..media import MediaOptions  # noqa: PLC0415

    process_runtime.take_over()
    engine = InferenceEngine(
        options.model,
        on_progress=None if options.quiet else to_stderr,
        media=MediaOptions(max_audio_bytes=_MAX_BYTES, max_audio_seconds=_MAX_SECONDS),
        **given_load_arguments(options),
    )
    process_runtime.freeze()
    return engine


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
