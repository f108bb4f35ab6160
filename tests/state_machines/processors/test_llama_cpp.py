"""Logits processors in llama-cpp-python's own loop, with the embedded model's GGUF file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.utils import load_tokenizer
from pydantic import BaseModel, Field

from proxy_engine import ModelFetchError
from proxy_engine.models.embedded import embedded_gguf, embedded_model
from state_machines import InvalidArgumentError, RegexStateMachine, Vocabulary
from state_machines.processors.numpy import logits_processor

llama_cpp = pytest.importorskip("llama_cpp")

MAX_TOKENS = 40
pytestmark = pytest.mark.model


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    legs: int = Field(ge=0, le=8)
    names: list[Annotated[str, Field(max_length=12)]] = Field(max_length=2)


SCHEMAS: list[Any] = [Pet.model_json_schema(), {"enum": ["red", [1, None]]}, {"type": "boolean"}]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        path: Path = embedded_gguf(tmp_path_factory.mktemp("gguf"))
    except ModelFetchError as error:
        pytest.skip(str(error))
    model = llama_cpp.Llama(str(path), n_ctx=512, n_threads=1, seed=0, verbose=False)
    yield model
    model.close()


def test_bytes_of_tokens_are_those_of_the_transformers_tokenizer(llama: Any) -> None:
    expected = Vocabulary.from_tokenizer(load_tokenizer(embedded_model()))
    found = logits_processor({"type": "null"}, llama).vocabulary
    assert found.token_bytes == expected.token_bytes
    assert found.special_tokens == expected.special_tokens
    assert found.end_token_ids >= expected.end_token_ids
    assert logits_processor(Pet, llama).vocabulary is found


@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**31),
    schema=st.sampled_from(SCHEMAS),
    temperature=st.sampled_from([0, 1.2]),
)
def test_completions_have_texts_of_the_schema(
    seed: int, schema: Any, temperature: float, llama: Any
) -> None:
    llama.set_seed(seed)
    processors = [logits_processor(schema, llama, max_tokens=MAX_TOKENS)]
    result = llama.create_completion(
        f"Example {seed}:",
        max_tokens=MAX_TOKENS,
        temperature=temperature,
        logits_processor=llama_cpp.LogitsProcessorList(processors),
    )
    value = json.loads(result["choices"][0]["text"])
    if "enum" in schema:
        assert value in schema["enum"]
    elif "properties" in schema:
        Pet.model_validate(value)


def test_processor_serves_one_completion_after_another(llama: Any) -> None:
    processor = logits_processor(RegexStateMachine("(yes|no)[.!]"), llama, max_tokens=8)
    for prompt in ("Is it?", "Is it?", "Is it? No.", "Else"):
        messages = [{"role": "user", "content": prompt}]
        result = llama.create_chat_completion(messages, logits_processor=[processor])
        assert result["choices"][0]["message"]["content"] in ("yes.", "no.", "yes!", "no!")


def test_draft_models_are_refused(llama: Any) -> None:
    llama.draft_model = llama_cpp.llama_speculative.LlamaPromptLookupDecoding()
    try:
        with pytest.raises(InvalidArgumentError, match="draft model"):
            logits_processor(Pet, llama)
    finally:
        llama.draft_model = None
