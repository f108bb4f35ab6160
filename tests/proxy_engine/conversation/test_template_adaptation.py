"""Conversations that templates refuse or write in part, and their adaptation."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from chat_templates import CHAT_TEMPLATES, fast_tokenizer, with_chat_template
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import InferenceEngine
from proxy_engine.conversation.chat_template import (
    ASSISTANT_PLACEHOLDER,
    STRICTEST,
    USER_PLACEHOLDER,
    TurnRules,
    chat_template,
)
from proxy_engine.conversation.messages import template_messages
from proxy_engine.conversation.prompts import PromptStyle

Messages = list[dict[str, Any]]


@pytest.fixture(scope="module")
def tokenizers(tiny_tokenizer: TokenizerWrapper) -> dict[str, TokenizerWrapper]:
    """Tokenizers with the templates of well-known families."""
    return {
        name: with_chat_template(tiny_tokenizer, template)
        for name, template in CHAT_TEMPLATES.items()
    }


def talk(*turns: str) -> Messages:
    """Return messages written as ``"u: text"``."""
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return [{"role": roles[turn[0]], "content": turn[3:]} for turn in turns]


def rendered(tokenizer: TokenizerWrapper, messages: Any, **style: Any) -> str:
    return PromptStyle(**style).render(template_messages(messages).messages, tokenizer)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("gemma2", STRICTEST),
        ("gemma3", TurnRules("first", user_first=True, alternating=True)),
        ("llama2", TurnRules("first", user_first=True, alternating=True)),
        ("mistral1", STRICTEST),
        ("mistral3", TurnRules("first", user_first=True, alternating=True, omits_system=True)),
        ("zephyr", TurnRules()),
        ("qwen3_5", TurnRules("first", user_first=True)),
        ("last_system", TurnRules("first")),
    ],
)
def test_rules_of_templates_are_detected_once(
    tokenizers: dict[str, TokenizerWrapper], name: str, rules: TurnRules
) -> None:
    assert chat_template(tokenizers[name]).turn_rules == rules
    assert chat_template(tokenizers[name]).turn_rules is chat_template(tokenizers[name]).turn_rules


FIRST, USER_FIRST = TurnRules("first"), TurnRules(user_first=True)
ALTERNATING = TurnRules(alternating=True)
BEGIN, BETWEEN = f"u: {USER_PLACEHOLDER}", f"a: {ASSISTANT_PLACEHOLDER}"


@pytest.mark.parametrize(
    ("rules", "turns", "expected"),
    [
        # Without a place of their own, system messages begin the user's first message.
        (TurnRules("nowhere"), "s: be|s: kind|u: hi|u: you", "u: be\n\nkind\n\nhi|u: you"),
        (TurnRules("nowhere"), "s: be|a: hi|u: q", "u: be|a: hi|u: q"),
        # Leading system messages become one; later ones are text of the user in their place.
        (FIRST, "s: be|s: |s: kind|u: hi", "s: be\n\nkind|u: hi"),
        (FIRST, "s: be|u: a|a: b|s: now|u: c|u: d", "s: be|u: a|a: b|u: now\n\nc|u: d"),
        (FIRST, "u: a|s: now", "u: a\n\nnow"),
        (FIRST, "u: a|a: b|s: now", "u: a|a: b|u: now"),
        (ALTERNATING, "s: x|s: y|u: a|u: b|a: c|a: d|u: e", "s: x\n\ny|u: a\n\nb|a: c\n\nd|u: e"),
        (ALTERNATING, "u: a|t: 1|t: 2|u: b", f"u: a|t: 1|t: 2|{BETWEEN}|u: b"),
        (USER_FIRST, "a: hi|u: q", f"{BEGIN}|a: hi|u: q"),
        (USER_FIRST, "s: be|a: hi", f"s: be|{BEGIN}|a: hi"),
        # Instructions alone are the question.
        (TurnRules("first", user_first=True), "s: be|s: kind", "u: be\n\nkind"),
        (STRICTEST, "s: be", "u: be"),
    ],
)
def test_messages_are_merged_and_moved_until_the_rules_allow_them(
    rules: TurnRules, turns: str, expected: str
) -> None:
    adapted = rules.adapt(talk(*turns.split("|")))
    assert "|".join(f"{m['role'][0]}: {m['content']}" for m in adapted) == expected
    assert rules.allow(adapted)


def test_reasoning_and_calls_of_merged_answers_are_kept() -> None:
    messages: Messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "text", "reasoning_content": "r"},
        {"role": "assistant", "content": "", "tool_calls": [1], "reasoning_content": "s"},
        {"role": "assistant", "content": "", "tool_calls": [2]},
        {"role": "assistant", "content": "after"},
    ]
    before = copy.deepcopy(messages)
    assert STRICTEST.adapt(messages)[1:] == [
        {
            "role": "assistant",
            "content": "text",
            "reasoning_content": "r\n\ns",
            "tool_calls": [1, 2],
        },
        # Text does not move before calls.
        {"role": "assistant", "content": "after"},
    ]
    assert messages == before


def test_gemma_2_reads_the_system_message_as_the_user_s(
    tokenizers: dict[str, TokenizerWrapper],
) -> None:
    prompt = talk("s: Be brief.", "u: a", "u: b", "a: c", "a: d", "s: Now in French.", "u: e")
    assert rendered(tokenizers["gemma2"], prompt) == (
        "<start_of_turn>user\nBe brief.\n\na\n\nb<end_of_turn>\n"
        "<start_of_turn>model\nc\n\nd<end_of_turn>\n"
        "<start_of_turn>user\nNow in French.\n\ne<end_of_turn>\n<start_of_turn>model\n"
    )


def test_merged_answer_is_continued(tokenizers: dict[str, TokenizerWrapper]) -> None:
    prompt = talk("a: Hi.", "u: q", "a: It", "a: is")
    assert rendered(tokenizers["gemma2"], prompt) == (
        "<start_of_turn>user\n...<end_of_turn>\n<start_of_turn>model\nHi.<end_of_turn>\n"
        "<start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nIt\n\nis"
    )


CALL = {"id": "abcdefghi", "function": {"name": "f", "arguments": {"x": 1}}}


def test_result_before_the_user_is_accepted_with_native_calls(
    tokenizers: dict[str, TokenizerWrapper],
) -> None:
    prompt = [
        *talk("u: q", "a: "),
        {"role": "tool", "content": "one", "tool_call_id": "abcdefghi"},
        {"role": "user", "content": "and?"},
    ]
    prompt[1]["tool_calls"] = [CALL]
    assert rendered(tokenizers["mistral3"], prompt) == (
        '<s>[INST] q[/INST][TOOL_CALLS] {"name": "f", "arguments": {"x": 1}} abcdefghi</s>'
        "[TOOL_RESULTS] one abcdefghi[/TOOL_RESULTS] OK.</s>[INST] and?[/INST]"
    )


def test_system_message_that_a_template_omits_behind_results_moves(
    tokenizers: dict[str, TokenizerWrapper],
) -> None:
    prompt = [*talk("s: Be brief.", "u: q", "a: "), {"role": "tool", "content": "one"}]
    prompt[2]["tool_calls"] = [CALL]
    text = rendered(tokenizers["mistral3"], prompt)
    assert text.startswith("<s>[INST] Be brief.\n\nq[/INST][TOOL_CALLS]")
    assert rendered(tokenizers["mistral3"], prompt[:2]) == "<s>[INST] Be brief.\n\nq[/INST]"


def test_tools_are_described_behind_a_system_message_that_moves(
    tokenizers: dict[str, TokenizerWrapper],
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    text = rendered(tokenizers["gemma2"], talk("s: Be brief.", "u: q"), tools=[tool])
    assert text.count("<start_of_turn>") == 2
    assert text.index("user\nBe brief.\n\n") < text.index('"name": "f"')


def test_system_message_that_a_template_refuses_with_images_moves(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    def template(messages: Any, media_kinds: Any = (), **_: Any) -> str:
        if media_kinds and messages[0]["role"] == "system":
            raise ValueError("system messages are incompatible with images")
        return "".join(f"<{m['role']}>{m['content']}" for m in messages)

    tokenizer = TokenizerWrapper(fast_tokenizer(tiny_tokenizer), chat_template=template)
    messages = talk("s: be", "u: q")
    assert PromptStyle().render(messages, tokenizer) == "<system>be<user>q"
    assert PromptStyle().render(messages, tokenizer, ["image"]) == "<user>be\n\nq"


def test_engine_answers_a_conversation_without_turns(
    roomy_model: llama.Model, tokenizers: dict[str, TokenizerWrapper]
) -> None:
    options: Any = {"max_tokens": 4, "temperature": 0.0}
    parts = [{"type": "text", "text": text} for text in ("Describe", "this")]
    given = [*talk("s: Be brief.", "a: Hi.", "u: One."), {"role": "user", "content": parts}]
    merged = talk("u: Be brief.", "a: Hi.", "u: One.\n\nDescribe\nthis")
    with InferenceEngine(roomy_model, tokenizers["gemma2"]) as engine:
        result = engine.generate(given, **options)
        expected = engine.generate(merged, **options)
    assert result.token_ids == expected.token_ids
    assert result.usage.prompt_tokens == expected.usage.prompt_tokens
    assert expected.usage.cached_tokens == expected.usage.prompt_tokens - 1


roles = st.lists(st.sampled_from("suua"), min_size=1, max_size=7).map("".join)


@given(
    name=st.sampled_from(sorted(CHAT_TEMPLATES)),
    roles=roles,
    continues=st.booleans(),
    thinking=st.booleans(),
)
def test_every_order_of_roles_is_served(
    tokenizers: dict[str, TokenizerWrapper],
    name: str,
    roles: str,
    continues: bool,
    thinking: bool,
) -> None:
    """A conversation that the template writes completely stays as it is."""
    tokenizer = tokenizers[name]
    texts = [f"word{index}." for index in range(len(roles))]
    messages = talk(*(f"{role}: {text}" for role, text in zip(roles, texts, strict=True)))
    is_continued = continues and roles[-1] == "a"
    prompt = rendered(tokenizer, messages, continues=continues, thinking=thinking)
    try:
        direct = tokenizer.apply_chat_template(
            copy.deepcopy(messages),
            tokenize=False,
            add_generation_prompt=not is_continued,
            continue_final_message=is_continued,
            **({} if thinking else {"enable_thinking": False}),
        )
    except Exception:
        direct = ""
    found = [prompt.index(text) for text in texts]
    if all(text in direct for text in texts):
        assert prompt == direct
    elif name != "mistral3":
        # Mistral's template writes its system message last.
        assert found == sorted(found)
    assert not is_continued or prompt.endswith(texts[-1])


@pytest.mark.parametrize(
    ("name", "separator"), [("gemma2", "\n"), ("zephyr", "\n"), ("gemma3", ""), ("qwen3_5", "")]
)
def test_separator_of_parts_is_the_template_s_or_a_line_feed(
    tokenizers: dict[str, TokenizerWrapper], name: str, separator: str
) -> None:
    assert chat_template(tokenizers[name]).part_separator == separator


def test_separator_that_a_template_writes_is_found(tiny_tokenizer: TokenizerWrapper) -> None:
    template = (
        "{% for m in messages %}{{ m.content | map(attribute='text') | join(' \n') }}{% endfor %}"
    )
    assert chat_template(with_chat_template(tiny_tokenizer, template)).part_separator == " \n"
    assert chat_template(with_chat_template(tiny_tokenizer, None)).part_separator == "\n"
