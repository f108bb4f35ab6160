"""Logits processors in the generate loops of transformers, and on tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from proxy_engine import ModelFetchError
from proxy_engine.models.embedded import embedded_model
from state_machines import RegexStateMachine, TokenRejectedError, Vocabulary, VocabularyError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
processors = pytest.importorskip("state_machines.processors.torch")

MAX_TOKENS = 40


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    legs: int = Field(ge=0, le=8)
    names: list[Annotated[str, Field(max_length=12)]] = Field(max_length=2)


OUTPUTS: list[Any] = [Pet, RegexStateMachine(r"(yes|no)(, (yes|no)){0,4}\."), {"type": "boolean"}]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The tokenizer of the embedded model, padding on the left."""
    try:
        directory: Path = embedded_model()
    except ModelFetchError as error:
        pytest.skip(str(error))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory))
    tokenizer.padding_side = "left"
    return tokenizer


def make_model(tokenizer: Any, seed: int) -> Any:
    """A random llama whose logits are wider than the vocabulary."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer) + 56,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=1.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return make_model(tokenizer, 0)


def texts_of(
    model: Any, tokenizer: Any, output: Any, prompts: list[str], seed: int = 0, **options: Any
) -> list[str]:
    torch.manual_seed(seed)
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    processor = processors.logits_processor(output, tokenizer, max_tokens=MAX_TOKENS)
    sequences = model.generate(
        **inputs, max_new_tokens=MAX_TOKENS, logits_processor=[processor], **options
    )
    answers = sequences[:, inputs["input_ids"].shape[1] :]
    texts: list[str] = tokenizer.batch_decode(answers, skip_special_tokens=True)
    return texts


def check(output: Any, text: str) -> None:
    if isinstance(output, RegexStateMachine):
        assert output.matches(text)
    elif isinstance(output, dict):
        assert text in ("true", "false")
    else:
        output.model_validate_json(text)


MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 1.5},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3},
    "several beams": {"num_beams": 4, "num_return_sequences": 2},
    "sampled beams": {"num_beams": 3, "do_sample": True},
    "repetition penalty": {"repetition_penalty": 1.3, "do_sample": True, "top_k": 5},
}


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**31), output=st.sampled_from(OUTPUTS))
def test_padded_batches_have_texts_of_the_output(
    mode: str, seed: int, output: Any, model: Any, tokenizer: Any
) -> None:
    prompts = ["A pet:", "Describe another pet in a longer prompt:"]
    texts = texts_of(model, tokenizer, output, prompts, seed, **MODES[mode])
    assert len(texts) == 2 * MODES[mode].get("num_return_sequences", 1)
    for text in texts:
        check(output, text)


@pytest.mark.parametrize("padding", [False, True])
def test_greedy_texts_do_not_depend_on_the_batch(padding: bool, model: Any, tokenizer: Any) -> None:
    prompt = "A pet:"
    alone = texts_of(model, tokenizer, Pet, [prompt])
    other = "Describe another pet in a longer prompt:" if padding else prompt
    assert texts_of(model, tokenizer, Pet, [prompt, other])[:1] == alone


@pytest.mark.parametrize("sampled", [False, True])
def test_assisted_generation(sampled: bool, model: Any, tokenizer: Any) -> None:
    alone = texts_of(model, tokenizer, Pet, ["A pet:"])
    for options in ({"assistant_model": make_model(tokenizer, 1)}, {"prompt_lookup_num_tokens": 3}):
        (text,) = texts_of(model, tokenizer, Pet, ["A pet:"], do_sample=sampled, **options)
        check(Pet, text)
        assert sampled or [text] == alone


def test_processor_serves_one_generation_after_another(model: Any, tokenizer: Any) -> None:
    processor = processors.logits_processor(Pet, tokenizer, max_tokens=MAX_TOKENS)
    for prompt in ("A", "A", "Another"):
        inputs = tokenizer([prompt], return_tensors="pt")
        ids = model.generate(**inputs, max_new_tokens=MAX_TOKENS, logits_processor=[processor])[0]
        check(Pet, tokenizer.decode(ids[inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def test_end_tokens_of_the_generation_config(model: Any, tokenizer: Any) -> None:
    ends = [tokenizer.eos_token_id, 4]
    processor = processors.logits_processor(Pet, tokenizer, end_token_ids=ends)
    assert processor.vocabulary.end_token_ids == set(ends)
    again = processors.logits_processor(Pet, tokenizer, end_token_ids=ends)
    assert again.vocabulary is processor.vocabulary


SMALL = Vocabulary([b"a", b"b", b"</s>"], end_token_ids=[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 6])
def test_logits_keep_shape_and_type(dtype: Any, width: int) -> None:
    processor = processors.logits_processor(RegexStateMachine("a|ba"), SMALL)
    processor(torch.tensor([[7], [8]]), torch.zeros((2, width)))
    scores = torch.ones((2, width), dtype=dtype)
    masked = processor(torch.tensor([[7, 0], [8, 1]]), scores)
    assert masked.dtype == dtype
    assert [torch.nonzero(row == 1).flatten().tolist() for row in masked] == [[2], [0]]
    assert bool((scores == 1).all())


def test_wrong_calls_are_refused() -> None:
    processor = processors.logits_processor(RegexStateMachine("a"), SMALL)
    with pytest.raises(VocabularyError, match="logits for 2 tokens"):
        processor(torch.tensor([[7]]), torch.zeros((1, 2)))
    processor.reset()
    processor(torch.tensor([[7]]), torch.zeros((1, 3)))
    with pytest.raises(TokenRejectedError):
        processor(torch.tensor([[7, 1]]), torch.zeros((1, 3)))
