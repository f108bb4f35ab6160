"""Formats out of a tokenizer's response template, and out of the calls of its chat template."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from chat_templates import fast_tokenizer
from family_tokenizers import family_tokenizer
from mlx_lm.tokenizer_utils import load as load_tokenizer
from response_templates import DOCUMENTED, SPECIAL
from tiny_models import make_tiny_tokenizer

from proxy_engine import InferenceEngine
from proxy_engine.conversation.response_templates import verified_format
from proxy_engine.conversation.tool_format_detection import DetectedFormat, chosen, detect
from proxy_engine.conversation.tool_text import write_calls
from state_machines.errors import CompositionError
from state_machines.root import RootStateMachine
from state_machines.tool_calls import (
    EXAMPLE_CALLS,
    FORMATS,
    Delimiters,
    ToolFormat,
    ToolSignature,
)

TURNS = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}CALLS<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TAGS = """{% for c in m.tool_calls or [] %}{{ '\n' if not loop.first }}<tool_call>
<function={{ c.function.name }}>
{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>
{{ v }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}"""
ARGUMENTS = "{{ c.function.arguments | tojson }}"
EACH = "{% for c in m.tool_calls or [] %}BEGIN{% endfor %}"
TOOL = ToolSignature("f", {"type": "object", "properties": {"a": {"type": "string"}}})


def described(
    directory: Path, fields: Any = None, calls: str = "", **members: Any
) -> DetectedFormat:
    """The format of a tokenizer with a response template, a chat template, or both."""
    tokenizer = family_tokenizer(directory, SPECIAL, template=TURNS.replace("CALLS", calls))
    if fields is not None:
        template = {"start_anchor": "<|im_start|>assistant\n", "fields": fields, **members}
        tokenizer.response_template = template
    return detect(tokenizer)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_templates_are_verified(name: str, tmp_path: Path) -> None:
    found = described(tmp_path, DOCUMENTED[name])
    assert (found.source, found.refused, found.is_native) == ("response_template", {}, True)
    assert (found.reasoning is None) == DOCUMENTED[name].keys().isdisjoint(
        ("thinking", "reasoning_content")
    )


@pytest.mark.parametrize("name", ["qwen3_coder", "qwen3_5"])
def test_layout_is_that_of_the_chat_template(name: str, tmp_path: Path) -> None:
    found = described(tmp_path, DOCUMENTED[name], TAGS)
    assert found.format.head == "\n<function={name}>\n"
    assert found.format.between == ("\n",)
    assert found.reasoning == Delimiters("<think>", "</think>")
    call = "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"
    assert RootStateMachine(found.format.calls([TOOL])).matches(call)


LOOK_AHEAD = "a look-ahead in the pattern"
NOT_COMPILED = {
    **dict.fromkeys(("granite", "gpt_oss", "longcat"), "one reading|redefinition of group name"),
    **dict.fromkeys(("granite_20b", "mistral_args"), LOOK_AHEAD),
    **dict.fromkeys(("llama3", "phi4_mini", "xlam"), LOOK_AHEAD),
}


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_template_of_a_family_is_its_format_or_refused_by_name(
    entry: ToolFormat, tmp_path: Path
) -> None:
    try:
        template = entry.to_response_template(start_anchor="<a>", end="<end>")
    except CompositionError as error:
        assert entry.name in error.what
        return
    tokenizer = family_tokenizer(tmp_path, [*SPECIAL, *entry.tokens], template=TURNS)
    # A template has no member for the texts around all calls of a section.
    is_section = entry.wraps == "all" and "open_pattern" in template["fields"]["tool_calls"]
    reason = NOT_COMPILED.get(entry.name, LOOK_AHEAD if is_section else None)
    if reason is not None:
        with pytest.raises(CompositionError, match=reason):
            verified_format(tokenizer, template, entry)
        return
    found = verified_format(tokenizer, template, entry)
    calls = EXAMPLE_CALLS if entry.parallel else EXAMPLE_CALLS[:1]
    text = write_calls(entry, [(name, arguments) for name, _, arguments in calls])
    tools = [ToolSignature(name, {"type": "object"}) for name, *_ in calls]
    machine = RootStateMachine(found.calls(tools, options={"additional_properties": "schema"}))
    # The end of the answer closes calls that have no text behind them.
    assert machine.matches(text + found.end if found.end == "<end>" else text)


def test_response_template_is_read_from_the_files_of_a_tokenizer(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, SPECIAL)
    template = {"start_anchor": "<a>", "fields": DOCUMENTED["lines"]}
    tokenizer.response_template = template
    tokenizer.save_pretrained(str(tmp_path))
    assert detect(type(tokenizer)(fast_tokenizer(tokenizer))).source == "response_template"


def test_option_precedes_the_response_template(tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, SPECIAL)
    template = {"start_anchor": "<a>", "fields": DOCUMENTED["smollm"]}
    tokenizer.response_template = template
    detected = detect(tokenizer)
    found = chosen(tokenizer, detected, "glm4_7")
    assert (found.source, found.format.name, found.is_native) == ("option", "glm4_7", False)
    assert found.reasoning == detected.reasoning == Delimiters("<think>", "</think>")
    assert chosen(tokenizer, detected, detected.format) is detected


CALL = DOCUMENTED["smollm"]["tool_calls"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"open": None, "open_pattern": r"<tool_call>(?=\{)"}, "a look-ahead"),
        ({"open": None, "open_pattern": r"(?<!x)<tool_call>"}, "a look-behind"),
        ({"open": None, "open_pattern": r"^<tool_call>"}, r"\^"),
        ({"open": None, "open_pattern": r"(<t>)\1"}, "cannot be inverted"),
        ({"open": None, "open_pattern": r"(?:<a(?P<name>\w+)>)"}, "inside another"),
        ({"open": ["<a>", "<b>"]}, "one reading"),
        ({"close": ["</a>", "</b>"]}, "one reading"),
        ({"close": "}"}, "occurs in arguments"),
        ({"open": None}, "no text opens a call"),
        ({"content": "text"}, "leaves arguments unread"),
        ({"transform": {"function": {"name": "f", "arguments": "{content}"}}}, "loses the name"),
        ({"transform": {"function": {"name": "{content.name}"}}}, "loses the arguments"),
        ({"transform": {"function": {"name": "{tool}", "arguments": "{content}"}}}, "no part"),
        ({"transform_each": True}, "list of calls inside a list"),
        ({"join": ""}, "no texts to join"),
        ({"content": "xml-inline", "transform": None}, "should|loses|group|inner|name"),
        ({"content": "nothing"}, "leaves arguments unread"),
    ],
)
def test_template_that_cannot_be_inverted_is_refused_by_name(
    change: dict[str, Any], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call = {key: value for key, value in (CALL | change).items() if value is not None}
    with caplog.at_level(logging.WARNING):
        found = described(tmp_path, {"tool_calls": call})
    assert (found.format.name, found.source) == ("hermes", "default")
    assert re.search(reason, found.refused["response_template"])
    assert "tool_calls" in found.refused["response_template"]
    assert found.refused["response_template"] in caplog.text


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_calls": CALL, "plan": {"open": "<plan>", "close": "</plan>", "optional": False}},
        {"tool_calls": CALL, "content": {"repeats": True}},
    ],
)
def test_template_that_transformers_reads_otherwise_is_refused(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    found = described(tmp_path, fields)
    assert found.source == "default"
    assert "transformers reads" in found.refused["response_template"]


@pytest.mark.parametrize("template", ["text", [], {}, {"fields": []}, {"fields": {"content": 1}}])
def test_malformed_template_does_not_fail_a_load(template: Any, tmp_path: Path) -> None:
    tokenizer = family_tokenizer(tmp_path, SPECIAL)
    tokenizer.response_template = template
    found = detect(tokenizer)
    assert (found.format.name, list(found.refused)) == ("hermes", ["response_template"])


def test_template_without_calls_gives_the_family_its_reasoning(tmp_path: Path) -> None:
    thinking = {"open": "<reason>", "close": "</reason>"}
    found = described(tmp_path, {"thinking": thinking, "content": {}})
    assert (found.format.name, found.source) == ("hermes", "response_template")
    assert found.reasoning == Delimiters("<reason>", "</reason>")


@pytest.mark.parametrize(
    ("calls", "written"),
    [
        (
            f'<use>{{"tool": "{{{{ c.function.name }}}}", "input": {ARGUMENTS}}}</use>',
            '<use>{"tool": "f", "input": {"a": "x"}}</use>',
        ),
        (
            f"<fn {{{{ c.function.name }}}}>{ARGUMENTS}</fn>\n",
            '<fn f>{"a": "x"}</fn>',
        ),
        (
            "<use>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}"
            "<in:{{ k }}>{{ v }}</in>\n{% endfor %}</use>",
            "<use>f\n<in:a>x</in>\n</use>",
        ),
    ],
)
def test_calls_are_read_off_the_chat_template(calls: str, written: str, tmp_path: Path) -> None:
    found = described(tmp_path, calls=EACH.replace("BEGIN", calls))
    assert (found.source, found.is_native) == ("chat_template", True)
    machine = RootStateMachine(found.format.calls([TOOL]))
    assert machine.matches(written)
    assert not machine.matches(written.replace("x", "1", 1).replace("f", "g", 1))


def test_engine_says_how_it_knows_its_format(roomy_model: Any) -> None:
    tokenizer = make_tiny_tokenizer()
    tokenizer.response_template = {"start_anchor": "<a>", "fields": {"tool_calls": {}}}
    with InferenceEngine(roomy_model, tokenizer) as engine:
        assert engine.tool_format.source == "default"
        assert "no text opens a call" in engine.tool_format.refused["response_template"]
    with InferenceEngine(roomy_model, tokenizer, tool_format="llama3") as engine:
        assert (engine.tool_format.source, engine.tool_format.format.name) == ("option", "llama3")


def with_schema(directory: Path, schema: Any) -> DetectedFormat:
    """The format of a tokenizer whose files have the predecessor of a response template."""
    family_tokenizer(directory, SPECIAL)
    file = directory / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**settings, "response_schema": schema}), encoding="utf-8")
    return detect(load_tokenizer(directory))


def test_response_schema_is_read_as_a_response_template(tmp_path: Path) -> None:
    transform = "[*].{type: 'function', function: {name: tool_name, arguments: parameters}}"
    calls = {
        "type": "array",
        "x-regex": r"<\|START_ACTION\|>(.*?)<\|END_ACTION\|>",
        "x-parser": "json",
        "x-parser-args": {"transform": transform},
    }
    thinking = {"type": "string", "x-regex": r"<\|START_THINKING\|>(.*?)<\|END_THINKING\|>"}
    properties = {"role": {"const": "assistant"}, "thinking": thinking, "tool_calls": calls}
    found = with_schema(tmp_path, {"type": "object", "properties": properties})
    assert (found.source, found.refused) == ("response_template", {})
    assert found.reasoning == Delimiters("<|START_THINKING|>", "<|END_THINKING|>")
    call = '<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": "x"}}]<|END_ACTION|>'
    assert RootStateMachine(found.format.calls([TOOL])).matches(call)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ([], "no properties"),
        (
            {"properties": {"content": {"x-regex": "(.*)"}}, "x-regex": "(?P<a>.*)"},
            "one expression",
        ),
        ({"properties": {"content": {"x-regex": "a(b)(.*?)(.*?)"}}}, "not one group"),
        ({"properties": {"tool_calls": {"x-regex": "<c>(.*?)</c>", "x-parser": "xml"}}}, "'xml'"),
        (
            {
                "properties": {
                    "tool_calls": {
                        "x-regex": "<c>(.*?)</c>",
                        "x-parser": "json",
                        "x-parser-args": {"transform": "reverse(@)"},
                    }
                }
            },
            "reverse",
        ),
    ],
)
def test_response_schema_without_counterpart_is_refused_by_name(
    schema: Any, reason: str, tmp_path: Path
) -> None:
    found = with_schema(tmp_path, schema)
    assert found.source == "default"
    assert reason in found.refused["response_template"]
