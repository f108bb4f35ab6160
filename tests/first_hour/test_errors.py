"""Errors of a first hour: each is the project's own, says what and where, and what to do.

No message shows how an input is checked: no names of pydantic's functions, no addresses of objects.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import (
    BatchRequest,
    CacheOptions,
    Choice,
    Fenced,
    GenerationOptions,
    InferenceEngine,
    Interaction,
    PartOptions,
    ProxyError,
    RawPrompt,
    ReasoningOptions,
    Regex,
    Tool,
)
from proxy_engine.cli.main import main


class Person(pydantic.BaseModel):
    name: str


@dataclasses.dataclass
class Point:
    x: int


class Plain:
    pass


class Nothing(Enum):
    pass


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def many(*numbers: int) -> int:
    """Sum numbers."""
    return sum(numbers)


USER = {"role": "user", "content": "x"}
NESTED: Any = {"type": "object", "properties": {"a": {"type": "strin"}}}
FORMATS: dict[str, tuple[Any, str]] = {
    "compiled pattern": (re.compile("a+"), r"Give Regex\('a\+'\)"),
    "json": ("json", "json_object"),
    "pattern as text": ("[a-z]+", r"Regex\(\.\.\.\)"),
    "schema as text": ('{"type": "object"}', "json.loads"),
    "name of a type": ("Person", "Give the type itself"),
    "instance of pydantic": (Person(name="a"), "Give the class, Person"),
    "instance of a dataclass": (Point(1), "Give the class, Point"),
    "list": (["a", "b"], r"Choice\(\[\.\.\.\]\)"),
    "tuple": (("a", "b"), r"Choice\(\[\.\.\.\]\)"),
    "set": ({"a"}, r"Choice\(\[\.\.\.\]\)"),
    "number": (5, "Give a pydantic model"),
    "bytes": (b"x", "Give a pydantic model"),
    "module": (json, "Give a pydantic model"),
    "class without a schema": (Plain, "pydantic has no schema for .*Plain.*dataclass"),
    "part without a schema": (list[Plain], "pydantic has no schema for .*Plain"),
    "undefined name": (list["Nope"], "names a type that is not defined"),  # type: ignore[name-defined]  # noqa: F821
    "enum without members": (Nothing, "no members"),
    "type of OpenAI's": ({"type": "objekt"}, "'objekt'.*json_object"),
    "type of a schema": (NESTED, "'strin' is not a type .*#/properties/a/type"),
    "type of Python": ({"type": "object", "properties": {"a": str}}, "not JSON.*pydantic model"),
    "no keyword": ({"name": "str"}, "only 'name'.*properties"),
    "json_schema without a schema": ({"type": "json_schema", "json_schema": {}}, "'schema'"),
    "contradiction": ({"type": "integer", "minimum": 5, "maximum": 3}, "no JSON value"),
    "pattern of a schema": ({"type": "string", "pattern": "("}, "#/pattern"),
    "pattern": (Regex("("), "offset 0"),
    "text in a fence": (Fenced(None), "only structured output"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_wrong_response_format(tiny_engine: InferenceEngine, name: str) -> None:
    response_format, words = FORMATS[name]
    _check(lambda: tiny_engine.generate("x", response_format), words)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "response_model": ({"response_model": Person}, "Did you mean 'response_format'"),
    "schema": ({"schema": Person}, "Did you mean 'response_format'"),
    "regex": ({"regex": "a"}, "response_format=Regex"),
    "system": ({"system": "Be brief."}, '"role": "system"'),
    "system_prompt": ({"system_prompt": "Be brief."}, '"role": "system"'),
    "stream": ({"stream": True}, "engine.stream"),
    "misspelled": ({"max_token": 5}, "Did you mean 'max_tokens'"),
    "name of transformers": ({"max_new_tokens": 5}, "Did you mean 'max_tokens'"),
    "name of another kind": ({"zzz": 5}, r"help\(engine.generate\)"),
    "image": ({"image": "x.png"}, "ImageContent"),
    "functions": ({"functions": []}, "Did you mean 'tools'"),
    "logprobs": ({"logprobs": True}, "number of most likely tokens.*0 for"),
    "temperature": ({"temperature": "hot"}, "temperature should be a valid number, not 'hot'"),
    "negative": ({"temperature": -1}, "temperature should be greater than or equal to 0"),
    "no tokens": ({"max_tokens": 0}, "max_tokens should be greater than or equal to 1"),
    "half a token": ({"max_tokens": 1.5}, "max_tokens should be a valid integer"),
    "probability": ({"top_p": 2}, "top_p should be less than or equal to 1"),
    "stop": ({"stop": 5}, "string or a list"),
    "stop in JSON": ({"stop": "a", "response_format": Person}, "stop strings end free text"),
    "reasoning": ({"reasoning": "high"}, "ReasoningOptions"),
    "part": ({"parts": {"txt": PartOptions()}}, "'txt'.*Known are 'text'"),
    "option of a part": ({"parts": {"text": {"temperatur": 0}}}, "Did you mean 'temperature'"),
    "logit_bias": ({"logit_bias": [1]}, "logit_bias should be a mapping"),
    "unknown token": ({"logit_bias": {10**9: 1}}, "the model has"),
    "sampler": ({"sampler": 5}, "sampler should be a function"),
    "sources": ({"sources": ["a"]}, "sources should be a mapping"),
    "tool format": ({"tool_format": "hermess"}, "hermes"),
    "repeated calls": ({"allow_repeated_calls": "double"}, "a Boolean or a list of names"),
    "max_tokens of a format": (
        {"response_format": {"const": "a" * 30}, "max_tokens": 3},
        "max_tokens is 3.*Give max_tokens=",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_option(tiny_engine: InferenceEngine, name: str) -> None:
    options, words = OPTIONS[name]
    _check(lambda: tiny_engine.generate("x", **options), words)


PROMPTS: dict[str, tuple[Any, str]] = {
    "none": (None, "Give a string"),
    "number": (5, "Give a string"),
    "path": (Path("x"), "Give a string"),
    "message without a list": (USER, "Put the message in a list"),
    "no messages": ([], "empty"),
    "several prompts": (["a", "b"], "generate_batch"),
    "pair": ([("user", "x")], '"role": "user"'),
    "no role": ([{"content": "x"}], r"messages\[0\].role.*Known are 'system'"),
    "wrong role": ([{"role": "usr", "content": "x"}], "'usr'.*Known are"),
    "no content": ([{"role": "user"}], r"messages\[0\].*'content'"),
    "number as content": ([{"role": "user", "content": 5}], "a string or a list of parts"),
    "wrong part": (
        [{"role": "user", "content": [{"type": "txt", "text": "a"}]}],
        r"messages\[0\].content\[0\].*\{'type': 'txt'.*\"type\": \"text\"",
    ),
    "image": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x.png"}}]}],
        "Load a model that reads images",
    ),
    "arguments": (
        [
            USER,
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
        ],
        r"tool_calls\[0\].*'f' are not JSON",
    ),
    "raw prompt": (RawPrompt(None), "string or token ids"),  # type: ignore[arg-type]
    "token": (RawPrompt([10**8]), "no token id"),
    "half a character": ("\ud800", "lone surrogate"),
    "too long": ("x " * 9000, "context.*Shorten"),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_wrong_prompt(tiny_engine: InferenceEngine, name: str) -> None:
    prompt, words = PROMPTS[name]
    _check(lambda: tiny_engine.generate(prompt), words)


def _function(**members: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": members}]


TOOLS: dict[str, tuple[dict[str, Any], str]] = {
    "function": ({"tools": double}, "in brackets"),
    "name": ({"tools": ["double"]}, "Python function"),
    "lambda": ({"tools": [lambda x: x]}, "valid name"),
    "arguments by position": ({"tools": [many]}, r"\*numbers"),
    "twice": ({"tools": [double, double]}, "Rename"),
    "no name": ({"tools": _function(parameters={})}, "no name"),
    "wrong name": ({"tools": _function(name="a b")}, "1 to 128"),
    "list as parameters": ({"tools": _function(name="f", parameters={"type": "array"})}, "object"),
    "wrong type": ({"tools": _function(name="f", parameters=NESTED)}, "'strin'.*tool 'f'"),
    "wrong choice": ({"tools": [double], "tool_choice": "doubl"}, "Did you mean 'double'"),
    "choice of Anthropic's": ({"tools": [double], "tool_choice": "any"}, "'required'"),
    "no tools": ({"tool_choice": "required"}, "there are none"),
}


@pytest.mark.parametrize("name", TOOLS)
def test_wrong_tools(tiny_engine: InferenceEngine, name: str) -> None:
    arguments, words = TOOLS[name]
    _check(lambda: tiny_engine.generate("x", **arguments), words)


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "rounds": (lambda e: e.run_tools("x", [double], max_rounds=0), "at least 1"),
    "option of a loop": (lambda e: e.run_tools("x", [double], on_turns=print), "on_turn"),
    "one prompt as a batch": (lambda e: e.generate_batch("x"), "into a list"),
    "batch of numbers": (lambda e: e.generate_batch([1]), "request 0: .*Give a string"),
    "options of a batch": (
        lambda e: e.generate_batch([BatchRequest("x", options={"temp": 1})]),  # type: ignore[typeddict-unknown-key]
        "Did you mean 'temperature'. Look",
    ),
    "one record": (lambda e: e.extract("x", Person), r"\['x'\] for a text"),
    "no format": (lambda e: e.extract(["x"], None), "needs a response format"),
    "format": (lambda e: e.extract(["x"], "json"), "json_object"),
    "field": (lambda e: e.extract([{"a": "x"}], Person), "'text'.*fields: 'a'"),
    "columns": (lambda e: e.extract(["x"], Person, columns=["conf"]), "'confidence'"),
    "suffix": (lambda e: e.extract(["x"], Person, output="x.xlsx"), ".jsonl"),
    "instruction": (lambda e: e.extract(["x"], Person, instruction=5), "instruction should be"),
    "pointer": (lambda e: e.generate("x", bool).confidence("a"), "JSON Pointer"),
    "speech": (lambda e: e.transcribe("x.wav"), "whisper"),
    "directory": (lambda _: InferenceEngine("/nonexistent/model"), "Name a directory"),
    "repo": (lambda _: InferenceEngine("my model"), "Hugging Face"),
    "model": (lambda _: InferenceEngine(5), "a path, a repo id"),  # type: ignore[arg-type]
    "option of an engine": (lambda _: InferenceEngine(batchsize=2), "batch_size"),  # type: ignore[call-arg]
    "option of requests": (lambda _: InferenceEngine(temperature=1), "with the prompt"),  # type: ignore[call-arg]
    "options as a dict": (lambda _: InferenceEngine(options={}), "GenerationOptions"),  # type: ignore[arg-type]
    "tokenizer": (
        lambda _: InferenceEngine(make_tiny_model(), "tokenizer"),
        "mlx_lm.load returns",
    ),
    "no tokenizer": (lambda _: InferenceEngine(make_tiny_model()), "tokenizer should be given"),
    "format of tools": (
        lambda _: InferenceEngine(make_tiny_model(), make_tiny_tokenizer(), tool_format="hermess"),
        "hermes",
    ),
    "adapter": (lambda _: InferenceEngine(adapter_path="/nonexistent"), "no such directory"),
    "name of an option": (lambda _: GenerationOptions(temprature=1), "'temperature'"),  # type: ignore[call-arg]
    "limit of reasoning": (lambda _: ReasoningOptions(max_tokens=5), "max_chars"),  # type: ignore[call-arg]
    "cache": (lambda _: CacheOptions(max_byte=5), "'max_bytes'"),  # type: ignore[call-arg]
    "message": (lambda _: Interaction("usr", "x"), "'usr'.*Known are"),
    "tool": (lambda _: Tool("a", parameters=5), "JSON Schema object"),  # type: ignore[arg-type]
    "choice": (lambda _: Choice("yes"), r'Choice\(\["yes", "no"\]\)'),
    "member of a Literal": (
        lambda e: e.generate("x", Literal["a"], max_tokens=1),
        "Give max_tokens=",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_call(tiny_engine: InferenceEngine, name: str) -> None:
    call, words = CALLS[name]
    _check(lambda: call(tiny_engine), words)


def test_missing_argument_names_the_method_that_was_called(tiny_engine: InferenceEngine) -> None:
    for method in ("generate", "stream", "run_tools", "generate_batch", "extract"):
        with pytest.raises(TypeError, match=rf"^InferenceEngine\.{method}\(\) missing"):
            getattr(tiny_engine, method)()


COMMANDS: dict[str, tuple[list[str], str]] = {
    "no command": ([], "required: COMMAND"),
    "unknown command": (["extrac"], "extrac"),
    "unknown flag": (["extract", "--schem", "x.json"], "--schem"),
    "no schema": (["extract", "-"], "--schema"),
    "missing schema": (["extract", "--schema", "nonexistent.json", "-"], "nonexistent.json"),
    "number of a flag": (["extract", "--max-tokens", "many", "-"], "--max-tokens"),
    "setting of the server": (["serve", "--max-tokens", "0"], "max-tokens: .*greater than"),
    "flag of the server": (["serve", "--max-token", "5"], "--max-token"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = COMMANDS[name]
    try:
        status: Any = main(arguments)
    except SystemExit as exit_:
        status = exit_.code
    assert status == 2
    message = capsys.readouterr().err
    assert re.search(words, message), message
    assert not INTERNALS.search(message), message


INTERNALS = re.compile(
    r"pydantic[-_]core|errors\.pydantic\.dev|__\w+__|object at 0x|TypeAdapter|validator"
    r"|arbitrary_types|has no attribute|NoneType|positional argument|Traceback"
)


def _check(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ProxyError) as caught:
        call()
    message = str(caught.value)
    assert re.search(words, message), message
    shown = message.replace("<class '__main__", "").replace(__name__, "")
    assert not INTERNALS.search(shown), message
    assert len(message) < 500, message
    assert "\n" not in message.strip()
