"""Logits processors in mlx-lm's own generate loops."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.generate import BatchGenerator, batch_generate, stream_generate
from mlx_lm.models import llama
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_sampler
from mlx_lm.tokenizer_utils import TokenizerWrapper
from pydantic import BaseModel, Field, TypeAdapter
from tiny_models import make_tiny_model

from proxy_engine import InvalidResponseFormatError
from proxy_engine.integrations.mlx_lm import LogitsProcessor, logits_processor
from state_machines import (
    InvalidArgumentError,
    MaxTokensTooSmallError,
    RegexStateMachine,
    TokenRejectedError,
    Vocabulary,
    VocabularyError,
)
from state_machines.root import Series, Structured, Text

SAMPLER = make_sampler(temp=1.0)
MAX_TOKENS = 48


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    legs: int = Field(ge=0, le=8)
    names: list[Annotated[str, Field(max_length=6)]] = Field(max_length=2)


SCHEMAS: list[Any] = [Pet, list[bool], {"enum": ["a", [1, None]]}, dict[Literal["a", "b"], int]]


def checked(output: Any, text: str) -> Any:
    return json.loads(text) if isinstance(output, dict) else TypeAdapter(output).validate_json(text)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**31),
    output=st.sampled_from(SCHEMAS),
    temperature=st.sampled_from([0, 1.5]),
)
def test_generate_writes_texts_of_the_schema(
    seed: int, output: Any, temperature: float, tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:  # fmt: skip
    mx.random.seed(seed)
    text = mlx_lm.generate(
        tiny_model,
        tiny_tokenizer,
        f"prompt {seed}",
        max_tokens=MAX_TOKENS,
        sampler=make_sampler(temperature),
        logits_processors=[logits_processor(output, tiny_tokenizer, max_tokens=MAX_TOKENS)],
    )
    checked(output, text)


def test_stream_ends_with_the_text(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    processors = [logits_processor(RegexStateMachine("(ab){3}"), tiny_tokenizer)]
    pieces = list(
        stream_generate(tiny_model, tiny_tokenizer, "a prompt", logits_processors=processors)
    )
    assert "".join(piece.text for piece in pieces) == "ababab"
    assert pieces[-1].finish_reason == "stop"


def test_processor_serves_one_generation_after_another(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    processor = logits_processor(Pet, tiny_tokenizer, max_tokens=MAX_TOKENS)
    for prompt in ("one", "one", "another", "one two"):
        text = mlx_lm.generate(
            tiny_model, tiny_tokenizer, prompt, max_tokens=MAX_TOKENS, logits_processors=[processor]
        )
        Pet.model_validate_json(text)


def test_conversation_in_a_prompt_cache(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    cache = make_prompt_cache(tiny_model)
    for message in ("first", "second"):
        text = mlx_lm.generate(
            tiny_model,
            tiny_tokenizer,
            message,
            max_tokens=MAX_TOKENS,
            prompt_cache=cache,
            logits_processors=[logits_processor(Pet, tiny_tokenizer, max_tokens=MAX_TOKENS)],
        )
        Pet.model_validate_json(text)


@pytest.mark.parametrize("drafts", [1, 3])
def test_speculative_generation(
    drafts: int, tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    alone, drafted = (
        mlx_lm.generate(
            tiny_model,
            tiny_tokenizer,
            "a prompt",
            max_tokens=MAX_TOKENS,
            logits_processors=[logits_processor(Pet, tiny_tokenizer, max_tokens=MAX_TOKENS)],
            **options,
        )
        for options in ({}, {"draft_model": make_tiny_model(1), "num_draft_tokens": drafts})
    )
    assert drafted == alone
    Pet.model_validate_json(drafted)


def test_batch_shares_one_processor(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    prompts = [tiny_tokenizer.encode(text) for text in ("a", "longer prompt", "a", "x")]
    result = batch_generate(
        tiny_model,
        tiny_tokenizer,
        prompts,
        max_tokens=MAX_TOKENS,
        sampler=SAMPLER,
        completion_batch_size=2,
        prefill_batch_size=2,
        logits_processors=[logits_processor(Pet, tiny_tokenizer, max_tokens=MAX_TOKENS)],
    )
    assert [Pet.model_validate_json(text) for text in result.texts]


def test_sequences_of_a_batch_have_processors_of_their_own(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    outputs: list[Any] = [Pet, RegexStateMachine("(abc|1)+"), None]
    ends = [[token_id] for token_id in tiny_tokenizer.eos_token_ids]
    generator = BatchGenerator(tiny_model, stop_tokens=ends, sampler=SAMPLER)
    uids = generator.insert(
        [tiny_tokenizer.encode(text) for text in ("a", "bc", "free")],
        [MAX_TOKENS] * 3,
        logits_processors=[
            []
            if output is None
            else [logits_processor(output, tiny_tokenizer, max_tokens=MAX_TOKENS)]
            for output in outputs
        ],
    )
    tokens: dict[int, list[int]] = {uid: [] for uid in uids}
    while responses := generator.next_generated():
        for response in responses:
            if response.finish_reason != "stop":
                tokens[response.uid].append(response.token)
    generator.close()
    pet, text, _ = (tiny_tokenizer.decode(tokens[uid]) for uid in uids)
    Pet.model_validate_json(pet)
    assert outputs[1].matches(text)


def test_composition_and_types_are_outputs(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper
) -> None:
    thoughts = Text("thoughts", begin="<think>", end="</think>", max_chars=10)
    output = Series(thoughts, Structured("answer", grammar=RegexStateMachine("yes|no")))
    text = mlx_lm.generate(
        tiny_model,
        tiny_tokenizer,
        "?",
        max_tokens=60,
        sampler=SAMPLER,
        logits_processors=[logits_processor(output, tiny_tokenizer, max_tokens=60)],
    )
    assert text.startswith("<think>")
    assert text.rpartition("</think>")[2] in ("yes", "no")


def processor_of(pattern: str, vocabulary: Vocabulary) -> LogitsProcessor:
    return logits_processor(RegexStateMachine(pattern), vocabulary)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("width", [3, 5])
def test_logits_keep_shape_and_type(dtype: mx.Dtype, width: int) -> None:
    vocabulary = Vocabulary([b"a", b"b", b"</s>"], end_token_ids=[2])
    for tokens, shape in (([5, 5], (width,)), ([5, 5], (1, width)), ([[5], [6]], (2, width))):
        logits = mx.ones(shape, dtype)
        masked = processor_of("a", vocabulary)(mx.array(tokens), logits)
        assert masked.dtype == dtype
        assert masked.shape == shape
        rows = np.array(masked.astype(mx.float32)).reshape(-1, width)
        assert [np.flatnonzero(row == 1).tolist() for row in rows] == [[0]] * len(rows)
        assert bool((logits == 1).all())


def test_wrong_calls_are_refused() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"</s>"], end_token_ids=[2])
    with pytest.raises(VocabularyError, match="logits for 2 tokens"):
        processor_of("a", vocabulary)(mx.array([1]), mx.zeros((1, 2)))
    with pytest.raises(InvalidArgumentError, match="2 rows of logits and 1 of tokens"):
        processor_of("a", vocabulary)(mx.array([1]), mx.zeros((2, 3)))
    processor = processor_of("a", vocabulary)
    processor(mx.array([9]), mx.zeros((1, 3)))
    with pytest.raises(TokenRejectedError):
        processor(mx.array([9, 1]), mx.zeros((1, 3)))


def test_wrong_outputs_are_refused(tiny_tokenizer: TokenizerWrapper) -> None:
    for output in (None, {"type": "text"}, "a string"):
        with pytest.raises(InvalidResponseFormatError):
            logits_processor(output, tiny_tokenizer)
    with pytest.raises(MaxTokensTooSmallError):
        logits_processor(Pet, tiny_tokenizer, max_tokens=3)
    with pytest.raises(VocabularyError):
        logits_processor(Pet, object())


def test_vocabulary_is_read_once(tiny_tokenizer: TokenizerWrapper) -> None:
    first, second = (logits_processor(Pet, tiny_tokenizer) for _ in range(2))
    assert first.vocabulary is second.vocabulary
    (end, *_) = tiny_tokenizer.encode("a")
    assert logits_processor(Pet, tiny_tokenizer, end_token_ids=end).vocabulary.end_token_ids == {
        end
    }
