"""Prompts to token ids."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from chat_templates import CHAT_TEMPLATES, with_chat_template
from mlx_lm.tokenizer_utils import TokenizerWrapper
from rendered_prompts import encode_prompt

from proxy_engine import Interaction, JsonContent, PromptError
from proxy_engine.conversation.prompts import PromptStyle, template_messages


def decoded(prompt: Any, tokenizer: TokenizerWrapper) -> str:
    text: str = tokenizer.decode(encode_prompt(prompt, tokenizer))
    return text


def test_chat_template_is_applied(tiny_tokenizer: TokenizerWrapper) -> None:
    assert decoded("hi", tiny_tokenizer) == "<|start|>user\nhi<|end|><|start|>assistant\n"
    conversation = [
        {"role": "system", "content": "be"},
        Interaction("user", JsonContent({"a": "ä"})),
    ]
    assert decoded(conversation, tiny_tokenizer) == (
        '<|start|>system\nbe<|end|><|start|>user\n{"a": "ä"}<|end|><|start|>assistant\n'
    )


def test_conversation_ending_with_the_assistant_is_continued(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    conversation = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The"}]
    expected = "<|start|>user\nq<|end|><|start|>assistant\nThe"
    assert decoded(conversation, tiny_tokenizer) == expected


def test_without_a_chat_template_roles_begin_lines(tiny_tokenizer: TokenizerWrapper) -> None:
    plain = with_chat_template(tiny_tokenizer, None)
    conversation = [
        {"role": "developer", "content": "be"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "b "},
    ]
    assert decoded("a", plain) == "user: a\nassistant:"
    continued = "system: be\nuser: a\nuser:\nassistant: b "
    assert decoded(conversation, plain) == continued
    new_answer = f"{continued}\nassistant:"
    assert plain.decode(encode_prompt(conversation, plain, continues=False)) == new_answer


def test_tool_calls_and_results_are_linked() -> None:
    """OpenAI's clients leave out names, others identifiers."""
    messages = template_messages(
        [
            {
                "role": "assistant",
                "tool_calls": [
                    {"function": {"name": "f", "arguments": '{"x": 1}'}},
                    {"name": "g", "arguments": {}},
                    {"id": "3", "name": "f"},
                ],
            },
            {"role": "tool", "content": "three", "tool_call_id": "3"},
            {"role": "tool", "content": "lost", "tool_call_id": "?"},
            {"role": "tool", "content": "two", "name": "g"},
            {"role": "tool", "content": "one"},
        ]
    ).messages
    calls = messages[0]["tool_calls"]
    assert calls[0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert len({call["id"] for call in calls}) == 3
    assert [message["content"] for message in messages[1:]] == ["one", "two", "three", "lost"]
    assert [message.get("name") for message in messages[1:]] == ["f", "g", "f", None]
    assert messages[1]["tool_call_id"] == calls[0]["id"]


def test_a_template_that_refuses_is_reported(tiny_tokenizer: TokenizerWrapper) -> None:
    picky = TokenizerWrapper(copy.deepcopy(tiny_tokenizer._tokenizer))
    picky._tokenizer.chat_template = "{{ raise_exception('only users may speak') }}"
    with pytest.raises(PromptError, match="only users may speak"):
        encode_prompt("x", picky)


HARMONY = (
    "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final"
    "{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
THINKING = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "begin", "end"),
    [
        (CHAT_TEMPLATES["llama2"], "", "</s><s>[INST] J [/INST]"),
        (CHAT_TEMPLATES["mistral3"], "", "</s>[INST] J[/INST]"),
        (CHAT_TEMPLATES["zephyr"], "", "</s>\n<|user|>\nJ</s>\n<|assistant|>\n"),
        (HARMONY, "<|channel|>final<|message|>", "<|end|><|start|>user<|message|>J<|end|><|start|>assistant"),
        (THINKING, "", "<|end|>\n<|start|>user\nJ<|end|>\n<|start|>assistant\n<think>\n\n</think>\n\n"),
        (None, "", "\nuser: J\nassistant:"),
    ],
    ids=["llama2", "mistral3", "zephyr", "channels", "thinking", "no template"],
)  # fmt: skip
def test_next_turn_is_the_text_of_the_template_between_answers(
    tiny_tokenizer: TokenizerWrapper, template: str | None, begin: str, end: str
) -> None:
    tokenizer = with_chat_template(tiny_tokenizer, template)
    turn = PromptStyle(thinking=False).next_turn("J", tokenizer)
    assert (turn.begin, turn.end) == (begin, end)
