"""Conversations with tools through the chat templates of real models.

``PROXY_ENGINE_TOKENIZERS`` names a folder with ``tokenizer.json`` and ``tokenizer_config.json``
files at any depth; without it nothing is tested here.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from data_files import NO_TOKENIZERS
from mlx_lm.tokenizer_utils import TokenizerWrapper
from real_tokenizers import REAL_TEMPLATES, real_tokenizer
from rendered_prompts import encode_prompt

from proxy_engine import Interaction, ToolCall
from proxy_engine.tools import Tool
from state_machines.tool_calls import format_named

pytestmark = pytest.mark.skipif(not REAL_TEMPLATES, reason=NO_TOKENIZERS)

FIRST = ToolCall("call_0123456789", "get_weather", {"city": "Köln", "days": [1, None]})
SECOND = ToolCall("abcdefghi", "get_time", {"zone": "CET"})
TOOLS = [Tool(call.name, "Does things.").to_openai() for call in (FIRST, SECOND)]
CONVERSATION = [
    Interaction("system", "Be brief."),
    Interaction("user", "How is it?"),
    Interaction("assistant", "Looking.", tool_calls=[FIRST, SECOND]),
    Interaction.tool_result(SECOND, "noon sharp"),
    Interaction.tool_result(FIRST, {"sky": "clear"}),
    Interaction("assistant", "Clear at noon."),
    Interaction("user", "And then?"),
    Interaction("assistant", tool_calls=[ToolCall("2", "get_time", {"zone": "UTC"})]),
    Interaction.tool_result(ToolCall("2", "get_time"), "tea time"),
]


@pytest.fixture(scope="module", params=REAL_TEMPLATES, ids=lambda path: path.parent.name)
def tokenizer(request: pytest.FixtureRequest) -> TokenizerWrapper:
    """A real tokenizer with its chat template."""
    return real_tokenizer(request.param)


def written(tokenizer: TokenizerWrapper, prompt: Any, **given: Any) -> str:
    text: str = tokenizer.decode(encode_prompt(prompt, tokenizer, **given))
    return text


@pytest.mark.parametrize("native", [True, False])
def test_everything_is_in_the_prompt_in_its_order(
    tokenizer: TokenizerWrapper, native: bool
) -> None:
    text = written(tokenizer, CONVERSATION, tools=TOOLS, native_tools=native)
    assert "Be brief." in text
    assert text.count("Does things.") == 2
    rest = text[text.index("How is it?") :]
    calls = ["get_weather", "Köln", "get_time", "CET", "clear", "noon sharp"]
    # Templates with one call a message get each result behind its call.
    if text.index("clear") < text.index("CET"):
        calls = ["get_weather", "Köln", "clear", "get_time", "CET", "noon sharp"]
    for word in ["Looking.", *calls, "Clear at noon.", "And then?", "get_time", "UTC", "tea time"]:
        assert word in rest, word
        rest = rest[rest.index(word) + len(word) :]


def test_a_family_has_its_own_text(tokenizer: TokenizerWrapper) -> None:
    own = format_named("llama3")
    text = written(tokenizer, CONVERSATION, tools=TOOLS, tool_format=own, native_tools=False)
    assert '{"name": "get_time", "parameters": {"zone": "UTC"}}' in text


def test_the_conversation_goes_on(tokenizer: TokenizerWrapper) -> None:
    prompt = [*CONVERSATION, Interaction("assistant", "It is")]
    assert written(tokenizer, prompt, tools=TOOLS).rstrip().endswith("It is")


def test_conversation_that_the_template_takes_is_not_adapted(tokenizer: TokenizerWrapper) -> None:
    orders = [
        order for n in range(1, 5) for order in product(("system", "user", "assistant"), repeat=n)
    ]
    for roles in orders:
        words = [f"word{index}." for index in range(len(roles))]
        messages = [
            {"role": role, "content": word} for role, word in zip(roles, words, strict=True)
        ]
        is_continued = roles[-1] == "assistant"
        try:
            expected = tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=not is_continued,
                continue_final_message=is_continued,
            )
        except Exception:
            expected = []
        ids = encode_prompt(messages, tokenizer)
        text = tokenizer.decode(expected)
        if all(word in text for word in words):
            assert ids == expected
        assert all(word in tokenizer.decode(ids) for word in words), roles
