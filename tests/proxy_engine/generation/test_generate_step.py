"""The loop as a plain generator: the same tokens as the engine, without one."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from cached_models import random_llama
from mlx_lm.generate import generate_step as mlx_lm_generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_sampler
from object_schemas import closed_object

from proxy_engine import CacheOptions, InferenceEngine, InvalidOptionError, RawPrompt, generate_step
from proxy_engine.generation import ForwardPass, restrictions
from proxy_engine.models.loading import logits_width
from samplers import SamplingParameters
from state_machines import ChoiceStateMachine, JsonSchemaStateMachine, StateMachine, Vocabulary

PERSON = closed_object(name={"type": "string", "maxLength": 12}, age={"type": "integer"})
PROMPT = "Ada is 36."


@pytest.fixture
def prompt_ids(tiny_tokenizer: Any) -> list[int]:
    ids: list[int] = RawPrompt(PROMPT).token_ids(tiny_tokenizer, 10**9)
    return ids


@pytest.fixture
def vocabulary(tiny_model: Any, tiny_tokenizer: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(tiny_tokenizer, size=logits_width(tiny_model))


@pytest.fixture(scope="module")
def engine(tiny_model: Any, tiny_tokenizer: Any) -> Any:
    with InferenceEngine(tiny_model, tiny_tokenizer, cache=CacheOptions(max_bytes=0)) as engine:
        yield engine


@pytest.fixture
def person() -> JsonSchemaStateMachine:
    return JsonSchemaStateMachine(PERSON, whitespace="spaced")


def ids_of(steps: Any) -> tuple[int, ...]:
    return tuple(token_id for token_id, _ in steps)


def text_of(vocabulary: Vocabulary, token_ids: tuple[int, ...]) -> str:
    forms = (vocabulary.token_bytes[i] or b"" for i in token_ids)
    return b"".join(form for form in forms if not form.startswith(b"\xff")).decode()


@pytest.mark.parametrize("fast_forward", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("is_constrained", [True, False])
def test_tokens_equal_those_of_the_engine(
    engine: InferenceEngine,
    tiny_model: Any,
    tiny_tokenizer: Any,
    prompt_ids: list[int],
    person: StateMachine,
    *,
    is_constrained: bool,
    temperature: float,
    fast_forward: bool,
) -> None:
    machine = person if is_constrained else None
    expected = engine.generate(
        RawPrompt(PROMPT),
        response_format=machine,
        max_tokens=40,
        temperature=temperature,
        seed=3,
        fast_forward=fast_forward,
    )
    steps = generate_step(
        mx.array(prompt_ids),
        tiny_model,
        tokenizer=tiny_tokenizer,
        machine=machine,
        max_tokens=40,
        sampler=SamplingParameters(temperature=temperature, seed=3),
        fast_forward=fast_forward,
    )
    assert ids_of(steps) == expected.token_ids


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_samplers_of_mlx_lm_produce_matching_text(
    tiny_model: Any,
    tiny_tokenizer: Any,
    vocabulary: Vocabulary,
    prompt_ids: list[int],
    person: StateMachine,
    temperature: float,
) -> None:
    token_ids = ids_of(
        generate_step(
            prompt_ids,
            tiny_model,
            tokenizer=tiny_tokenizer,
            machine=person,
            vocabulary=vocabulary,
            max_tokens=40,
            sampler=make_sampler(temp=temperature),
        )
    )
    text = text_of(vocabulary, token_ids)
    assert person.matches(text)
    assert set(json.loads(text)) == {"name", "age"}
    assert len(token_ids) <= 40


def test_log_probabilities_are_normalized_over_allowed_tokens(
    tiny_model: Any,
    tiny_tokenizer: Any,
    vocabulary: Vocabulary,
    prompt_ids: list[int],
    person: StateMachine,
) -> None:
    matcher = person.matcher(vocabulary)
    steps = generate_step(prompt_ids, tiny_model, tokenizer=tiny_tokenizer, machine=person)
    certain = 0
    for token_id, logprobs in steps:
        values = np.array(logprobs)
        assert np.exp(values).sum() == pytest.approx(1, abs=1e-4)
        allowed = matcher.allowed_tokens()
        assert not np.isfinite(values)[~allowed].any()
        assert np.isfinite(values[token_id])
        certain += values[token_id] == 0
        matcher.advance(token_id)
    assert certain > 3


def test_logits_processors_cannot_allow_masked_tokens(
    tiny_model: Any, tiny_tokenizer: Any, vocabulary: Vocabulary, prompt_ids: list[int]
) -> None:
    calls: list[int] = []

    def prefers_b(tokens: mx.array, logits: mx.array) -> mx.array:
        calls.append(tokens.size)
        favourites = mx.array([form in (b"b", b"x") for form in vocabulary.token_bytes])
        return mx.where(favourites, 100.0, logits)

    machine = ChoiceStateMachine(["a", "b", "c"])
    steps = generate_step(
        prompt_ids,
        tiny_model,
        tokenizer=tiny_tokenizer,
        machine=machine,
        logits_processors=[prefers_b],
    )
    assert text_of(vocabulary, ids_of(steps)) == "b"
    assert calls[0] == len(prompt_ids)


@pytest.mark.parametrize("max_tokens", [1, 7])
def test_unconstrained_text_ends_at_max_tokens(
    tiny_model: Any, tiny_tokenizer: Any, prompt_ids: list[int], max_tokens: int
) -> None:
    progress: list[tuple[int, int]] = []
    steps = generate_step(
        prompt_ids,
        tiny_model,
        tokenizer=tiny_tokenizer,
        max_tokens=max_tokens,
        prefill_step_size=4,
        prompt_progress_callback=lambda *pair: progress.append(pair),
    )
    assert 1 <= len(ids_of(steps)) <= max_tokens
    total = len(prompt_ids)
    assert progress[0] == (0, total)
    assert progress[-1] == (total, total)
    assert progress == sorted(progress)


def test_prompt_cache_is_extended_in_place(
    engine: InferenceEngine, tiny_model: Any, tiny_tokenizer: Any, prompt_ids: list[int]
) -> None:
    expected = engine.generate(RawPrompt(PROMPT), temperature=0.0, max_tokens=9, min_tokens=9)
    cache = make_prompt_cache(tiny_model)
    first = len(prompt_ids) // 2
    tiny_model(mx.array([prompt_ids[:first]]), cache=cache)
    rest = prompt_ids[first:]
    steps = generate_step(
        rest, tiny_model, tokenizer=tiny_tokenizer, max_tokens=9, prompt_cache=cache
    )
    token_ids = ids_of(steps)
    assert token_ids == expected.token_ids[: len(token_ids)]
    assert cache[0].offset - len(prompt_ids) - len(token_ids) in (-1, 0)


@pytest.mark.parametrize("options", [{"kv_bits": 8, "kv_group_size": 32}, {"max_kv_size": 8}])
def test_quantized_and_bounded_caches_produce_matching_text(
    tiny_tokenizer: Any, vocabulary: Vocabulary, prompt_ids: list[int], options: Any
) -> None:
    options = {"quantized_kv_start": 0, **options}
    model = random_llama(vocabulary.size)
    machine = ChoiceStateMachine(["a", "bcd", "bce"])
    steps = generate_step(prompt_ids, model, tokenizer=tiny_tokenizer, machine=machine, **options)
    assert machine.matches(text_of(vocabulary, ids_of(steps)))


def test_closed_generator_runs_no_more_passes(
    tiny_model: Any,
    tiny_tokenizer: Any,
    prompt_ids: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = 0
    forward = ForwardPass.__call__

    def counting(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal passes
        passes += 1
        return forward(self, *arguments, **named)

    monkeypatch.setattr(ForwardPass, "__call__", counting)
    steps = generate_step(prompt_ids, tiny_model, tokenizer=tiny_tokenizer, max_tokens=400)
    assert len(list(islice(steps, 2))) == 2
    steps.close()
    assert list(steps) == []
    assert passes <= 4


def test_slow_masks_do_not_change_the_tokens(
    tiny_model: Any,
    tiny_tokenizer: Any,
    prompt_ids: list[int],
    person: StateMachine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments: Any = {"tokenizer": tiny_tokenizer, "max_tokens": 40}
    fast = ids_of(generate_step(prompt_ids, tiny_model, machine=person, **arguments))
    monkeypatch.setattr(restrictions, "MASK_STEPS", 0)
    monkeypatch.setattr(restrictions, "SLOW_MASK_STEPS", 0)
    fresh = JsonSchemaStateMachine({**PERSON, "title": "other"}, whitespace="spaced")
    assert ids_of(generate_step(prompt_ids, tiny_model, machine=fresh, **arguments)) == fast


def _without_even_tokens(_: mx.array, logits: mx.array) -> mx.array:
    return mx.where(mx.arange(logits.shape[-1]) % 2 == 0, -mx.inf, logits)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_tokens": 60, "sampler": lambda logprobs: mx.argmax(logprobs, axis=-1)},
        {"logits_processors": [_without_even_tokens], "prefill_step_size": 2},
        {"max_tokens": -1, "max_kv_size": 16},
    ],
    ids=["default", "sampler", "processors", "endless"],
)
def test_calls_of_mlx_lm_run_unchanged(
    tiny_model: Any, prompt_ids: list[int], options: Any
) -> None:
    prompt, stream = mx.array(prompt_ids), mx.default_stream(mx.default_device())
    expected = mlx_lm_generate_step(prompt, tiny_model, stream, **options)
    steps = generate_step(prompt, tiny_model, stream, **options)
    pairs = list(islice(zip(steps, expected, strict=True), 40))
    assert pairs
    for (token_id, logprobs), (expected_id, expected_logprobs) in pairs:
        assert token_id == int(expected_id)
        assert mx.allclose(logprobs, expected_logprobs, atol=1e-4).item()


def test_prompt_may_be_embeddings(prompt_ids: list[int], vocabulary: Vocabulary) -> None:
    model = random_llama(vocabulary.size)
    embeddings = model.model.embed_tokens(mx.array(prompt_ids))
    prompts = [(mx.array(prompt_ids), None), (mx.array([], mx.int32), embeddings)]
    tokens = [
        ids_of(generate_step(prompt, model, max_tokens=9, input_embeddings=given))
        for prompt, given in prompts
    ]
    assert tokens[0] == tokens[1]
    with pytest.raises(InvalidOptionError):
        generate_step([1], model, input_embeddings=embeddings)


def test_machine_requires_the_tokenizer(tiny_model: Any, person: StateMachine) -> None:
    with pytest.raises(InvalidOptionError, match="tokenizer"):
        generate_step([1], tiny_model, machine=person)


@pytest.mark.parametrize(
    ("option", "changed"),
    [("prompt", {"prompt": []}), ("max_tokens", {"max_tokens": 0}), ("vocabulary", {})],
)
def test_wrong_arguments_are_named(
    tiny_model: Any, tiny_tokenizer: Any, option: str, changed: Any
) -> None:
    arguments: Any = {"prompt": [1], **changed}
    if option == "vocabulary":
        arguments["vocabulary"] = Vocabulary([b"a", b"</s>"], end_token_ids=[1])
    prompt = arguments.pop("prompt")
    with pytest.raises(InvalidOptionError) as caught:
        generate_step(prompt, tiny_model, tokenizer=tiny_tokenizer, **arguments)
    assert caught.value.option == option
