"""Answers about images, of an engine for each architecture. Equal tokens mean greedy answers.

The checkpoints are small and random; mlx-vlm's ``generate_step`` gives the expected tokens, each
time with a model that has answered nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from object_schemas import closed_object
from speculation_checks import Comparison, outcome
from vision_engines import Turn, VisionEngine, user
from vision_models import VISION_ARCHITECTURES, sample_image, vision_checkpoint

from proxy_engine import (
    Finished,
    GenerationResult,
    InferenceEngine,
    InvalidOptionError,
    PromptError,
)

# Of the feature extractor of gemma4, with the numbers of all its checkpoints.
pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filter has all zero values")

FIRST, SECOND = sample_image(0), sample_image(1)
TALL = sample_image(2, (48, 96))
QUESTION = "What is this?"
GREEDY: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 8, "min_tokens": 8}
RECORD: dict[str, Any] = closed_object(
    kind={"enum": ["cat", "car", "dog"]}, count={"type": "integer", "minimum": 0, "maximum": 99}
)
REPRESENTATIVES = ("qwen2_vl", "qwen3_5", "gemma4", "paligemma", "smolvlm")
"""Architectures that between them have every kind of cache, positions and mask."""

every_architecture = pytest.mark.parametrize(
    "vision",
    [
        # The code of idefics3 is that of smolvlm.
        pytest.param(one, marks=pytest.mark.soak if one == "idefics3" else [])
        for one in VISION_ARCHITECTURES
    ],
    indirect=True,
)
some_by_default = pytest.mark.parametrize(
    "vision",
    [
        pytest.param(one, marks=[] if one in REPRESENTATIVES else pytest.mark.soak)
        for one in VISION_ARCHITECTURES
    ],
    indirect=True,
)


@pytest.fixture(scope="module")
def vision(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VisionEngine]:
    name = request.param
    path = vision_checkpoint(name, tmp_path_factory.mktemp("vision") / name)
    with VisionEngine.open(name, path) as opened:
        yield opened


def _ask(
    vision: VisionEngine, *turns: Turn, engine: InferenceEngine | None = None, **options: Any
) -> GenerationResult[Any]:
    asked = engine or vision.engine
    return asked.generate(vision.prompt(*turns), **{**GREEDY, **options})


def _tokens(vision: VisionEngine, *turns: Turn, **options: Any) -> list[int]:
    return list(_ask(vision, *turns, **options).token_ids)


def _uncached(vision: VisionEngine, *turns: Turn) -> list[int]:
    return _tokens(vision, *turns, engine=vision.uncached)


def _conversations(vision: VisionEngine) -> list[tuple[Turn, ...]]:
    """Return conversations with different images, without any, and with two."""
    found = [(user(FIRST, QUESTION),), (user(TALL, QUESTION),), (user(SECOND, QUESTION),)]
    if vision.reuses_prompts:
        # Others let tokens attend to later ones; the engine does so only in prompts with images.
        found.insert(1, (user("Hello"),))
    if vision.max_images > 1:
        found.append((user("Look: ", SECOND, " and ", TALL, " differ."),))
        found.append((user(TALL, "A?"), Turn("assistant", ("B.",)), user(FIRST, QUESTION)))
    return found


@every_architecture
def test_tokens_are_those_of_mlx_vlm_and_depend_on_the_image(vision: VisionEngine) -> None:
    images = (FIRST, SECOND, FIRST, SECOND)
    answers = [_tokens(vision, user(image, QUESTION)) for image in images]
    expected = [vision.reference(user(image, QUESTION)) for image in images]

    assert answers == expected
    assert expected[0] != expected[1]


@some_by_default
def test_conversations_of_several_images_and_turns_are_answered_as_by_mlx_vlm(
    vision: VisionEngine,
) -> None:
    for turns in _conversations(vision):
        result = _ask(vision, *turns, engine=vision.uncached)

        assert list(result.token_ids) == vision.reference(*turns)
        assert (result.usage.image_tokens > 0) == any(turn.images for turn in turns)


@some_by_default
def test_log_probabilities_are_those_of_mlx_vlm(vision: VisionEngine) -> None:
    turns = (user(FIRST, QUESTION),)
    found = _ask(vision, *turns, logprobs=2).logprobs

    assert found is not None
    for one, (token, logprobs) in zip(found, vision.steps(*turns), strict=True):
        assert one.chosen.token_id == token
        assert one.chosen.before_mask == pytest.approx(float(logprobs[token]), abs=1e-3)


@some_by_default
def test_requests_that_begin_while_others_run_are_answered_as_alone(vision: VisionEngine) -> None:
    conversations = _conversations(vision)
    for engine in (vision.uncached, vision.engine):
        streams = []
        for turns in conversations:
            stream = engine.stream(vision.prompt(*turns), **GREEDY)
            next(stream)
            streams.append(stream)
        # The first stream is abandoned.
        streams[0].close()
        for turns, stream in list(zip(conversations, streams, strict=True))[:0:-1]:
            *_, last = stream
            assert isinstance(last, Finished)
            assert list(last.result.token_ids) == vision.reference(*turns)


@some_by_default
def test_image_is_read_once(vision: VisionEngine) -> None:
    # Prompts of fewer than 32 tokens before a question are not worth a copy of their cache.
    image, begin = sample_image(3), "Look at this photograph, please:"
    question, other_question = user(begin, image, "Who?"), user(begin, image, "When was this?")
    first, again, other = (_ask(vision, turn) for turn in (question, question, other_question))

    assert list(again.token_ids) == list(first.token_ids) == _uncached(vision, question)
    assert list(other.token_ids) == _uncached(vision, other_question)
    if vision.reuses_prompts:
        assert first.usage.cached_tokens < again.usage.cached_tokens
        assert first.usage.image_tokens < other.usage.cached_tokens <= again.usage.cached_tokens


@some_by_default
def test_images_after_a_cached_conversation_are_read_as_without_a_cache(
    vision: VisionEngine,
) -> None:
    if vision.max_images == 1:
        pytest.skip("reads one image")
    system = Turn("system", ("Be brief. " * 3,))
    begun = (system, user(FIRST, "A?"))
    answered = (*begun, Turn("assistant", ("B.",)))
    _ask(vision, system, user("Hello"))
    assert _tokens(vision, *begun) == _uncached(vision, *begun)
    for image in (TALL, SECOND, TALL):
        turns = (*answered, user(image, QUESTION))
        result = _ask(vision, *turns)

        assert list(result.token_ids) == _uncached(vision, *turns)
        assert result.usage.cached_tokens > 0


@some_by_default
@pytest.mark.parametrize("fast_forward", [True, False])
def test_json_about_an_image_matches_its_schema(vision: VisionEngine, fast_forward: bool) -> None:
    options = {
        "response_format": RECORD,
        "max_tokens": 32,
        "min_tokens": 0,
        "fast_forward": fast_forward,
    }
    prompt = (user(SECOND, QUESTION),)
    results = [
        _ask(vision, *prompt, engine=engine, **options)
        for engine in (vision.uncached, vision.engine)
    ]

    jsonschema.validate(results[0].parsed, RECORD)
    assert outcome(results[0]) == outcome(results[1])
    assert (results[0].usage.forced_tokens > 1) == fast_forward


@some_by_default
def test_drafts_do_not_change_answers_about_images(vision: VisionEngine) -> None:
    prompt = vision.prompt(user(TALL, QUESTION))
    text = Comparison(vision.engine, prompt, **GREEDY).run("mistaken")
    json = Comparison(vision.engine, prompt, response_format=RECORD, temperature=0.0).run("right")

    assert list(text.token_ids) == vision.reference(user(TALL, QUESTION))
    assert text.usage.drafted_tokens > 0
    assert json.usage.drafted_tokens >= json.usage.accepted_tokens


@some_by_default
def test_several_answers_about_an_image_are_those_without_a_cache(vision: VisionEngine) -> None:
    sampled = {"temperature": 1.0, "min_tokens": 0, "max_tokens": 24, "seed": 1}
    results = [
        _ask(
            vision,
            user(SECOND, QUESTION),
            engine=engine,
            response_format=RECORD,
            **sampled,
            n=2,
        )
        for engine in (vision.uncached, vision.engine)
    ]

    answers = [[one.text for one in result.choices] for result in results]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2
    for result in results:
        jsonschema.validate(result.parsed, RECORD)


@some_by_default
def test_exact_choices_depend_on_the_image_and_not_on_the_cache(vision: VisionEngine) -> None:
    schema = {"enum": ["cat", "car", "dog", "house"]}
    found = []
    for image in (FIRST, SECOND, FIRST):
        try:
            results = [
                _ask(
                    vision,
                    user(image, QUESTION),
                    engine=engine,
                    response_format=schema,
                    exact_choices=True,
                    min_tokens=0,
                    max_tokens=16,
                )
                for engine in (vision.uncached, vision.engine)
            ]
        except InvalidOptionError as error:
            assert error.option == "exact_choices"
            pytest.skip("scores choices with caches of keys and values only")
        one, other = (
            {option.text: option.probability for option in result.scored_choices[0].options}
            for result in results
        )
        assert one == pytest.approx(other, abs=1e-4)
        assert sum(one.values()) == pytest.approx(1.0)
        found.append(one)
    assert found[0] == pytest.approx(found[2], abs=1e-4)
    assert found[0] != pytest.approx(found[1], abs=1e-4)


def test_image_whose_embeddings_do_not_fit_its_tokens_is_refused(tmp_path: Path) -> None:
    path = vision_checkpoint("llava_next", tmp_path / "llava_next")
    with VisionEngine.open("llava_next", path) as opened:
        before = opened.engine.generate("Hello", **GREEDY)
        with pytest.raises(PromptError, match="input embeddings"):
            opened.engine.generate(opened.prompt(user(FIRST, QUESTION)), **GREEDY)
        assert opened.engine.generate("Hello", **GREEDY).token_ids == before.token_ids
