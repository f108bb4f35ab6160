"""Measure tool calls on the Berkeley Function Calling Leaderboard, beside mlx-lm and llguidance.

See ``README.md`` beside this file. The cases are the data files of the package ``bfcl-eval``, which
is downloaded and read as an archive; nothing of it is imported. Answers are appended to a file, and
those in it are not generated again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any
from zipfile import ZipFile

from arguments import environment, positive
from bfcl_answers import CATEGORIES, Answer, figures, read_answers, rows
from bfcl_matching import are_right_calls, has_right_names
from jsonschema import Draft202012Validator
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import load_prompt_cache, trim_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from records import write_record
from tables import aligned

from proxy_engine import BatchRequest, InferenceEngine
from proxy_engine.models.embedded import EMBEDDED_MODEL
from proxy_engine.models.loading import load_model
from proxy_engine.tools import Tool, parse_tool_calls
from state_machines import ProxyError

__all__ = ["ARMS", "Case", "main", "read_cases", "tool_of"]

_PACKAGE = "bfcl-eval==2026.3.23"
_SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
_DATA = "bfcl_eval/data/"

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
_MAX_TOKENS = 256

ARMS: Mapping[str, Mapping[str, Any] | None] = {
    "ours-auto": {"tool_choice": "auto"},
    "ours-native-calls": {"tool_choice": "auto", "calls_in_text": "off"},
    "ours-line-calls": {"tool_choice": "auto", "calls_in_text": "lines"},
    "ours-required": {"tool_choice": "required"},
    "ours-freeform-first": {"tool_choice": "required", "freeform_first": {"max_tokens": 64}},
    "ours-retries": {"tool_choice": "required", "max_retries": 2},
    "mlx-lm-auto": None,
    "llguidance-auto": None,
    "llguidance-required": None,
}
"""Options of this engine by the name of the arm; ``None`` for the arms of mlx-lm.

With retries, the tools have a validator: see :func:`unknown_numbers`.
"""


@dataclass(frozen=True)
class Case:
    """A case of a category.

    Attributes:
        name: Its identifier.
        category: A name of :data:`CATEGORIES`.
        messages: The conversation.
        functions: The functions, with the leaderboard's names of types.
        answers: The accepted calls; none where no function helps.
    """

    name: str
    category: str
    messages: list[dict[str, str]]
    functions: list[dict[str, Any]]
    answers: list[dict[str, Any]]


def read_cases(wheel: Path, category: str) -> list[Case]:
    """Read the cases of a category from the package's archive.

    Raises:
        ValueError: The archive is another version's.
    """
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != _SHA256:
        raise ValueError(f"{wheel} is not the archive of {_PACKAGE} (sha256 {_SHA256})")
    with ZipFile(wheel) as archive:

        def lines(path: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in archive.read(_DATA + path).splitlines()]

        file = f"BFCL_v4_{category}.json"
        answers = {}
        if "irrelevance" not in category:
            answers = {
                each["id"]: each["ground_truth"] for each in lines(f"possible_answer/{file}")
            }
        return [
            Case(
                each["id"],
                category,
                each["question"][0],
                each["function"],
                answers.get(each["id"], []),
            )
            for each in lines(file)
        ]


def tool_of(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function as a tool, whose parameters are a JSON Schema."""
    parameters = _schema_of(function["parameters"])
    named = {"name": function["name"], "description": function["description"]}
    return {"type": "function", "function": {**named, "parameters": parameters}}


def _schema_of(parameter: Mapping[str, Any]) -> dict[str, Any]:
    schema = {
        key: value
        for key, value in parameter.items()
        if key in ("type", "description", "enum", "required", "default")
    }
    schema["type"] = _TYPES.get(parameter["type"], parameter["type"])
    if "items" in parameter:
        schema["items"] = _schema_of(parameter["items"])
    if "properties" in parameter:
        members = parameter["properties"].items()
        schema["properties"] = {name: _schema_of(member) for name, member in members}
    return schema


