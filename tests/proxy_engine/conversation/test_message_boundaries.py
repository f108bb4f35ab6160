"""Where other conversations part from a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from chat_templates import CHAT_TEMPLATES, with_chat_template
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from rendered_prompts import encode_prompt

from proxy_engine import PromptError
from proxy_engine.conversation.prompts import message_boundaries

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
