"""Drafts of draft heads change the number of passes, not the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from engine_parts import core_of
from head_families import BATCHED, FAMILIES, VOCABULARY
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import PERSON, living_texts, outcome

from proxy_engine import InferenceEngine, SpeculationOptions
from proxy_engine.errors import DraftModelError, ModelError
from proxy_engine.generation import Batch, Drafting
from proxy_engine.generation.forward_pass import ForwardPass
from proxy_engine.generation.prefill import Prefill
from proxy_engine.generation.speculation import head_drafter
from proxy_engine.generation.speculation.draft_heads import HiddenStates
from proxy_engine.generation.speculation.head_drafter import HeadDrafter
from proxy_engine.models.draft_heads import (
    OWN,
    check_own_heads,
    is_draft_head,
    load_draft_head,
)
from proxy_engine.models.loading import LoadedModel

ALWAYS = SpeculationOptions(prompt_lookup=False, is_adaptive=False, num_draft_tokens=4)
SEEDED: dict[str, Any] = {"temperature": 1.0, "seed": 5}
REQUESTS: list[dict[str, Any]] = [
    {"max_tokens": 12, "min_tokens": 12, **SEEDED},
    {"response_format": PERSON, "max_tokens": 50, "fast_forward": False, **SEEDED},
]
PROMPTS = ["hello", "x" * 30]


ONE_OF_EACH = pytest.mark.parametrize("family", ["qwen3_5_mtp", "qwen3_dflash"], indirect=True)
"""A chain behind a model with states, and a block behind one with plain attention."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(family: str, tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    model, head = FAMILIES[family]()
    with InferenceEngine(model, tiny_tokenizer, draft_model=head) as engine:
        yield engine


def drafter_of(engine: InferenceEngine) -> HeadDrafter:
    found = core_of(engine).drafter
    assert isinstance(found, HeadDrafter)
    return found


