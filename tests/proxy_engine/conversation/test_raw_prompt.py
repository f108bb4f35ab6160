"""Prompts that go to the model as they are."""

from __future__ import annotations

import numpy as np
import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_models import make_tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from proxy_engine import InferenceEngine, PromptError, PromptTooLongError, RawPrompt


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
    backend = make_tiny_tokenizer()._tokenizer.backend_tokenizer
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
