"""Prompts to token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from chat_templates import CHAT_TEMPLATES, with_chat_template
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from rendered_prompts import encode_prompt
from tiny_models import make_tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from proxy_engine import (
    InferenceEngine,
    Interaction,
    JsonContent,
    PromptError,
    PromptTooLongError,
    RawPrompt,
)
from proxy_engine.conversation.prompts import PromptStyle, message_boundaries, template_messages


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
    picky = with_chat_template(tiny_tokenizer, "{{ raise_exception('only users may speak') }}")
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


# Prompts that go to the model as they are.


def test_text_and_its_tokens_are_the_same_prompt(tiny_engine: InferenceEngine) -> None:
    ids = list(tiny_engine.tokenizer.encode("abc 12"))
    results = [
        tiny_engine.generate(RawPrompt(content), max_tokens=8) for content in ("abc 12", ids)
    ]
    assert results[0].text == results[1].text
    array = np.array(ids)
    assert tiny_engine.generate(RawPrompt(array), max_tokens=8).text == results[0].text
    assert results[0].usage.prompt_tokens == len(ids)
    assert tiny_engine.generate("abc 12", max_tokens=1).usage.prompt_tokens > len(ids)


def test_begin_token_is_added_unless_the_text_begins_with_it() -> None:
    backend = make_tiny_tokenizer().backend_tokenizer
    start = backend.token_to_id("<|start|>")
    backend.post_processor = TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", start)]
    )
    tokenizer = TokenizerWrapper(
        PreTrainedTokenizerFast(
            tokenizer_object=backend, eos_token="<|end|>", bos_token="<|start|>"
        )
    )
    expected = [start, *tokenizer.encode("x", add_special_tokens=False)]
    for text in ("x", "<|start|>x"):
        assert RawPrompt(text).token_ids(tokenizer, 320) == expected
    assert RawPrompt("").token_ids(tokenizer, 320) == [start]


@pytest.mark.parametrize(
    "content",
    [
        "",
        [],
        [-1],
        [320],
        ["a"],
        5,
        None,
        b"ab",
        {1: 2},
        [[1]],
        [True],
        [1.0],
        "\ud800",
        [10**5000],
    ],
    ids=lambda content: type(content).__name__,
)
def test_invalid_prompts_are_refused(tiny_engine: InferenceEngine, content: object) -> None:
    with pytest.raises(PromptError):
        tiny_engine.generate(RawPrompt(content))  # type: ignore[arg-type]


def test_too_long_prompts_are_refused(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(PromptTooLongError):
        tiny_engine.generate(RawPrompt([1] * 1000))


def test_has_a_format_but_no_tools(tiny_engine: InferenceEngine) -> None:
    assert tiny_engine.generate(RawPrompt("a"), response_format={"const": 1}).parsed == 1
    with pytest.raises(PromptError):
        tiny_engine.generate(RawPrompt("a"), tools=[{"type": "function", "name": "b"}])


# Where other conversations part from a prompt.


Messages = Sequence[Mapping[str, Any]]

roles = st.sampled_from(["user", "assistant", "tool"])
contents = st.text("ab? !", min_size=1, max_size=5)
talks = st.lists(st.tuples(roles, contents), min_size=1, max_size=6).map(
    lambda said: [{"role": role, "content": content} for role, content in said]
)


def spell(messages: Messages) -> list[int]:
    """A template: a mark, the role, the text; the answer's mark at the end."""
    text = "".join(f"<{message['role'][0]}>{message['content']}" for message in messages)
    return list(f"{text}<a>".encode())


def boundaries_of(messages: Messages, encode: Any = spell) -> list[str]:
    ids = encode(messages)
    return [bytes(ids[:length]).decode() for length in message_boundaries(messages, ids, encode)]


def test_one_message_shares_what_stands_before_it() -> None:
    def described(messages: Messages) -> list[int]:
        return list(b"tools: f, g. ") + spell(messages)

    assert boundaries_of([{"role": "user", "content": "hello"}], described) == [
        "tools: f, g. <u>",
        "tools: f, g. <u>hello<a",
    ]


