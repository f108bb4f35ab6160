"""What chat templates make of tools. The templates here ask what those of real families ask."""

from __future__ import annotations

import copy
import gc
import weakref
from functools import partial
from typing import Any

import pytest
from chat_templates import with_chat_template
from mlx_lm.tokenizer_utils import TokenizerWrapper
from rendered_prompts import encode_prompt

from proxy_engine import PromptError
from proxy_engine.conversation.chat_template import CallForm, chat_template
from proxy_engine.conversation.tool_text import PLAIN_FORMAT, describe_tools, write_calls
from proxy_engine.tools import Tool
from state_machines.tool_calls import format_named

HEAD = "{% if tools %}[tools {{ tools | tojson }}]{% endif %}"
TURN = (
    "{% for m in messages %}[{{ m.role }}{% if m.reasoning_content %} ({{ m.reasoning_content }})"
    "{% endif %} {{ m.content }}"
)
END = "]{% endfor %}{% if add_generation_prompt %}[assistant {% endif %}"
FUNCTIONS = (
    "{% for c in m.tool_calls %} {{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% endfor %}"
)
PLAIN = TURN + END
FULL = HEAD + TURN + FUNCTIONS + END
ONE_CALL = (
    HEAD
    + TURN
    + "{% if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}"
    + "{{ raise_exception('one call at once') }}{% endif %}"
    + FUNCTIONS
    + "{% endif %}"
    + END
)
FIRST_CALL = (
    HEAD
    + "{% for m in messages %}[{{ m.role }}"
    + "{% if m.tool_calls %}{% if m.content and m.thinking %}{{ raise_exception('both') }}"
    + "{% endif %}{% set c = m.tool_calls[0].function %} ({{ m.thinking or m.content }})"
    + " {{ c.name }}{{ c.arguments | tojson }}{% else %} {{ m.content }}{% endif %}"
    + END
)
NINE = (
    TURN
    + "{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('id') }}"
    + "{% endif %} {{ c.id }} {{ c.function | tojson }}{% endfor %}"
    + "{% if m.role == 'tool' %} for {{ m.tool_call_id }}{% endif %}"
    + END
)
TEXT_ARGUMENTS = (
    TURN
    + "{% for c in m.tool_calls %} {{ c['type'] + ' ' + c.function.name + c.function.arguments }}"
    + "{% endfor %}"
    + END
)
EITHER = (
    "{% for m in messages %}[{{ m.role }}{% if m.content %} {{ m.content }}{% else %}"
    + FUNCTIONS
    + "{% endif %}"
    + END
)
TURNS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }} {{ m.content }}" + END
)

# Calls and results are no turns, but a text of the assistant's is one.
NO_TEXT = (
    "{% set ns = namespace(turn=0) %}{% for m in messages %}[{{ m.role }}{% if m.tool_calls %}"
    + FUNCTIONS
    + "{% else %} {{ m.content }}{% if m.role != 'tool' %}"
    + "{% if (m.role == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}"
    + "{% set ns.turn = ns.turn + 1 %}{% endif %}{% endif %}"
    + END
)

TOOLS = [Tool("f", "F.", {"type": "object"}).to_openai()]
CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": "q"},
    {
        "role": "assistant",
        "content": "see",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_2", "content": "two"},
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "user", "content": "and?"},
]


@pytest.fixture
def tokenizer_with(tiny_tokenizer: TokenizerWrapper) -> Any:
    return partial(with_chat_template, tiny_tokenizer)


def written(tokenizer: TokenizerWrapper, prompt: Any, **given: Any) -> str:
    text: str = tokenizer.decode(encode_prompt(prompt, tokenizer, **given))
    return text


@pytest.mark.parametrize(
    ("template", "traits"),
    [
        (PLAIN, (False, None)),
        (FULL, (True, CallForm())),
        (ONE_CALL, (True, CallForm(one_call=True))),
        (NINE, (False, CallForm(short_ids=True))),
        (TEXT_ARGUMENTS, (False, CallForm(arguments_as_text=True))),
        (EITHER, (False, CallForm(text="apart", reasoning=None))),
        (NO_TEXT, (False, CallForm(text="nowhere", reasoning=None))),
        (TURNS, (False, None)),
        ("{{ 1 / 0 }}", (False, None)),
    ],
)
def test_template_traits_are_detected(
    tokenizer_with: Any, template: str, traits: tuple[bool, CallForm | None]
) -> None:
    tokenizer = tokenizer_with(template)
    found = chat_template(tokenizer)
    assert (found.describes_tools, found.calls) == traits
    assert chat_template(tokenizer) is found
    tokenizer.chat_template = PLAIN
    assert chat_template(tokenizer).calls is None


