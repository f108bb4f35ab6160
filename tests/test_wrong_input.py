"""Whatever is wrong with an input, the error is one of the project's own.

Every public entry point is given wrong types, half characters, huge numbers and deep nesting, and
valid inputs that are changed at a few places. A library call returns or raises a ``ProxyError``
(for sampling parameters an ``InvalidSamplingParameterError``), the bridge answers every line, and
the server answers 2xx or 4xx.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bridge_clients import Client
from engine_parts import core_of
from hypothesis import given, settings
from hypothesis import strategies as st
from live_server import Live, serving_engine
from wrong_values import DEEP, deep_json, mutated, wrong_json, wrong_values

from proxy_engine import (
    BatchRequest,
    GenerationOptions,
    InferenceEngine,
    Interaction,
    PartOptions,
    RawPrompt,
    ReasoningOptions,
    SpeculationOptions,
    Tool,
)
from proxy_engine.answers.response_format import ResponseFormatCompiler
from proxy_engine.conversation.content import JsonContent, TextContent, ToolCall
from proxy_engine.conversation.messages import template_messages, to_interactions
from proxy_engine.options.overrides import OptionOverrides
from proxy_engine.tools import ToolChoice, resolve_tools
from samplers import InvalidSamplingParameterError, SamplingParameters
from state_machines import (
    ChoiceStateMachine,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    RegexStateMachine,
)
from state_machines.errors import ProxyError
from state_machines.root import (
    Choice,
    Marker,
    Optional,
    Repeat,
    RootStateMachine,
    Series,
    Structured,
    Text,
)

EXAMPLES = 60

SCHEMAS: list[Any] = [
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/a",
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a+$"},
            "kind": {"enum": ["a", 1, None]},
            "size": {"type": "number", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 0.5},
            "when": {"type": "string", "format": "date"},
            "next": {"$ref": "#/$defs/item"},
        },
        "required": ["name", "kind"],
        "patternProperties": {"^x": {"type": "boolean"}},
        "propertyNames": {"maxLength": 5},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 9,
        "dependentRequired": {"size": ["when"]},
        "$defs": {"item": {"$anchor": "item", "const": {"a": [1]}}},
    },
    {
        "type": "array",
        "prefixItems": [{"type": "integer"}],
        "items": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "contains": {"const": "a"},
        "minContains": 1,
        "minItems": 1,
        "maxItems": 4,
        "uniqueItems": False,
    },
    {
        "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"not": {"required": ["b"]}},
        "allOf": [{"type": "object"}, {"oneOf": [{"maxProperties": 1}, {"minProperties": 2}]}],
        "dependentSchemas": {"a": {"required": ["c"]}},
        "unevaluatedProperties": False,
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "id": "a",
        "definitions": {"b": {"$id": "#b", "type": ["string", "null"]}},
        "type": "array",
        "items": [{"$ref": "#/definitions/b"}],
        "additionalItems": {"type": "number"},
    },
]
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Finds.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"enum": ["b", "c"]}, "n": {"type": "integer"}},
            "required": ["a"],
            "minProperties": 1,
            "additionalProperties": False,
        },
        "strict": True,
    },
}
FLAT_TOOL = {"type": "function", **TOOL["function"]}  # type: ignore[dict-item]
CALL = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"a": "b"}'}}
CONVERSATIONS: list[Any] = [
    [
        {"role": "system", "content": "Be."},
        {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "Ann"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [CALL],
            "reasoning_content": "hm",
            "refusal": None,
            "annotations": [],
        },
        {"role": "tool", "content": "b", "tool_call_id": "1", "name": "find"},
    ],
    [
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"file_data": "data:text/plain;base64,YQ==", "filename": "a"},
                },
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,YQ=="}},
                {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "wav"}},
            ],
        }
    ],
    [
        Interaction(
            "user", [TextContent("a"), JsonContent({"a": [1]})], metadata={"a": 1}
        ).to_dict(),
        Interaction("agent", tool_calls=[ToolCall("1", "f", {"a": 1}, "x")]).to_dict(),
        Interaction("tool", "b", tool_call_id="1", name="f").to_dict(),
    ],
]
FORMATS: list[Any] = [
    {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": SCHEMAS[0]}},
    {"type": "json_object"},
    {"type": "text"},
    *SCHEMAS,
]
SAMPLING: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 3,
    "min_p": 0.1,
    "min_tokens_to_keep": 2,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "repetition_context_size": 9,
    "logit_bias": {"5": 1.0},
    "seed": 7,
}
OPTIONS: dict[str, Any] = {
    "max_tokens": 4,
    "min_tokens": 1,
    "stop": ["a", "b"],
    "prefill_step_size": 64,
    "reasoning": False,
    "parallel_tool_calls": True,
    "max_tool_calls": 2,
    "media_in_history": "error",
    "fast_forward": True,
    "speculation": {"max_draft_tokens": 4, "num_draft_tokens": 2},
    "max_seconds": 5.0,
    "logprobs": 1,
    "trace": False,
}
CHOICES: list[Any] = [
    "auto",
    "required",
    "find",
    {"type": "function", "function": {"name": "find"}},
    {"type": "function", "name": "find"},
]
PATTERNS = [
    r"^(a|b)+[^\d\p{L}]{2,3}$",
    r"(?=a)(?<n>.*?)\u{61}\x41(?!b)",
    r"[\w-]*|\bx\b",
    "(?:a{1,9}){1,9}",
]
GRAMMARS = [
    'root ::= "a" list* [^"\\x00-\\x1f]{1,3} # so\nlist ::= "b" | ("c" root)?\n',
    'root ::= expr\nexpr ::= expr "+" term | term\nterm ::= [0-9]+ | "(" expr ")"\n',
]


def proper(call: Callable[[], Any], *others: type[Exception]) -> Any:
    """Return the result of the call, or ``None`` if it raises a ``ProxyError``."""
    try:
        return call()
    except (ProxyError, *others) as error:
        # Every error has a printable message.
        assert str(error)
        json.dumps(str(error))
        return None


# Values that are too deep cannot be printed, so they are drawn apart.
SOME = settings(max_examples=EXAMPLES)


@SOME
@given(st.data())
def test_invalid_options_raise_proxy_errors(data: st.DataObject) -> None:
    names = sorted(OptionOverrides.__annotations__)
    given_options = data.draw(
        st.dictionaries(st.sampled_from([*names, "temp", "\ud800"]), wrong_values, max_size=2)
    )
    proper(lambda: GenerationOptions().override(given_options))  # type: ignore[arg-type]
    name = data.draw(st.sampled_from(sorted(SamplingParameters.model_fields)))
    value = data.draw(wrong_values)
    proper(lambda: SamplingParameters(**{name: value}), InvalidSamplingParameterError)
    for kind in (ReasoningOptions, PartOptions, SpeculationOptions):
        field = data.draw(st.sampled_from(sorted(kind.model_fields)))
        proper(lambda kind=kind, field=field: kind(**{field: value}))


@SOME
@given(mutated(CONVERSATIONS, wrong_values) | wrong_values)
def test_invalid_messages_raise_proxy_errors(prompt: Any) -> None:
    for read in (template_messages, to_interactions, Interaction.from_dict):
        proper(lambda read=read: read(prompt))
    if isinstance(prompt, list):
        for message in prompt:
            proper(lambda message=message: Interaction.from_dict(message))


@SOME
@given(wrong_values, wrong_values)
def test_invalid_interactions_raise_proxy_errors(value: Any, other: Any) -> None:
    for name in ("role", "content", "tool_calls", "reasoning", "metadata", "id", "created_at"):
        turn = proper(lambda name=name: Interaction(**{"role": "agent", name: value}))
        if turn is not None and name != "metadata":
            assert Interaction.from_dict(turn.to_dict()) == turn
    call = {"id": "1", "name": value, "arguments": other}
    for make in (
        lambda: TextContent(value),
        lambda: JsonContent(value),
        lambda: ToolCall(value, "f"),
        lambda: ToolCall("1", "f", value),
        lambda: ToolCall("1", "f", {"a": value, "b": other}),
        lambda: Interaction.from_dict({"role": "assistant", "tool_calls": [call]}),
        lambda: Interaction.tool_result(ToolCall("1", "f"), value),
    ):
        proper(make)


@SOME
@given(mutated([[TOOL], [FLAT_TOOL]], wrong_values) | wrong_values, wrong_values)
def test_invalid_tools_raise_proxy_errors(tools: Any, choice: Any) -> None:
    resolved = proper(lambda: resolve_tools(tools)) or (Tool("find"),)
    proper(lambda: ToolChoice.of(choice, resolved))
    for tool in resolved:
        assert tool.to_openai()["function"]["name"] == tool.name


@SOME
@given(mutated(FORMATS, wrong_json) | wrong_values)
def test_invalid_response_formats_raise_proxy_errors(given_format: Any) -> None:
    proper(lambda: ResponseFormatCompiler().compile(given_format))


@settings(max_examples=3 * EXAMPLES)
@given(mutated(SCHEMAS), st.sampled_from(["schema", "any"]))
def test_invalid_schemas_raise_proxy_errors(schema: Any, order: Any) -> None:
    proper(lambda: JsonSchemaStateMachine(schema, property_order=order))


def texts_near(valid: list[str]) -> st.SearchStrategy[str]:
    """Valid texts, cut somewhere, with something put in there."""

    def changed(text: str, at: int, cut: int, more: str) -> str:
        at %= len(text) + 1
        return text[:at] + more + text[at + cut :]

    more = st.sampled_from(
        [*"()[]{}\\|*+?^$.\"'\n", "\ud800", "{99999999999}", "\\u{110000}", "::="]
    )
    texts = st.sampled_from(valid)
    return st.builds(
        changed, texts, st.integers(0, 99), st.integers(0, 9), more | st.text(max_size=3)
    )


@SOME
@given(texts_near(PATTERNS), texts_near(GRAMMARS), wrong_values)
def test_invalid_patterns_grammars_and_choices_raise_proxy_errors(
    pattern: str, grammar: str, value: Any
) -> None:
    proper(lambda: RegexStateMachine(pattern))
    proper(lambda: GrammarStateMachine(grammar))
    proper(lambda: RegexStateMachine(value))
    proper(lambda: GrammarStateMachine(value))
    proper(lambda: GrammarStateMachine(grammar, start=value))
    proper(lambda: ChoiceStateMachine(value))
    proper(lambda: ChoiceStateMachine(["a", value]))


@SOME
@given(wrong_values)
def test_invalid_parts_raise_proxy_errors(value: Any) -> None:
    for make in (
        lambda: Text(value),
        lambda: Marker("a", value),
        lambda: Structured("a", grammar=value),
        lambda: Series(Marker("a", "b"), value),
        lambda: Choice(value),
        lambda: Optional(value),
        lambda: Repeat(Text("a"), between=value),
        *(
            lambda name=name: Text("a", **{name: value})
            for name in ("begin", "end", "min_chars", "max_chars", "stop", "excluding")
        ),
        *(
            lambda name=name: Repeat(Marker("a", "b"), **{name: value})
            for name in ("min_count", "max_count")
        ),
    ):
        proper(lambda make=make: RootStateMachine(make()))


@SOME
@given(wrong_values)
def test_invalid_batches_and_tool_loops_raise_proxy_errors(
    brief_engine: InferenceEngine, value: Any
) -> None:
    """The error of one request of a batch is reported in its item."""
    requests = [
        BatchRequest(value),
        BatchRequest("a", options=value),
        BatchRequest("a", tools=value),
    ]
    for given_requests, tools in ((value, None), (requests, [value]), (requests[:1], value)):
        options: Any = {"tools": tools, "return_exceptions": True, "max_tokens": 1}
        answers = proper(
            lambda given_requests=given_requests, options=options: brief_engine.generate_batch(
                given_requests, **options
            )
        )
        errors = [answer for answer in answers or () if isinstance(answer, Exception)]
        assert all(isinstance(error, ProxyError) for error in errors), errors
    for arguments in ((value, []), ("a", value), ("a", [value])):
        proper(
            lambda arguments=arguments: brief_engine.run_tools(
                *arguments, max_rounds=1, max_tokens=1, on_turn=value
            )
        )


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": 5},
        {"model": b"x"},
        {"model": "x" * 5000},
        {"model": "\ud800"},
        {"model": "a\0b"},
        {"tokenizer": 5},
        {"options": 5},
        {"cache": 5},
        {"batch_size": 2.0},
        {"tool_format": 5},
        {"tool_format": "\ud800"},
        {"tool_format": "x" * 9999},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_invalid_engine_arguments_raise_proxy_errors(
    tiny_model: Any, tiny_tokenizer: Any, arguments: dict[str, Any]
) -> None:
    in_memory = {} if "model" in arguments else {"model": tiny_model, "tokenizer": tiny_tokenizer}
    with pytest.raises(ProxyError):
        InferenceEngine(**{**in_memory, **arguments})


@SOME
@given(st.data())
def test_invalid_requests_raise_proxy_errors(
    brief_engine: InferenceEngine, data: st.DataObject
) -> None:
    """All together, up to where the model would run."""
    options = data.draw(st.just({}) | mutated([OPTIONS, SAMPLING], wrong_values))
    if not isinstance(options, dict):
        options = {}
    prompts = st.just("a") | st.builds(RawPrompt, wrong_values | st.lists(wrong_values, max_size=2))
    prompt = data.draw(prompts | mutated(CONVERSATIONS, wrong_values) | wrong_values)
    response_format = data.draw(st.none() | mutated(FORMATS, wrong_json))
    tools = data.draw(st.none() | mutated([[TOOL]], wrong_values))
    choice = data.draw(st.none() | st.sampled_from(CHOICES) | mutated(CHOICES, wrong_values))
    arguments = {"tools": tools, "tool_choice": choice, **options}
    proper(lambda: core_of(brief_engine).preparation.request(prompt, response_format, arguments))


@given(deep_json)
@settings(max_examples=4)
def test_deep_nesting_raises_proxy_errors(brief_engine: InferenceEngine, deep: Any) -> None:
    message = {"role": "user", "content": deep}
    call = {"name": "f", "arguments": deep}
    for name in OptionOverrides.__annotations__:
        proper(lambda name=name: GenerationOptions().override({name: deep}))
    prepare = core_of(brief_engine).preparation.request
    for prompt in ([message], deep, RawPrompt(deep), [{"role": "assistant", "tool_calls": [call]}]):
        proper(lambda prompt=prompt: prepare(prompt, None, {}))
    for schema in (deep, {"properties": deep}, {"not": deep}, {"const": deep}, {"enum": [deep]}):
        proper(lambda schema=schema: JsonSchemaStateMachine(schema))
        proper(lambda schema=schema: prepare("a", schema, {}))
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        proper(lambda tool=tool: prepare("a", None, {"tools": [tool]}))
    proper(lambda: prepare("a", None, {"tools": deep}))
    proper(lambda: prepare("a", None, {"tools": [TOOL], "tool_choice": deep}))
    for bracket, end in ("()", "[]", ("(?=", ")")):
        text = bracket * DEEP + "a" + end * DEEP
        proper(lambda text=text: RegexStateMachine(text))
        proper(lambda text=text: GrammarStateMachine(f"root ::= {text}"))


COMMANDS: list[Any] = [
    {"cmd": "generate", "id": 1, "prompt": "a", **OPTIONS, **SAMPLING},
    {"cmd": "generate", "id": 1, "prompt": "a", "max_tokens": 4, "response_format": FORMATS[0]},
    *(
        {"cmd": "chat", "id": "x", "messages": messages, "max_tokens": 4, "tools": [TOOL]}
        for messages in CONVERSATIONS
    ),
    {
        "cmd": "generate",
        "id": 1,
        "prompt": "a",
        "max_tokens": 4,
        "parts": {"text": {**SAMPLING, "max_tokens": 2}},
        "reasoning": {
            "is_required": True,
            "min_chars": 1,
            "max_chars": 2,
            "begin": "<",
            "end": ">",
        },
        "tool_choice": CHOICES[3],
    },
    {"cmd": "cancel"},
    {"cmd": "info"},
]
LINES = st.one_of(
    mutated(COMMANDS).map(lambda value: json.dumps(value).encode()),
    wrong_json.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=20),
    st.sampled_from([b"[" * DEEP, b'{"a":' * DEEP, b'{"cmd": "info", "id": NaN}', b"9" * 9999]),
)


def test_invalid_bridge_lines_get_error_replies(brief_engine: InferenceEngine) -> None:
    """Every line has its last reply, and none is about an error inside."""

    @SOME
    @given(st.lists(LINES, min_size=1, max_size=4))
    def run(lines: list[bytes]) -> None:
        # A line with a line break is two lines to the reader, a blank line is none; both are left out.
        whole = [line.replace(b"\n", b"").strip() for line in lines]
        whole = [line for line in whole if line and b'"quit"' not in line and b'"load"' not in line]

        async def main() -> None:
            client = Client(lambda _: brief_engine)
            await client.ask({"cmd": "load", "path": "p"})
            for line in whole:
                *_, last = await client.ask(line) or [{"done": True}]
                assert last.keys() & {"done", "error", "model_type"}
                # Errors of this library name no exception.
                assert not re.match(r"(\w+: )?[A-Z]\w+(Error|Exception): ", last.get("error", ""))

        asyncio.run(main())

    run()


BODIES: list[tuple[str, Any]] = [
    (
        "chat/completions",
        {
            "messages": messages,
            "max_tokens": 4,
            "tools": [TOOL],
            "tool_choice": "auto",
            "logprobs": True,
            "top_logprobs": 1,
            "stop": ["a"],
            "n": 1,
            "temperature": 0.5,
            "logit_bias": {"5": 1},
            "stream_options": {"include_usage": True},
            "metadata": {"a": "b"},
            "num_draft_tokens": 2,
        },
    )
    for messages in CONVERSATIONS[:2]
]
BODIES += [
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], **more, "max_tokens": 6})
    for more in (
        {"response_format": FORMATS[0]},
        {"regex": PATTERNS[0]},
        {"grammar": GRAMMARS[0]},
        {"choice": ["a", "b"], "draft_model": "default_model"},
        {"structured_outputs": {"json": SCHEMAS[1]}},
        {"regex": PATTERNS[0], "speculation": {"max_draft_tokens": 2, "prompt_lookup": True}},
        {"guided_json": SCHEMAS[2], "chat_template_kwargs": {"enable_thinking": False}},
    )
]
BODIES += [
    ("completions", {"prompt": ["a", "b"], "max_tokens": 3, "echo": True, "stop": "b", "seed": 1}),
    ("completions", {"prompt": [[1, 2], [3]], "max_tokens": 3, "logprobs": 1, "n": 1}),
    (
        "responses",
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {"type": "function_call", "call_id": "1", "name": "find", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "b"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            ],
            "instructions": "Be.",
            "max_output_tokens": 4,
            "tools": [FLAT_TOOL],
            "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMAS[1]}},
            "reasoning": {"effort": "low"},
        },
    ),
]


@pytest.fixture(scope="module")
def small(brief_engine: InferenceEngine) -> Iterator[Live]:
    """A server that answers briefly."""
    with serving_engine(brief_engine) as live:
        yield live


def test_invalid_bodies_get_client_errors(small: Live) -> None:
    """The status is 2xx or 4xx, and errors have OpenAI's format."""

    @settings(max_examples=2 * EXAMPLES)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        path, body = data.draw(mutated([list(pair) for pair in BODIES]).map(_pair))
        content = data.draw(
            st.just(json.dumps(body).encode())
            | st.sampled_from([b"[" * DEEP, b'{"messages":' * DEEP, b'"\\ud800"', b"NaN", b"\xff"])
        )
        reply = http.post(f"/v1/{path}", content=content, headers=headers)
        assert reply.status_code < 300 or 400 <= reply.status_code < 500, reply.text
        if reply.status_code >= 400 and reply.status_code not in (404, 405):
            assert set(reply.json()["error"]) >= {"message", "type", "param", "code"}

    headers = {"Content-Type": "application/json"}
    with small.http() as http:
        run()


def _pair(value: Any) -> tuple[str, Any]:
    """A path of the server, and a body; the paths themselves stay as they are."""
    known = [path for path, _ in BODIES]
    match value:
        case [str(path), body] if path in known:
            return path, body
    return known[0], value
