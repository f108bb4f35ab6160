"""The engine with a tiny random model: formats, checks, queueing, interruption."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import mlx.core as mx
import pydantic
import pytest
from architectures import small_model
from engine_parts import on_model_thread
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object

from proxy_engine import (
    CacheOptions,
    EngineClosedError,
    EngineError,
    Fenced,
    Finished,
    GenerationOptions,
    InferenceEngine,
    Interaction,
    InvalidOptionError,
    InvalidResponseFormatError,
    OutputValidationError,
    PartOptions,
    PromptError,
    PromptProgress,
    PromptTooLongError,
    RawPrompt,
    TextDelta,
)
from state_machines import (
    GrammarBudgetError,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    MaxTokensTooSmallError,
    UnsatisfiableSchemaError,
)
from state_machines.completion import Completion

PERSON: dict[str, Any] = closed_object(
    name={"type": "string", "maxLength": 8},
    age={"type": "integer", "minimum": 0, "maximum": 130},
    tags={"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=8)
    age: int = pydantic.Field(ge=0, le=130)


@pytest.mark.parametrize("seed", range(3))
def test_random_output_matches_its_schema(tiny_engine: InferenceEngine, seed: int) -> None:
    result = tiny_engine.generate("x", response_format=PERSON, temperature=1.0, seed=seed)
    jsonschema.validate(result.parsed, PERSON)
    assert json.loads(result.text) == result.parsed
    assert result.finish_reason == "stop"


async def test_response_format_is_the_argument_after_the_prompt(engine: InferenceEngine) -> None:
    choice = {"enum": ["a", "b"]}
    answers = [
        engine.generate("x", choice, max_tokens=9),
        engine.stream("x", choice, max_tokens=9).result(),
        await engine.agenerate("x", choice, max_tokens=9),
        await engine.astream("x", choice, max_tokens=9).result(),
        *engine.generate_batch(["x"], choice, max_tokens=9),
    ]
    assert {answer.parsed for answer in answers} <= {"a", "b"}


def test_output_of_a_model_is_parsed_without_its_fence(tiny_engine: InferenceEngine) -> None:
    forms = (Person, "{}"), (Fenced(Person), "```json\n{}\n```"), (Fenced(Person, "<", ""), "<{}")
    for form, text in forms:
        result = tiny_engine.generate("x", response_format=form, temperature=1.0, seed=1)
        assert isinstance(result.parsed, Person)
        assert result.parsed == Person.model_validate_json(result.text)
        assert "".join(part.text for part in result.parts) == text.replace("{}", result.text)
        assert result.finish_reason == "stop"


def test_machine_of_an_unhashable_class_is_a_response_format(tiny_engine: InferenceEngine) -> None:
    class Unhashable(JsonSchemaStateMachine):
        __hash__ = None  # type: ignore[assignment]

    machine = Unhashable({"enum": ["a", "b"], "description": "One of two."})
    assert tiny_engine.generate("x", machine, max_tokens=9).parsed in ("a", "b")


def test_same_seed_same_output_other_seed_other_output(tiny_engine: InferenceEngine) -> None:
    def run(seed: int) -> str:
        return tiny_engine.generate("x", response_format=PERSON, temperature=1.0, seed=seed).text

    assert run(5) == run(5)
    assert len({run(seed) for seed in range(4)}) > 1


def test_free_text_stops_at_max_tokens(tiny_engine: InferenceEngine) -> None:
    result = tiny_engine.generate("x", max_tokens=5, temperature=1.0, seed=0)
    assert result.parsed is None
    assert result.usage.completion_tokens == len(result.token_ids) <= 5
    assert result.finish_reason == "length"


def test_free_text_never_has_padding_tokens(tiny_engine: InferenceEngine) -> None:
    unused = [i for i, b in enumerate(tiny_engine.vocabulary.token_bytes) if b is None]
    assert unused
    result = tiny_engine.generate(
        "x", max_tokens=20, temperature=1.0, seed=3, logit_bias=dict.fromkeys(unused, 1000.0)
    )
    assert not set(result.token_ids) & set(unused)


def test_free_text_ends_with_an_end_token(tiny_engine: InferenceEngine) -> None:
    (end,) = tiny_engine.vocabulary.end_token_ids
    result = tiny_engine.generate("x", max_tokens=5, logit_bias={end: 1000.0})
    assert result.token_ids == (end,)
    assert (result.text, result.finish_reason) == ("", "stop")


def test_structured_output_is_complete_within_max_tokens(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(MaxTokensTooSmallError) as caught:
        tiny_engine.generate("x", response_format=PERSON, max_tokens=4)
    needed = caught.value.needed
    assert needed > caught.value.given == 4
    cut = 0
    for more in range(6):
        options: dict[str, Any] = {"response_format": PERSON, "temperature": 1.0, "seed": more}
        result = tiny_engine.generate("x", max_tokens=needed + more, **options)
        jsonschema.validate(result.parsed, PERSON)
        assert result.finish_reason == ("length" if result.cut_short else "stop")
        assert result.usage.completion_tokens <= needed + more
        # The limit is named exactly where it changes the text.
        unlimited = tiny_engine.generate("x", max_tokens=400, **options)
        assert (result.cut_short is None) == (result.text == unlimited.text)
        if result.cut_short is not None:
            cut += 1
            assert result.cut_short.reason == "max_tokens"
            assert result.cut_short.pointer in {"", *(f"/{name}" for name in PERSON["properties"])}
    assert cut


def test_output_that_cannot_be_planned_is_refused(
    tiny_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unplanned(*_: Any, **options: Any) -> Any:
        raise GrammarBudgetError("no end was found", budget=1)

    monkeypatch.setattr(Completion, "plan", unplanned)
    with pytest.raises(GrammarBudgetError):
        tiny_engine.generate("x", response_format=PERSON, max_tokens=100)


def test_output_that_a_validator_refuses_is_an_error(tiny_engine: InferenceEngine) -> None:
    class Refuses(pydantic.BaseModel):
        flag: bool

        @pydantic.field_validator("flag")
        @classmethod
        def _refuse(cls, value: bool) -> bool:
            raise ValueError("never")

    with pytest.raises(OutputValidationError) as caught:
        tiny_engine.generate("x", response_format=Refuses)
    assert json.loads(caught.value.text)["flag"] in (True, False)


def test_stream_agrees_with_generate(engine: InferenceEngine) -> None:
    options: Any = {"response_format": PERSON, "temperature": 1.0, "seed": 2}
    events = list(engine.stream("x" * 50, **options, prefill_step_size=20))
    whole = engine.generate("x" * 50, **options)
    *others, last = events
    assert isinstance(last, Finished)
    assert last.result.text == whole.text
    deltas = [event for event in others if isinstance(event, TextDelta)]
    assert "".join(delta.text for delta in deltas) == whole.text
    progress = [event.processed for event in others if isinstance(event, PromptProgress)]
    prompt_tokens = whole.usage.prompt_tokens
    assert progress == [*range(0, prompt_tokens, 20), prompt_tokens]


def test_cached_prefix_is_not_processed_again(engine: InferenceEngine) -> None:
    start = "a long beginning that two conversations share, word for word. "
    cold = engine.generate(start + "one", response_format=PERSON)
    assert cold.usage.cached_tokens == 0
    again = engine.generate(start + "one", response_format=PERSON)
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
    assert again.token_ids == cold.token_ids
    other = engine.generate(start + "two", response_format=PERSON)
    assert len(start) <= other.usage.cached_tokens < other.usage.prompt_tokens


def test_disabled_cache_processes_the_whole_prompt(
    tiny_model: Any, tiny_tokenizer: TokenizerWrapper
) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer, cache=CacheOptions(max_bytes=0)) as engine:
        for _ in range(2):
            assert engine.generate("x", max_tokens=2).usage.cached_tokens == 0


def test_a_cancelled_request_leaves_the_cache_right(engine: InferenceEngine) -> None:
    prompt = "the same prompt, cancelled and not"
    expected = engine.generate(prompt + "!", max_tokens=30).text
    for count in range(1, 6):
        for stopped, event in enumerate(engine.stream(prompt, max_tokens=30)):
            if stopped > count and isinstance(event, TextDelta):
                break
    assert engine.generate(prompt + "!", max_tokens=30).text == expected


def test_prompts_of_all_kinds_are_the_same_prompt(tiny_engine: InferenceEngine) -> None:
    prompts: list[Any] = [
        "hello",
        [{"role": "user", "content": "hello"}],
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        Interaction("user", "hello"),
        [Interaction("user", "hello")],
    ]
    results = [tiny_engine.generate(prompt, max_tokens=6) for prompt in prompts]
    assert len({result.token_ids for result in results}) == 1
    assert len({result.usage.prompt_tokens for result in results}) == 1


class TestRefusedBeforeTheModelRuns:
    """Whatever is wrong with a request must not cost model time."""

    @pytest.fixture(autouse=True)
    def _no_forward_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def forbidden(*_: Any, **__: Any) -> Any:
            raise AssertionError("the model ran")

        monkeypatch.setattr("proxy_engine.requests.scheduler.Scheduler.submit", forbidden)

    @pytest.mark.parametrize(
        ("prompt", "options", "error"),
        [
            ("", {}, PromptError),
            ([], {}, PromptError),
            ([{"role": "user", "content": ""}], {}, PromptError),
            ([{"content": "no role"}], {}, PromptError),
            ([{"role": "user", "content": [{"type": "image_url"}]}], {}, PromptError),
            ([{"role": "user", "content": "x", "more": 1}], {}, EngineError),
            (b"bytes", {}, PromptError),
            (5, {}, EngineError),
            (None, {}, PromptError),
            (RawPrompt([-1]), {}, EngineError),
            ("x" * 600, {}, PromptTooLongError),
            ("x", {"temp": 1.0}, InvalidOptionError),
            ("x", {"top_p": 1.5}, InvalidOptionError),
            ("x", {"max_tokens": 0}, InvalidOptionError),
            ("x", {"max_tokens": True}, InvalidOptionError),
            ("x", {"max_tokens": "3"}, InvalidOptionError),
            ("x", {"prefill_step_size": 0}, InvalidOptionError),
            ("x", {"logit_bias": {320: 1.0}}, InvalidOptionError),
            ("x", {"response_format": {"type": "nothing"}}, InvalidResponseFormatError),
            ("x", {"response_format": {"minLength": "3"}}, InvalidSchemaError),
            ("x", {"response_format": {"enum": []}}, UnsatisfiableSchemaError),
            ("x", {"response_format": False}, UnsatisfiableSchemaError),
            ("x", {"response_format": {"type": "json_schema"}}, InvalidResponseFormatError),
            ("x", {"response_format": {"type": "text", "n": 1}}, InvalidResponseFormatError),
            ("x", {"response_format": {"const": {1, 2}}}, InvalidResponseFormatError),
            ("x", {"response_format": threading.Lock}, InvalidResponseFormatError),
            ("x", {"response_format": object()}, InvalidResponseFormatError),
            ("x", {"tools": 5}, EngineError),
            ("x", {"tools": [5]}, EngineError),
            ("x", {"tools": [], "tool_choice": "required"}, EngineError),
            ("x", {"parts": {"other": PartOptions()}}, EngineError),
        ],
    )
    def test_invalid_requests_are_refused(
        self,
        tiny_engine: InferenceEngine,
        prompt: Any,
        options: dict[str, Any],
        error: type[Exception],
    ) -> None:
        with pytest.raises(error) as caught:
            tiny_engine.generate(prompt, **options)
        assert isinstance(caught.value, ValueError)
        with pytest.raises(error):
            tiny_engine.stream(prompt, **options)
        with pytest.raises(error):
            asyncio.run(tiny_engine.agenerate(prompt, **options))


def test_prompt_at_the_limit_leaves_one_token(tiny_engine: InferenceEngine) -> None:
    def count(text: str) -> int:
        return tiny_engine.generate(text, max_tokens=1).usage.prompt_tokens

    frame = count("x") - 1
    context = tiny_engine.context_length
    assert context is not None
    result = tiny_engine.generate("x" * (context - frame - 1), temperature=1.0, seed=0)
    assert result.usage.total_tokens == context
    with pytest.raises(PromptTooLongError) as caught:
        tiny_engine.generate("x" * (context - frame))
    assert caught.value.prompt_tokens == caught.value.context_length == context


def test_event_loop_is_not_blocked(tiny_engine: InferenceEngine) -> None:
    async def main() -> int:
        ticks = 0
        task = asyncio.ensure_future(
            tiny_engine.agenerate("x", max_tokens=100, temperature=1.0, seed=0)
        )
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.001)
        return ticks

    assert asyncio.run(main()) > 1


@pytest.mark.parametrize("is_closed", [True, False])
def test_closed_or_dropped_stream_cancels_its_request(
    engine: InferenceEngine, is_closed: bool
) -> None:
    stream = engine.stream("x", min_tokens=400, max_tokens=400)
    next(stream)
    if is_closed:
        stream.close()
    del stream
    result = engine.generate("x", response_format=PERSON)
    jsonschema.validate(result.parsed, PERSON)
    while engine.running_requests:
        time.sleep(0.001)


def test_cancelled_task_leaves_the_engine_usable(engine: InferenceEngine) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(engine.agenerate("x", temperature=1.0, seed=0))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert engine.generate("x", response_format={"const": 1}).parsed == 1


def test_error_inside_a_request_leaves_the_engine_usable(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        broken = "proxy_engine.generation.sequence_samplers.make_sampler"
        patch.setattr(broken, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.generate("x")
    assert engine.generate("x", response_format={"const": 1}).parsed == 1


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell's background jobs are started with the signal ignored, and the tests may be one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_keyboard_interrupt_leaves_the_engine_usable(engine: InferenceEngine) -> None:
    started = threading.Event()

    def interrupt() -> None:
        started.wait()
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the interrupt may come anywhere in it
        started.set()
        for _ in range(1000):
            engine.generate("x", temperature=1.0, seed=0)
    assert engine.generate("x", response_format={"const": 1}).parsed == 1


def test_closed_engine_refuses(tiny_model: Any, tiny_tokenizer: Any) -> None:
    engine = InferenceEngine(tiny_model, tiny_tokenizer)
    stream = engine.stream("x", temperature=1.0, seed=0)
    next(stream)
    engine.close()
    engine.close()
    with pytest.raises(EngineClosedError):
        engine.generate("x")
    with pytest.raises(EngineClosedError):
        list(stream)


def test_collected_engine_ends_its_thread(tiny_model: Any, tiny_tokenizer: Any) -> None:
    InferenceEngine(tiny_model, tiny_tokenizer).generate("x", max_tokens=1)
    gc.collect()
    before = threading.active_count()
    for _ in range(5):
        InferenceEngine(tiny_model, tiny_tokenizer).generate("x", max_tokens=1)
        gc.collect()
    # Threads of other tests may have ended meanwhile.
    assert threading.active_count() <= before


def test_program_ends_though_a_stream_is_unfinished(tiny_model_directory: Any) -> None:
    program = (
        "import sys\nfrom proxy_engine import InferenceEngine\n"
        "engine = InferenceEngine(sys.argv[1])\n"
        "stream = engine.stream('x', temperature=1.0, seed=0)\nnext(stream)\nprint('done')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tiny_model_directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def test_schema_machines_are_compiled_once(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    class Counting(JsonSchemaStateMachine):
        def __init__(self, schema: Any, **options: Any) -> None:
            compiled.append(schema)
            super().__init__(schema, **options)

    monkeypatch.setattr("proxy_engine.answers.response_format.JsonSchemaStateMachine", Counting)
    for _ in range(3):
        engine.generate("x", response_format={"const": 17})
    assert compiled == [{"const": 17}]


def test_the_callers_objects_are_not_changed(tiny_engine: InferenceEngine) -> None:
    schema = json.loads(json.dumps(PERSON))
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    copy = json.loads(json.dumps(messages))
    tiny_engine.generate(messages, response_format=schema)
    assert (schema, messages) == (PERSON, copy)


def test_default_options_can_be_overridden(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with InferenceEngine(
        tiny_model, tiny_tokenizer, options=GenerationOptions(max_tokens=3)
    ) as engine:
        assert engine.generate("x", temperature=1.0, seed=0).usage.completion_tokens == 3
        assert engine.generate("x", max_tokens=2).usage.completion_tokens == 2


def test_refused_or_closed_engine_leaves_its_model_to_others(tiny_tokenizer: Any) -> None:
    """``gemma3n`` replaces weights in each pass, by lazy arrays of the engine's thread."""
    model = small_model("gemma3n")
    with InferenceEngine(model, tiny_tokenizer) as engine:
        expected = engine.generate("x", max_tokens=3).token_ids
        with pytest.raises(InvalidOptionError, match="cannot be quantized"):
            InferenceEngine(model, tiny_tokenizer, cache=CacheOptions(kv_bits=4))
        assert engine.generate("x", max_tokens=3).token_ids == expected
        with InferenceEngine(model, tiny_tokenizer) as other:
            on_model_thread(other, lambda: model(mx.array([[1]])))
        assert engine.generate("y", max_tokens=3).usage.completion_tokens == 3


def test_a_model_in_memory_needs_its_tokenizer(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with pytest.raises(InvalidOptionError):
        InferenceEngine(tiny_model)
    with pytest.raises(InvalidOptionError):
        InferenceEngine("name", tiny_tokenizer)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("batch_size", [0, -1, 1.5, True]),
        ("cache", [{}, 5]),
        ("max_compile_seconds", [0, -1, "1", True, float("nan")]),
        ("num_draft_tokens", [0, -1, 65, 10**9, True, 2.0, "3"]),
        ("on_progress", [5]),
        ("options", [{}]),
    ],
)
def test_invalid_arguments_are_refused_before_a_model_is_loaded(name: str, values: Any) -> None:
    for value in values:
        with pytest.raises(InvalidOptionError, match=f"{name} should be") as caught:
            InferenceEngine("missing/model/x", **{name: value})
        assert caught.value.option == name
