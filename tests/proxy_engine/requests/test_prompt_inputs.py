"""A prompt with media is answered as one whose placeholder tokens have the media's embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from object_schemas import closed_object
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import CacheOptions, InferenceEngine, RawPrompt
from proxy_engine.conversation.prompts import EncodedPrompt

PLACEHOLDER = 7
TEXT = "What does this show? "
QUESTION = " Answer:"
SCHEMA = closed_object(name={"type": "string", "maxLength": 12}, tag={"enum": ["on", "off"]})
GREEDY: Any = {"temperature": 0.0, "max_tokens": 48}


class Medium:
    """Inputs of a prompt whose media are text: the embeddings are those of other tokens.

    Args:
        model: The model.
        token_ids: The prompt with the tokens of the text in place of the placeholders.
        media_end: End of the last medium.
        single_pass_end: As in ``PromptInputs``.
    """

    rope_delta = 0

    def __init__(
        self, model: Any, token_ids: Sequence[int], media_end: int, single_pass_end: int = 0
    ) -> None:
        self.media_end = media_end
        self.single_pass_end = single_pass_end
        self.passes: list[tuple[int, int]] = []
        self.cached_tokens: list[int] = []
        self._model = model
        self._token_ids = list(token_ids)

    def prepare(self, cache: list[Any], cached_tokens: int) -> None:
        self.cached_tokens.append(cached_tokens)

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        assert end <= len(self._token_ids)
        self.passes.append((start, end))
        tokens = mx.array(self._token_ids[start:end])[None]
        return {"input_embeddings": self._model.model.embed_tokens(tokens)}

    def release(self) -> None:
        pass


class Prompts:
    """Prompts for one engine, as text, and with a part of the text as a medium."""

    def __init__(self, engine: InferenceEngine, model: Any) -> None:
        self.engine = engine
        self._model = model

    def ids(self, text: str) -> list[int]:
        return list(self.engine.tokenizer.encode(text))

    def as_text(self, medium: str, question: str = QUESTION) -> RawPrompt:
        return RawPrompt(self.ids(TEXT) + self.ids(medium) + self.ids(question))

    def with_medium(
        self, medium: str, question: str = QUESTION, *, single_pass: bool = False
    ) -> EncodedPrompt:
        start, own = self.ids(TEXT), self.ids(medium)
        end = len(start) + len(own)
        key = np.array([*start, *(-1 - hash((medium, n)) % 2**40 for n in range(len(own)))])
        question_ids = self.ids(question)
        return EncodedPrompt(
            token_ids=[*start, *[PLACEHOLDER] * len(own), *question_ids],
            cache_key=np.concatenate([key, question_ids]).astype(np.int64),
            inputs=Medium(
                self._model, [*start, *own, *question_ids], end, end if single_pass else 0
            ),
            media_spans=((len(start), end),),
            image_tokens=len(own),
        )


@pytest.fixture(params=[0, 1 << 28], ids=["uncached", "cached"])
def prompts(request: pytest.FixtureRequest) -> Iterator[Prompts]:
    model = make_tiny_model(seed=3)
    cache = CacheOptions(max_bytes=request.param)
    with InferenceEngine(model, make_tiny_tokenizer(), cache=cache, batch_size=4) as engine:
        yield Prompts(engine, model)


def answer(prompts: Prompts, prompt: Any, **options: Any) -> Any:
    return prompts.engine.generate(prompt, **{**GREEDY, **options})


@pytest.mark.parametrize("step", [1, 16])
@pytest.mark.parametrize("response_format", [None, SCHEMA], ids=["text", "schema"])
def test_answer_equals_that_of_the_medium_as_text(
    prompts: Prompts, step: int, response_format: Any
) -> None:
    given: Any = {"response_format": response_format, "prefill_step_size": step}
    expected = answer(prompts, prompts.as_text("a red balloon over a lake"), **given)
    found = answer(prompts, prompts.with_medium("a red balloon over a lake"), **given)
    assert found.token_ids == expected.token_ids
    assert found.usage.prompt_tokens == expected.usage.prompt_tokens
    assert found.usage.image_tokens == len(prompts.ids("a red balloon over a lake"))


def test_forced_text_behind_a_medium_at_the_end_of_the_prompt(prompts: Prompts) -> None:
    text = prompts.as_text("a cat", question="\n")
    medium = prompts.with_medium("a cat", question="\n")
    given: Any = {"response_format": SCHEMA}
    assert answer(prompts, medium, **given).token_ids == answer(prompts, text, **given).token_ids
    inputs: Any = medium.inputs
    assert all(end <= len(medium.token_ids) for _, end in inputs.passes)


def test_same_medium_is_read_once_and_another_is_never_taken_for_it() -> None:
    model = make_tiny_model(seed=3)
    with InferenceEngine(model, make_tiny_tokenizer()) as engine:
        prompts = Prompts(engine, model)
        first = answer(prompts, prompts.with_medium("a red balloon"))
        assert first.usage.cached_tokens == 0
        again = prompts.with_medium("a red balloon", question=" And why?")
        second = answer(prompts, again)
        inputs: Any = again.inputs
        assert second.usage.cached_tokens >= inputs.media_end
        assert inputs.passes == []
        assert (
            second.token_ids
            == answer(prompts, prompts.as_text("a red balloon", " And why?")).token_ids
        )
        other = answer(prompts, prompts.with_medium("a big bear up"))
        # The text before the medium is shared.
        assert other.usage.cached_tokens == len(prompts.ids(TEXT))
        assert other.token_ids == answer(prompts, prompts.as_text("a big bear up")).token_ids
        assert other.token_ids != first.token_ids


def test_placeholder_tokens_as_text_are_no_medium() -> None:
    model = make_tiny_model(seed=3)
    with InferenceEngine(model, make_tiny_tokenizer()) as engine:
        prompts = Prompts(engine, model)
        medium = prompts.with_medium("a red balloon")
        answer(prompts, medium)
        plain = answer(prompts, RawPrompt(medium.token_ids))
        assert plain.usage.cached_tokens == len(prompts.ids(TEXT))


def test_tokens_of_a_single_pass_are_processed_together() -> None:
    model = make_tiny_model(seed=3)
    with InferenceEngine(model, make_tiny_tokenizer()) as engine:
        prompts = Prompts(engine, model)
        # A prefix that ends before the medium is cached now, and cannot be used.
        expected = answer(prompts, prompts.as_text("a red balloon"))
        prompt = prompts.with_medium("a red balloon", single_pass=True)
        found = answer(prompts, prompt, prefill_step_size=2)
        inputs: Any = prompt.inputs
        assert inputs.passes == [(0, inputs.media_end)]
        assert found.usage.cached_tokens == 0
        assert found.token_ids == expected.token_ids
        again = prompts.with_medium("a red balloon", " And why?", single_pass=True)
        assert answer(prompts, again).usage.cached_tokens >= inputs.media_end


@pytest.mark.parametrize(
    "options",
    [{"n": 3}, {"exact_choices": True}, {"speculation": "off"}],
    ids=str,
)
def test_options_of_generation_hold_with_media(prompts: Prompts, options: Any) -> None:
    given: Any = {"temperature": 1.0, "seed": 5, "response_format": SCHEMA, **options}
    expected = answer(prompts, prompts.as_text("a red balloon"), **given)
    found = answer(prompts, prompts.with_medium("a red balloon"), **given)
    assert found.token_ids == expected.token_ids
    assert found.parsed == expected.parsed


def test_cancelled_prefill_leaves_a_usable_cache(prompts: Prompts) -> None:
    prompt = prompts.with_medium("a red balloon over a lake")
    stream = prompts.engine.stream(prompt, **{**GREEDY, "prefill_step_size": 4})
    next(iter(stream))
    stream.close()
    expected = answer(prompts, prompts.as_text("a red balloon over a lake")).token_ids
    found = answer(prompts, prompts.with_medium("a red balloon over a lake"))
    assert found.token_ids == expected
