"""``extract``: text in, JSON that matches a schema out."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from state_machines import JsonSchemaStateMachine
from state_machines.errors import PatternError, ProxyError, SchemaError

from ..errors import InvalidOptionError, OutputValidationError
from ..progress import silent, to_stderr
from .errors import CommandLineError
from .progress_line import ProgressLine

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from ..engine import InferenceEngine
    from ..options import OptionOverrides
    from ..results import GenerationResult, Usage

__all__ = ["add_parser"]

_DESCRIPTION = """\
Reads a text, and writes JSON that matches the schema to standard output; progress goes to
standard error. With --jsonl, every line of the input is a JSON string, or an object with a
"text", and every line of the output the result for it, in the same order; the line for an input
that failed is {"error": {"line": number, ...}}, and the exit status is then 1."""


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "extract", help="turn text into JSON that matches a schema", description=_DESCRIPTION
    )
    parser.add_argument("--schema", required=True, metavar="FILE", help="the JSON Schema")
    parser.add_argument(
        "--model", metavar="M", help="a directory or a hub id (default: the embedded model)"
    )
    parser.add_argument(
        "--instruction",
        metavar="TEXT",
        help="what the model is told to do with the text (default: extract the schema's keys)",
    )
    parser.add_argument("--jsonl", action="store_true", help="many inputs, one a line")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="give up after N tokens")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is greedy (default)")
    parser.add_argument("--seed", type=int, metavar="S", help="for a temperature above 0")
    parser.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="write tokens as they come, rather than the whole once it is valid "
        "(default: where standard output is a terminal)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument(
        "input", nargs="?", default="-", metavar="FILE", help="the text; - is standard input"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    schema = _read_schema(options.schema)
    try:
        JsonSchemaStateMachine(schema)
    except (SchemaError, PatternError) as error:
        raise CommandLineError(f"the schema {options.schema!r}: {error}") from error
    with _open_input(options.input) as source:
        if source.isatty() and not options.quiet:
            to_stderr("Reading from the terminal; end with Ctrl-D.")
        text = None if options.jsonl else _read_text(source, options.input)
        # Deferred: this loads mlx, which a wrong command line need not wait for.
        from ..engine import InferenceEngine  # noqa: PLC0415

        with InferenceEngine(
            options.model, report=silent if options.quiet else to_stderr
        ) as engine:
            extraction = _Extraction(engine, schema, options)
            if text is None:
                return extraction.many(source)
            return extraction.one(text)


class _Extraction:
    """The engine and the options of one run of the command."""

    def __init__(self, engine: InferenceEngine, schema: Any, options: argparse.Namespace) -> None:
        self._engine = engine
        self._schema = schema
        self._instruction = options.instruction or _default_instruction(schema)
        self._overrides: OptionOverrides = {}
        if options.max_tokens is not None:
            self._overrides["max_tokens"] = options.max_tokens
        if options.temperature is not None:
            self._overrides["temperature"] = options.temperature
        if options.seed is not None:
            self._overrides["seed"] = options.seed
        self._is_quiet = options.quiet
        self._is_streaming = sys.stdout.isatty() if options.stream is None else options.stream

    def one(self, text: str) -> int:
        """One text to one JSON value."""
        try:
            result = self._generate(text, is_streaming=self._is_streaming)
        except InvalidOptionError as error:
            raise CommandLineError(str(error)) from error
        print("" if self._is_streaming else result.text)
        self._summarise(result.usage)
        return 0

    def many(self, lines: Iterable[bytes]) -> int:
        """One JSON value a line; a line that fails does not keep others from being done."""
        failed = done = 0
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                result = self._generate(_text_of(line), is_streaming=False)
            except InvalidOptionError as error:
                # Wrong for every line alike.
                raise CommandLineError(str(error)) from error
            except (ProxyError, ValueError) as error:
                failed += 1
                print(json.dumps(_failure(number, error), ensure_ascii=False), flush=True)
                print(f"proxy-engine: line {number}: {error}", file=sys.stderr)
            else:
                done += 1
                # Between tokens of JSON a line break is worth a space; within them there is none.
                print(result.text.replace("\n", " "), flush=True)
                self._summarise(result.usage, f"line {number}: ")
        if failed:
            print(f"proxy-engine: {failed} of {failed + done} lines failed", file=sys.stderr)
        return 1 if failed else 0

    def _generate(self, text: str, *, is_streaming: bool) -> GenerationResult[Any]:
        from ..events import Finished, PromptProgress, TextDelta  # noqa: PLC0415

        if not text.strip():
            raise ValueError("the text is empty")
        line = ProgressLine(None if self._is_quiet else sys.stderr)
        events = self._engine.stream(
            f"{self._instruction}\n\n{text.strip()}",
            response_format=self._schema,
            **self._overrides,
        )
        written = 0
        with contextlib.ExitStack() as stack:
            stack.callback(line.clear)
            for event in events:
                if isinstance(event, Finished):
                    result: GenerationResult[Any] = event.result
                    return result
                if isinstance(event, PromptProgress):
                    line.show(f"reading the prompt: {event.processed} of {event.total} tokens")
                if not isinstance(event, TextDelta):
                    continue
                written += len(event.text)
                if is_streaming:
                    line.clear()
                    print(event.text, end="", flush=True)
                else:
                    line.show(f"writing: {written} characters")
        raise AssertionError("a stream ends with Finished or an error")

    def _summarise(self, usage: Usage, prefix: str = "") -> None:
        if not self._is_quiet:
            to_stderr(
                f"{prefix}read {usage.prompt_tokens} tokens in {usage.prompt_seconds:.1f} s "
                f"({usage.prompt_tokens_per_second:.1f} tokens a second), wrote "
                f"{usage.completion_tokens} in {usage.completion_seconds:.1f} s "
                f"({usage.completion_tokens_per_second:.1f} tokens a second)"
            )


def _default_instruction(schema: Any) -> str:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return "Answer with JSON about this text:"
    return f"Extract {', '.join(properties)} from this text as JSON:"


def _read_schema(path: str) -> Any:
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandLineError(f"cannot read the schema {path!r}: {error.strerror}") from error
    except ValueError as error:
        raise CommandLineError(f"the schema {path!r} is not JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise CommandLineError(f"the schema {path!r} is neither an object nor a boolean")
    return schema


@contextlib.contextmanager
def _open_input(path: str) -> Iterator[IO[bytes]]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        source = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CommandLineError(f"cannot read {path!r}: {error.strerror}") from error
    with source:
        yield source


def _read_text(source: IO[bytes], path: str) -> str:
    try:
        text = source.read().decode("utf-8")
    except OSError as error:
        raise CommandLineError(f"cannot read {path!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandLineError(f"{path!r} is not UTF-8: {error}") from error
    if not text.strip():
        raise CommandLineError(f"{path!r} has no text in it")
    return text


def _text_of(line: bytes) -> str:
    """The text that a line of JSON Lines holds. Raises ``ValueError``."""
    match json.loads(line.decode("utf-8")):
        case str(text) | {"text": str(text)}:
            return text
    raise ValueError('neither a JSON string nor an object with a "text"')


def _failure(number: int, error: Exception) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "line": number,
        "type": type(error).__name__,
        "message": str(error),
    }
    if isinstance(error, OutputValidationError):
        facts["text"] = error.text
    return {"error": facts}