class _Runner:
    """A model with all arms. All of them have the same tools and conversations.

    The engine processes each prompt once, and saves its cache in mlx-lm's format for the peers.
    """

    def __init__(self, model: str | None, batch_size: int, folder: Path) -> None:
        self._folder = folder
        self._loaded = load_model(model)
        self._engine = InferenceEngine(
            self._loaded.model, self._loaded.tokenizer, on_progress=None, batch_size=batch_size
        )

    def answers(self, arm: str, cases: Sequence[Case], model: str) -> list[Answer]:
        """Return the scored answers of an arm."""
        for case in cases:
            self._process_prompt(case)
        started = perf_counter()
        options = ARMS[arm]
        written = self._peer(cases, arm) if options is None else self._ours(cases, options)
        seconds = round((perf_counter() - started) / len(cases), 2)
        return [
            Answer(model, arm, case.name, case.category, seconds=seconds, **_scored(case, *outcome))
            for case, outcome in zip(cases, written, strict=True)
        ]

    def _process_prompt(self, case: Case) -> None:
        file = self._cache_file(case)
        if not file.exists():
            self._engine.save_prompt_cache(file, case.messages, tools=_offered(case))

    def _cache_file(self, case: Case) -> Path:
        return self._folder / f"{case.name}.safetensors"

    def forget(self, cases: Sequence[Case]) -> None:
        """Delete the caches of prompts."""
        for case in cases:
            self._cache_file(case).unlink(missing_ok=True)

    def _ours(self, cases: Sequence[Case], options: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        choice = {key: value for key, value in options.items() if key == "tool_choice"}
        others = {key: value for key, value in options.items() if key != "tool_choice"}
        settings: Any = {
            "temperature": 0.0,
            "max_tokens": _MAX_TOKENS,
            "parallel_tool_calls": True,
            **others,
        }
        requests = [
            BatchRequest(
                case.messages,
                tools=_checked(case) if "max_retries" in others else _offered(case),
                **choice,
                options=settings,
            )
            for case in cases
        ]
        written: list[tuple[Any, ...]] = []
        for result in self._engine.generate_batch(requests, return_exceptions=True):
            if isinstance(result, Exception):
                if not isinstance(result, ProxyError):
                    raise result
                written.append(([], "", 0, str(result)))
                continue
            calls = [
                {"name": each.name, "arguments": dict(each.arguments)} for each in result.tool_calls
            ]
            written.append((calls, result.text, result.usage.forward_passes, ""))
        return written

    def _peer(self, cases: Sequence[Case], arm: str) -> list[tuple[Any, ...]]:
        """Return answers of mlx-lm's batch generator to the prompts of the chat template."""
        # A known checkpoint has a tokenizer of this engine, which knows mlx-lm's.
        tokenizer = getattr(self._loaded.tokenizer, "wrapper", self._loaded.tokenizer)
        tools = list(map(_offered, cases))
        prompts = [
            list(
                tokenizer.apply_chat_template(
                    case.messages, tools=offered, add_generation_prompt=True
                )
            )
            for case, offered in zip(cases, tools, strict=True)
        ]
        generator = BatchGenerator(
            self._loaded.model, stop_tokens=[[end] for end in tokenizer.eos_token_ids]
        )
        processors = [_masks(tokenizer, offered, arm) for offered in tools]
        caches = []
        for case, prompt in zip(cases, prompts, strict=True):
            cache = load_prompt_cache(str(self._cache_file(case)))
            trim_prompt_cache(cache, cache[0].offset - len(prompt) + 1)
            caches.append(cache)
        ids = generator.insert(
            [prompt[-1:] for prompt in prompts],
            [_MAX_TOKENS] * len(cases),
            caches=caches,
            all_tokens=[prompt[:-1] for prompt in prompts],
            logits_processors=processors,
        )
        tokens: dict[int, list[int]] = {each: [] for each in ids}
        while responses := generator.next_generated():
            for response in responses:
                if response.finish_reason != "stop":
                    tokens[response.uid].append(response.token)
        generator.close()
        return [
            (*_parsed(tokenizer.decode(tokens[each])), len(tokens[each]) + 1, "") for each in ids
        ]

    def close(self) -> None:
        """Free all resources."""
        self._engine.close()


def _masks(tokenizer: TokenizerWrapper, tools: Sequence[Mapping[str, Any]], arm: str) -> list[Any]:
    if not arm.startswith("llguidance"):
        return []
    # Needed by these arms only, from the extra "bench".
    from bfcl_llguidance import CallMasks  # noqa: PLC0415

    return [CallMasks(tokenizer, tools, is_forced=arm == "llguidance-required")]


def _offered(case: Case) -> list[dict[str, Any]]:
    return [tool_of(function) for function in case.functions]


def _checked(case: Case) -> list[Tool]:
    """Return the tools with a validator that knows the question."""
    question = " ".join(message["content"] for message in case.messages)

    def read(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        unknown = unknown_numbers(arguments, question)
        if unknown:
            raise ValueError(f"the question does not contain {', '.join(unknown)}")
        return arguments

    functions = (offered["function"] for offered in _offered(case))
    return [Tool(**function, reader=read) for function in functions]


def unknown_numbers(arguments: Any, question: str) -> list[str]:
    """Return the numbers of two and more digits in arguments that a question does not contain."""
    digits = re.sub(r"(?<=\d),(?=\d{3})", "", question)
    written = re.findall(r"\d{2,}", json.dumps(arguments))
    return [number for number in dict.fromkeys(written) if number not in digits]


def _parsed(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the calls of a text in Hermes's format, and the text that is left."""
    parsed = parse_tool_calls(text, "hermes")
    calls = [{"name": each.name, "arguments": dict(each.arguments)} for each in parsed.calls]
    return calls, parsed.text


def _scored(
    case: Case, calls: list[dict[str, Any]], text: str, passes: int, error: str
) -> dict[str, Any]:
    schemas = {each["name"]: _schema_of(each["parameters"]) for each in case.functions}
    valid = not error and "<tool_call>" not in text
    for call in calls:
        schema = schemas.get(call["name"])
        valid &= schema is not None and Draft202012Validator(schema).is_valid(call["arguments"])
    # A call without a known function or with arguments of another form has no types to compare.
    return {
        "calls": calls,
        "valid": valid,
        "name": has_right_names(calls, case.answers),
        "right": are_right_calls(calls, case.functions, case.answers),
        "passes": passes,
        "text": text,
        "error": error,
    }


def _downloaded() -> Path:
    folder = Path(tempfile.gettempdir(), "bfcl-eval")
    if not list(folder.glob("*.whl")):
        command = ["pip", "download", "--quiet", "--no-deps", "--dest", str(folder), _PACKAGE]
        subprocess.run([sys.executable, "-m", *command], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    model = options.model or EMBEDDED_MODEL
    if not options.tables:
        _measure(options, model)
    answers = [each for each in read_answers(options.out).values() if each.model == model]
    if not answers:
        print("there are no answers", file=sys.stderr)
        return 1
    groups = figures(answers, list(ARMS))
    print(aligned(rows(groups), 2))
    if options.json:
        about = {"environment": environment(), "package": _PACKAGE, "model": Path(model).name}
        write_record(options.json, {**about, "groups": groups})
    return 0


def _measure(options: argparse.Namespace, model: str) -> None:
    wheel = options.wheel or _downloaded()
    done = read_answers(options.out)
    cases = {category: read_cases(wheel, category) for category in options.categories}
    end = options.first + options.cases
    with tempfile.TemporaryDirectory() as folder:
        runner = _Runner(options.model, options.batch, Path(folder))
        for start in range(options.first, end, options.batch):
            for category in options.categories:
                batch = cases[category][start : min(start + options.batch, end)]
                for arm in options.arms:
                    left = [case for case in batch if (model, arm, case.name) not in done]
                    if not left:
                        continue
                    answers = runner.answers(arm, left, model)
                    with options.out.open("a", encoding="utf-8") as file:
                        file.writelines(json.dumps(asdict(each)) + "\n" for each in answers)
                    print(f"{category} from {start}: {arm}", file=sys.stderr, flush=True)
                runner.forget(batch)
        runner.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bfcl.py", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("bfcl.jsonl"), metavar="FILE.jsonl")
    parser.add_argument("--tables", action="store_true", help="print the table, and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE.json", help="also write the figures")
    parser.add_argument("--wheel", type=Path, help=f"the archive of {_PACKAGE} (downloaded)")
    parser.add_argument(
        "--categories", nargs="+", choices=CATEGORIES, default=list(CATEGORIES), metavar="NAME"
    )
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="NAME")
    parser.add_argument("--cases", type=positive, default=100, help="of a category (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="first case (%(default)s)")
    parser.add_argument("--batch", type=positive, default=8, help="cases at once (%(default)s)")
    parser.add_argument("--model", help="a model directory (the embedded model)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
