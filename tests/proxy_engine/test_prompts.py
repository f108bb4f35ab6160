"""Prompts to token ids."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import Interaction, JsonContent, PromptError
from proxy_engine.prompts import encode_prompt, to_messages


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


def test_a_conversation_that_ends_with_the_assistant_goes_on(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    conversation = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The"}]
    expected = "<|start|>user\nq<|end|><|start|>assistant\nThe"
    assert decoded(conversation, tiny_tokenizer) == expected


def test_without_a_chat_template_texts_are_joined(tiny_tokenizer: TokenizerWrapper) -> None:
    plain = TokenizerWrapper(copy.deepcopy(tiny_tokenizer._tokenizer))
    plain._tokenizer.chat_template = None
    plain.has_chat_template = False
    prompt = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert decoded(prompt, plain) == "a\n\nb"


def test_messages_keep_what_else_a_template_may_know() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    assert to_messages([message]) == [{**message, "content": ""}]


def test_a_template_that_refuses_is_reported(tiny_tokenizer: TokenizerWrapper) -> None:
    picky = TokenizerWrapper(copy.deepcopy(tiny_tokenizer._tokenizer))
    picky._tokenizer.chat_template = "{{ raise_exception('only users may speak') }}"
    with pytest.raises(PromptError, match="only users may speak"):
        encode_prompt("x", picky)