def test_tokenizer_is_freed_with_its_template(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(FULL)
    template = chat_template(tokenizer)
    assert template.calls == CallForm()
    assert template.control_tokens.encode("a")
    dropped = weakref.ref(tokenizer)
    del tokenizer, template
    gc.collect()
    assert dropped() is None


def test_a_template_of_first_calls(tokenizer_with: Any) -> None:
    tokenizer = tokenizer_with(FIRST_CALL)
    calls = chat_template(tokenizer).calls
    assert calls is not None
    assert calls.one_call
    # Which of the names is used depends on whether transformers knows both.
    assert calls.reasoning in ("thinking", "reasoning_content")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            FULL,
            '[assistant (hm) see f{"x": 1} g{}][tool one][tool two][user and?][assistant ',
        ),
        (
            ONE_CALL,
            '[assistant (hm) see f{"x": 1}][tool one][assistant  g{}][tool two][user and?][assistant ',
        ),
        (
            TEXT_ARGUMENTS,
            '[assistant (hm) see function f{"x": 1} function g{}][tool one][tool two][user and?][assistant ',
        ),
        (
            EITHER,
            '[assistant see][assistant f{"x": 1} g{}][tool one][tool two][user and?][assistant ',
        ),
        (
            TURNS,
            '[assistant see\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n'
            '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>]'
            "[user <tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>\n"
            "and?][assistant ",
        ),
    ],
)
def test_conversations(tokenizer_with: Any, template: str, expected: str) -> None:
    assert written(tokenizer_with(template), CONVERSATION).removeprefix("[user q]") == expected


def test_text_beside_calls_without_a_place_is_dropped(tokenizer_with: Any) -> None:
    answer = {"role": "assistant", "content": "so"}
    text = written(tokenizer_with(NO_TEXT), [*CONVERSATION[:4], answer, CONVERSATION[4]])
    assert text == (
        '[user q][assistant f{"x": 1} g{}][tool one][tool two][assistant so][user and?][assistant '
    )


def test_long_identifiers_are_shortened_alike(tokenizer_with: Any) -> None:
    text = written(tokenizer_with(NINE), CONVERSATION)
    first = text.partition('{"name": "f"')[0].split()[-1]
    assert len(first) == 9
    assert f"one for {first}]" in text
    kept = copy.deepcopy(CONVERSATION)
    kept[1]["tool_calls"][0]["id"] = kept[3]["tool_call_id"] = "abcde1234"
    assert "one for abcde1234]" in written(tokenizer_with(NINE), kept)


def test_the_conversation_stays_as_it_is(tokenizer_with: Any) -> None:
    before = copy.deepcopy(CONVERSATION)
    for template in (FULL, ONE_CALL, NINE, TURNS, EITHER):
        written(tokenizer_with(template), CONVERSATION, tools=TOOLS)
    assert before == CONVERSATION


def test_tools_go_to_a_template_that_describes_them(tokenizer_with: Any) -> None:
    text = written(tokenizer_with(FULL), "q", tools=TOOLS)
    assert text.startswith('[tools [{"type": "function", "function": {"name": "f"')
    assert "[tools" not in written(tokenizer_with(FULL), "q")


def test_tools_are_described_where_the_template_does_not(tokenizer_with: Any) -> None:
    said = describe_tools(PLAIN_FORMAT, TOOLS)
    system = {"role": "system", "content": "be"}
    user = {"role": "user", "content": "q"}
    plain, turns = tokenizer_with(PLAIN), tokenizer_with(TURNS)
    assert written(plain, "q", tools=TOOLS) == f"[system {said}][user q][assistant "
    assert written(plain, [system, user], tools=TOOLS) == (
        f"[system be\n\n{said}][user q][assistant "
    )
    assert written(turns, "q", tools=TOOLS) == f"[user {said}\n\nq][assistant "
    assert written(tokenizer_with(None), "q", tools=TOOLS) == (
        f"system: {said}\nuser: q\nassistant:"
    )
    assert '"name": "f"' in said


def test_text_may_be_asked_for_and_chosen(tokenizer_with: Any) -> None:
    own = format_named("llama3")
    found = written(
        tokenizer_with(FULL), CONVERSATION, tools=TOOLS, tool_format=own, native_tools=False
    )
    calls = write_calls(own, [("f", {"x": 1}), ("g", {})])
    assert found == (
        f"[system {describe_tools(own, TOOLS)}][user q][assistant (hm) see\n{calls}]"
        f"[user {own.result.begin}one{own.result.end}\n{own.result.begin}two{own.result.end}"
        "\nand?][assistant "
    )
    assert calls in written(tokenizer_with(None), CONVERSATION, tool_format=own)


def test_calls_without_results_are_refused(tokenizer_with: Any) -> None:
    with pytest.raises(PromptError, match="no results"):
        encode_prompt(CONVERSATION[:2], tokenizer_with(FULL))


def test_the_switch_for_thinking_stays(tokenizer_with: Any) -> None:
    template = "{% if enable_thinking is false %}no {% endif %}" + FULL
    assert written(tokenizer_with(template), "q", tools=TOOLS, thinking=False).startswith("no ")
