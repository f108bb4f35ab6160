"""From what a caller says to the token ids a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jinja2
from mlx_lm.tokenizer_utils import TokenizerWrapper

from .errors import PromptError
from .interaction import Interaction

__all__ = ["Message", "Prompt", "encode_prompt", "to_messages"]

Message: TypeAlias = Mapping[str, Any]
"""An OpenAI-style chat message: ``role``, ``content``, and what the chat template knows besides."""

Prompt: TypeAlias = str | Interaction | Sequence[Message | Interaction]
"""One user message, or a conversation."""


def encode_prompt(
    prompt: Prompt, tokenizer: TokenizerWrapper, *, thinking: bool = True
) -> list[int]:
    """The token ids of ``prompt`` through the tokenizer's chat template, ready to be answered.

    A conversation that ends with the assistant is continued where it stops. A tokenizer without
    a chat template gets the texts, joined by blank lines. ``thinking`` is for the templates that
    have such a switch. Raises ``PromptError``.
    """
    messages = to_messages(prompt)
    if not any(message["content"] or len(message) > 2 for message in messages):
        raise PromptError("the prompt is empty")
    if tokenizer.has_chat_template:
        ids = _apply_chat_template(messages, tokenizer, thinking=thinking)
    else:
        ids = list(tokenizer.encode("\n\n".join(message["content"] for message in messages)))
    if not ids:
        raise PromptError("the prompt is empty")
    return ids


def to_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """``prompt`` as new message dicts whose ``content`` is a string. Raises ``PromptError``."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, Interaction):
        return [prompt.to_message()]
    if isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Iterable):
        raise PromptError(
            f"a prompt of type {type(prompt).__name__} is not known",
            hint="Give a string, a list of messages, or a list of interactions.",
        )
    return [_message(item, index) for index, item in enumerate(prompt)]


def _message(item: Message | Interaction, index: int) -> dict[str, Any]:
    if isinstance(item, Interaction):
        return dict(item.to_message())
    if not isinstance(item, Mapping) or not isinstance(item.get("role"), str):
        raise PromptError(f"message {index} is neither an interaction nor a dict with a role")
    return {**item, "content": _content(item.get("content"), index)}


def _content(content: Any, index: int) -> str:
    """A string, or OpenAI's list of parts, of which a language model reads the text ones."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        texts = []
        for part in content:
            match part:
                case {"type": "text", "text": str(text)}:
                    texts.append(text)
                case _:
                    raise PromptError(f"message {index} has content that is not text")
        return "".join(texts)
    raise PromptError(f"message {index} has content of type {type(content).__name__}")


def _apply_chat_template(
    messages: list[dict[str, Any]], tokenizer: TokenizerWrapper, *, thinking: bool
) -> list[int]:
    goes_on = messages[-1]["role"] == "assistant"
    switches = {} if thinking else {"enable_thinking": False}
    try:
        ids = tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=not goes_on,
            continue_final_message=goes_on,
            **switches,
        )
    except (jinja2.TemplateError, ValueError, TypeError) as error:
        raise PromptError(f"the model's chat template refuses the messages: {error}") from error
    return [int(token_id) for token_id in ids]