def test_messages_rewritten_by_the_template_are_not_shared() -> None:
    def forgetful(messages: Messages) -> list[int]:
        """Tools stand before the user's last message, as some families want it."""
        last = max(k for k, message in enumerate(messages) if message["role"] == "user")
        return [
            token
            for k, message in enumerate(messages)
            for token in [*(b"[tools]" if k == last else b""), *spell([message])[:-3]]
        ] + list(b"<a>")

    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    # Once it goes on, the tools stand elsewhere.
    assert "<u>one<a>two" in boundaries_of(messages, forgetful)


def test_conversations_that_cannot_be_encoded_are_left_out() -> None:
    def strict(messages: Messages) -> list[int]:
        if messages[-1]["content"] == "?" and len(messages) > 1:
            raise PromptError("no")
        return spell(messages)

    messages = [{"role": "user", "content": "hello"}]
    assert boundaries_of(messages, strict) == ["<u>"]

    def refusing(_: Messages) -> list[int]:
        raise PromptError("no")

    assert message_boundaries(messages, spell(messages), refusing) == ()
    assert message_boundaries([], [], refusing) == ()


@given(talks)
def test_boundaries_are_shared_prefixes(messages: list[dict[str, str]]) -> None:
    ids = spell(messages)
    found = message_boundaries(messages, ids, spell)
    assert list(found) == sorted(set(found))
    assert all(0 < length < len(ids) for length in found)
    assert len(found) <= 3
    changed = [*messages[:-1], {**messages[-1], "content": "#"}]
    before = len(spell(messages[:-1])) - 3
    assert any(before < length <= before + 3 for length in found)
    assert all(ids[:length] == spell(changed)[:length] for length in found if length <= before + 3)


@pytest.mark.parametrize("last", ["user", "assistant"])
def test_with_a_real_template(tiny_tokenizer: TokenizerWrapper, last: str) -> None:
    messages = [
        {"role": "system", "content": "Answer in JSON."},
        {"role": "user", "content": "abcabc"},
        {"role": "assistant", "content": '{"a": 1}'},
        {"role": "user", "content": "and 12?"},
    ]
    if last == "assistant":
        messages.pop()

    def encode(some: Messages) -> list[int]:
        return encode_prompt(list(some), tiny_tokenizer)

    ids = encode(messages)
    found = message_boundaries(messages, ids, encode)
    for length in found:
        assert 0 < length < len(ids)
    assert len(found) >= 2
    texts = [tiny_tokenizer.decode(ids[:length]) for length in found]
    assert texts[0] == "<|start|>system\nAnswer in JSON.<|end|><|start|>user\n"
    # What the next prompt of the conversation has in common with this one.
    answer = [{"role": "assistant", "content": "{}"}] if last == "user" else []
    later = encode([*messages, *answer, {"role": "user", "content": "more"}])
    assert ids[: max(found)] == later[: max(found)]


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "llama2"])
def test_boundaries_of_adapted_conversations(tiny_tokenizer: TokenizerWrapper, name: str) -> None:
    tokenizer = with_chat_template(tiny_tokenizer, CHAT_TEMPLATES[name])
    roles = ("system", "system", "assistant", "user", "user")
    messages = [{"role": role, "content": f"{role}{k}."} for k, role in enumerate(roles)]

    def encode(some: Messages) -> list[int]:
        return encode_prompt(list(some), tokenizer)

    ids = encode(messages)
    found = message_boundaries(messages, ids, encode)
    texts = [tokenizer.decode(ids[:length]) for length in found]
    # The same instructions before another message, another last message, and the continuation.
    assert "system0.\n\nsystem1." in texts[0]
    assert "assistant2." not in texts[0]
    assert texts[1].endswith("user3.\n\n")
    later = encode([*messages, {"role": "assistant", "content": "{}"}, messages[3]])
    assert ids[: found[-1]] == later[: found[-1]]
    assert "user4." in texts[-1]