def test_drafts_are_those_of_mlx_vlm_and_answers_those_without_drafts(
    engine: InferenceEngine, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits of the first token of each draft, whatever was drafted, refused and read before it."""
    drafter = drafter_of(engine)
    module = drafter.model.module
    found: list[tuple[list[int], mx.array]] = []
    draw = drafter._draw

    def recorded(sequence: Any, draft: Any, logits: mx.array) -> Any:
        # Behind a cached prefix, whose last state is not known, a head begins with another one.
        if not draft.steps and not sequence.drafting.text.begin:
            found.append((list(sequence.tokens), mx.array(logits)))
        return draw(sequence, draft, logits)

    monkeypatch.setattr(drafter, "_draw", recorded)
    drafted = accepted = 0
    for request in REQUESTS:
        engine.clear_prompt_cache()
        plain = [engine.generate(prompt, speculation="off", **request) for prompt in PROMPTS]
        for prompts in PROMPTS[:1], PROMPTS:
            engine.clear_prompt_cache()
            results = engine.generate_batch(prompts, speculation=ALWAYS, **request)
            for result, expected in zip(results, plain, strict=False):
                assert outcome(result) == outcome(expected)
                assert 0 <= result.usage.accepted_tokens <= result.usage.drafted_tokens
                if len(prompts) == 1 or family in BATCHED:
                    assert result.usage.drafts.keys() == {"draft_head"}
                drafted += result.usage.drafted_tokens
                accepted += result.usage.accepted_tokens
    # With a seed, random models agree now and then.
    assert 0 < accepted < drafted
    assert len(found) > 11
    if family == "qwen3_dflash with a window":
        # mlx-vlm's own logits depend on how many states are read at once.
        return
    run = core_of(engine).worker.submit
    for tokens, logits in found[::11]:
        expected_logits = run(lambda t=tokens: _peer(engine, drafter, module, t)).result()
        given = run(lambda row=logits: np.array(row[0])).result()
        if expected_logits.sum() == 1:
            assert given.argmax() == expected_logits.argmax()
            continue
        width = len(expected_logits)
        listed = given if width == len(given) else given[2 * np.arange(width)]
        assert np.abs(listed - expected_logits).max() < 2e-3 * np.abs(expected_logits).max()


def _peer(
    engine: InferenceEngine, drafter: HeadDrafter, module: Any, tokens: list[int]
) -> np.ndarray[Any, Any]:
    """The logits that mlx-vlm's own calls have behind a text."""
    model = core_of(engine).loaded.model
    forward = ForwardPass(model, drafter.state_layers)
    ids = mx.array([tokens[:-1]], mx.int32)
    target, known = make_prompt_cache(model), len(tokens) - 1
    hidden = forward(ids, target).states(0, known)[None]
    logits: list[mx.array] = []

    def sampler(found: mx.array) -> mx.array:
        logits.append(found)
        return mx.argmax(found, axis=-1)

    if not hasattr(module, "prefill_from_target_hidden"):
        cache = module.reset(model)
        if drafter.model.reads_target:
            window = model.args.sliding_window
            shared = {
                kind: [
                    part[:, :, -window:] if "sliding" in kind else part for part in layer.state[:2]
                ]
                for kind, layer in zip(model.args.layer_types, target, strict=False)
            }
            module.set_shared_kv(shared, known, known - 1, known)
            hidden = hidden[:, -1:]
        block = module.draft_block(tokens[-1], hidden, cache, module.config.block_size, sampler)
        if not logits:
            # A selector draws its tokens itself.
            return np.eye(VOCABULARY)[int(block[0, 0])]
        return np.array(logits[0].reshape(-1, logits[0].shape[-1])[0])
    module._cache, module._next_position = module.make_cache(), 0
    module.prefill_from_target_hidden(ids, hidden, tokens[-1], sampler)
    module._cache, module._seed_token, module._seed_hidden = [], None, None
    return np.array(logits[0][0, -1])


@ONE_OF_EACH
def test_cached_prompts_keep_the_states_that_the_head_has_read(engine: InferenceEngine) -> None:
    drafter = drafter_of(engine)
    begins: list[tuple[int, int]] = []
    begin = drafter._begin

    def recorded(tokens: list[int], start: int) -> Any:
        text = begin(tokens, start)
        begins.append((start, text.processed))
        return text

    drafter._begin = recorded  # type: ignore[method-assign]
    engine.clear_prompt_cache()
    prompt = "the quick brown fox"
    try:
        first = engine.generate(prompt, speculation=ALWAYS, max_tokens=4)
        again = engine.generate(prompt, speculation=ALWAYS, max_tokens=4)
    finally:
        del drafter._begin
    assert again.token_ids == first.token_ids
    assert again.usage.cached_tokens == begins[-1][0] == begins[-1][1] > 0


@ONE_OF_EACH
def test_head_that_fails_ends_drafts_and_no_request(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drafter = drafter_of(engine)
    expected = engine.generate("hello", speculation="off", max_tokens=20)
    with monkeypatch.context() as patched:
        patched.setattr(drafter.model, "logits", lambda *_: 1 / 0)
        found = engine.generate("hello", speculation=ALWAYS, max_tokens=20)
        assert found.token_ids == expected.token_ids
        patched.setattr(HiddenStates, "add", lambda *_: 1 / 0)
        found = engine.generate("hello", speculation=ALWAYS, max_tokens=20)
        assert found.token_ids == expected.token_ids
    assert "drafts no more" in caplog.text
    later = engine.generate("hello", speculation=ALWAYS, max_tokens=20)
    assert later.token_ids == expected.token_ids
    assert later.usage.drafted_tokens


@ONE_OF_EACH
def test_head_that_fails_at_the_end_of_a_request_ends_none(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter, texts, messages = drafter_of(engine), living_texts(monkeypatch), list[str]()
    # A record of the log would refer to the error, and so to the text.
    monkeypatch.setattr(head_drafter._log, "warning", lambda text, *_: messages.append(text))
    expected = engine.generate("hello", speculation="off", max_tokens=4)
    engine.clear_prompt_cache()
    monkeypatch.setattr(drafter, "step_size", 1000)
    monkeypatch.setattr(drafter, "_read", lambda *_: 1 / 0)
    found = engine.generate("hello", speculation=ALWAYS, max_tokens=4)
    assert found.token_ids == expected.token_ids
    assert "not kept" in messages[0]
    assert not texts


@ONE_OF_EACH
@pytest.mark.parametrize("is_cancelled", [True, False])
def test_head_forgets_prompts_that_are_not_answered(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    texts = living_texts(monkeypatch)
    engine.clear_prompt_cache()
    next_pass, cancelled, passes = Prefill.next_pass, threading.Event(), 0

    def ends(prefill: Prefill) -> bool:
        nonlocal passes
        passes += 1
        if passes == 3:
            assert texts
            if not is_cancelled:
                raise MemoryError
            cancelled.set()
        return next_pass(prefill)

    monkeypatch.setattr(Prefill, "next_pass", ends)
    arguments = {"speculation": ALWAYS, "max_tokens": 4, "prefill_step_size": 2}
    request = core_of(engine).preparation.request("x" * 30, None, arguments, cancelled)
    error = core_of(engine).scheduler.submit(request).exception()
    assert isinstance(error, MemoryError) is not is_cancelled
    assert passes == 3
    assert not texts


@ONE_OF_EACH
def test_engines_that_share_a_head_have_their_own_models(
    engine: InferenceEngine, family: str, tiny_tokenizer: TokenizerWrapper
) -> None:
    module = drafter_of(engine).model.module
    bound = {name: module[name] for name in ("_input_embed", "embed_tokens") if name in module}
    other, _ = FAMILIES[family]()
    with InferenceEngine(other, tiny_tokenizer, draft_model=module):
        assert all(module[name] is layer for name, layer in bound.items())


def test_head_of_another_model_is_refused(tiny_tokenizer: TokenizerWrapper) -> None:
    _, head = FAMILIES["eagle3"]()
    model, _ = FAMILIES["nemotron_h_mtp"]()
    head.config.capture_layer_ids = [0, 1, 7]
    with pytest.raises(DraftModelError, match="does not fit"):
        InferenceEngine(model, tiny_tokenizer, draft_model=head)


def test_heads_are_loaded_from_their_files(
    tmp_path: Path, tiny_tokenizer: TokenizerWrapper
) -> None:
    """From a checkpoint of their own, and from that of the model, whose loader leaves them out."""
    model, head = FAMILIES["qwen3_5_mtp"]()
    text = {**vars(model.language_model.args), "model_type": "qwen3_5_text"}
    text["mtp_num_hidden_layers"] = 1
    weights = dict(tree_flatten(head.parameters()))
    apart, whole = tmp_path / "apart", tmp_path / "whole"
    for directory, config, prefix in (
        (apart, {"model_type": "qwen3_5_mtp", "text_config": text}, ""),
        (whole, {"model_type": "qwen3_5", "text_config": text}, "mtp."),
    ):
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(config))
        named = {f"{prefix}{name}": weight for name, weight in weights.items()}
        mx.save_safetensors(str(directory / "model.safetensors"), named, {"format": "mlx"})
    target = LoadedModel.of(model, tiny_tokenizer, name=str(whole))
    assert is_draft_head(apart)
    assert is_draft_head(OWN)
    assert not is_draft_head(whole)
    for source in (apart, OWN):
        loaded = load_draft_head(source, target).model.module
        found = dict(tree_flatten(loaded.parameters()))
        assert found.keys() == weights.keys()
        assert all(mx.array_equal(found[name], weights[name]).item() for name in weights)
    with pytest.raises(ModelError, match="no draft head"):
        load_draft_head(OWN, LoadedModel.of(model, tiny_tokenizer, name=str(tmp_path)))
    check_own_heads(whole)
    for directory, config, reason in (
        (apart, {}, "no heads"),
        (whole, {"model_type": "deepseek_v4", "text_config": None}, "none of qwen3_5_mtp"),
        (whole, {"model_type": "llama", "text_config": None}, "no heads"),
    ):
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
        with pytest.raises(DraftModelError, match=reason):
            check_own_heads(directory)


def test_model_without_heads_is_refused_before_it_is_loaded(
    tiny_model_directory: Path, tiny_model: Any, tiny_tokenizer: TokenizerWrapper
) -> None:
    for model, reason in (
        (None, "has no heads"),
        (tiny_model_directory, "has no heads"),
        (tiny_model, "in memory has no checkpoint"),
    ):
        tokenizer = tiny_tokenizer if model is tiny_model else None
        with pytest.raises(DraftModelError, match=reason):
            InferenceEngine(model, tokenizer, draft_model=OWN)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "eagle3"}, True),
        ({"speculators_model_type": "eagle3"}, True),
        ({"model_type": "llama", "speculators_model_type": "eagle3"}, True),
        ({"model_type": "qwen3", "dflash_config": {}}, True),
        ({"model_type": "gemma4_text", "architectures": ["Gemma4DSparkModel"]}, True),
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, False),
        ({"model_type": ["eagle3"], "architectures": "eagle3"}, False),
    ],
)
def test_heads_are_recognised_by_their_configuration(
    tmp_path: Path, config: dict[str, Any], *, expected: bool
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_draft_head(tmp_path) is expected


@ONE_OF_EACH
def test_head_runs_no_pass_while_drafts_do_not_pay(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states are noted, and read in one pass once drafts are tried again."""
    drafter = drafter_of(engine)
    engine.clear_prompt_cache()
    passes: list[int] = []
    head: Any = drafter.model
    read, model_length, pays = head.read, Drafting.model_length, False

    def counted(tokens: mx.array, states: mx.array, *arguments: Any) -> Any:
        passes.append(states.shape[1])
        return read(tokens, states, *arguments)

    def length(drafting: Drafting, *arguments: Any) -> int:
        return model_length(drafting, *arguments) if pays else 0

    monkeypatch.setattr(head, "read", counted)
    monkeypatch.setattr(drafter, "step_size", 8)
    monkeypatch.setattr(Drafting, "model_length", length)
    arguments: dict[str, Any] = {"speculation": ALWAYS, "max_tokens": 12, "min_tokens": 12}
    engine.generate("hello", **arguments)
    assert not passes
    engine.clear_prompt_cache()
    with engine.stream("hello", **arguments) as stream:
        next(iter(stream))
        pays = True
        expected = stream.result()
    assert passes[0] > 8
    pays = False
    assert engine.generate("hello", **arguments).token_ids == expected.token_ids


@ONE_OF_EACH
def test_requests_that_do_not_draft_with_the_head_look_ahead(engine: InferenceEngine) -> None:
    draws: list[int] = []
    draw = Batch._draw_ahead

    def recorded(batch: Batch) -> Any:
        draws.append(len(batch.sequences))
        return draw(batch)

    lookups = SpeculationOptions(draft_model=False)
    answers = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batch, "_draw_ahead", recorded)
        for speculation, looks_ahead in (("off", True), (lookups, True), (ALWAYS, False)):
            draws.clear()
            arguments = {"max_tokens": 12, "min_tokens": 12, **SEEDED}
            result = engine.generate("hello", speculation=speculation, **arguments)
            assert bool(draws) is looks_ahead
            answers.append(result.token_ids)
    assert answers == [answers[0]] * 3


# The states of one text.


def states(*values: int) -> mx.array:
    return mx.array(values, mx.float32)[:, None]


def taken(unread: HiddenStates) -> list[int]:
    count = unread.end - unread.start
    return [int(value) for value in np.array(unread.pop_first(count))[:, 0]] if count else []


def test_states_of_refused_tokens_are_dropped() -> None:
    unread = HiddenStates(0)
    unread.add(0, states(0, 1, 2), ())
    unread.settle([7, 8, 9, 4], 3)
    unread.add(3, states(3, 4, 5), [5, 6])
    unread.settle([7, 8, 9, 4, 5, 1], 5)
    assert unread.end == 5
    assert taken(unread) == [0, 1, 2, 3, 4]
    assert unread.start == unread.end == 5


def test_states_of_a_token_that_was_not_known_follow_the_processed_tokens() -> None:
    for processed in (1, 2):
        unread = HiddenStates(0)
        unread.add(0, states(0), ())
        unread.add(1, states(1), [-1])
        unread.settle([3, 4], processed)
        assert taken(unread) == [0, 1][:processed]


def test_tokens_that_are_processed_again_have_one_state() -> None:
    unread = HiddenStates(0)
    unread.add(0, states(0, 1), [8])
    unread.settle([7, 8], 0)
    unread.add(0, states(10, 11, 12), ())
    assert taken(unread) == [0, 1, 12]
