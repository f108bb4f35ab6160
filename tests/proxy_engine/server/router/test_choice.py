"""The choice of workers: laws over random requests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_engine.server.router.choice import PrefixTable, WorkerChoice
from proxy_engine.server.router.prompts import Block, PromptKeys

PREFIX_PLACES, SWITCH_PLACES = 4, 16


def chain(*parts: str, model: str | None = None) -> PromptKeys:
    """A prompt of parts; those that begin with "a" are answers."""
    texts = itertools.accumulate(parts, "{}/{}".format, initial=str(model))
    blocks = [
        Block(text.encode(), len(part), part.startswith("a"))
        for text, part in zip(itertools.islice(texts, 1, None), parts, strict=True)
    ]
    return PromptKeys(model, tuple(blocks))


def choice(capacity: int = 1000) -> WorkerChoice:
    return WorkerChoice(PREFIX_PLACES, SWITCH_PLACES, PrefixTable(capacity))


parts = st.sampled_from(["system", "user 1", "user 22", "answer", "a longer answer"])
prompts = st.builds(
    lambda parts, model: chain(*parts, model=model),
    st.lists(parts, min_size=1, max_size=4),
    st.sampled_from([None, "one", "two"]),
)


@dataclass
class Request:
    """A request that arrives, after ``finished`` requests of each worker have ended."""

    prompt: PromptKeys
    finished: tuple[int, int, int]


requests = st.builds(Request, prompts, st.tuples(*[st.integers(0, 2)] * 3))


@settings(max_examples=50)
@given(st.lists(requests, max_size=15), st.text("xyz", min_size=1), st.text("xyz"))
def test_conversation_goes_to_the_worker_that_has_it(
    others: list[Request], question: str, answer: str
) -> None:
    choose = choice()
    for other in others:
        choose.choose(other.prompt, [0, 0, 0], range(3))
    first = choose.choose(chain("new", question), [0, 0, 0], range(3))
    for other in others:
        choose.choose(other.prompt, [0, 0, 0], range(3))
    turns = chain("new", question, f"a {answer}", "user 1")
    # The queue may be longer by the share of the prompt that is known.
    size = sum(block.size for block in turns.blocks)
    known = size - turns.blocks[-1].size
    queues = [0, 0, 0]
    queues[first] = int(PREFIX_PLACES * known / size - 1e-9)
    assert choose.choose(turns, queues, range(3)) == first


@settings(max_examples=30)
@given(st.lists(requests, max_size=40))
def test_queues_differ_by_bounded_lengths(arriving: list[Request]) -> None:
    choose = choice()
    queues = [0, 0, 0]
    for request in arriving:
        queues = [max(0, q - f) for q, f in zip(queues, request.finished, strict=True)]
        chosen = choose.choose(request.prompt, queues, range(3))
        assert queues[chosen] - min(queues) <= PREFIX_PLACES + SWITCH_PLACES
        queues[chosen] += 1


@settings(max_examples=20)
@given(prompts)
def test_no_worker_starves_under_load(prompt: PromptKeys) -> None:
    choose = choice()
    queues = [0, 0, 0]
    for _ in range(3 * (PREFIX_PLACES + SWITCH_PLACES + 1)):
        queues[choose.choose(prompt, queues, range(3))] += 1
    assert min(queues) > 0


@given(st.integers(2, 5), st.integers(1, 4))
def test_unrelated_requests_take_turns(count: int, rounds: int) -> None:
    choose = choice()
    chosen = [
        choose.choose(chain(f"user {index}"), [0] * count, range(count))
        for index in range(count * rounds)
    ]
    assert chosen == [*range(count)] * rounds


@settings(max_examples=30)
@given(st.lists(requests, max_size=30), st.integers(1, 10))
def test_table_stays_bounded(arriving: list[Request], capacity: int) -> None:
    choose = choice(capacity)
    for request in arriving:
        choose.choose(request.prompt, [0, 0, 0], range(3))
        assert len(choose.table) <= capacity


@settings(max_examples=30)
@given(st.lists(requests, max_size=20))
def test_choice_is_deterministic_and_among_the_ready_workers(arriving: list[Request]) -> None:
    one, two = choice(), choice()
    for index, request in enumerate(arriving):
        ready = {index % 3, (index + 1) % 3}
        chosen = one.choose(request.prompt, [0, 1, 0], ready)
        assert chosen in ready
        assert chosen == two.choose(request.prompt, [0, 1, 0], ready)


def test_known_prefix_yields_to_a_shorter_queue_beyond_the_bound() -> None:
    choose = choice()
    prompt = chain("system", "user 1")
    assert choose.choose(prompt, [0, 0], range(2)) == 0
    assert choose.choose(prompt, [PREFIX_PLACES - 1, 0], range(2)) == 0
    assert choose.choose(prompt, [PREFIX_PLACES + 1, 0], range(2)) == 1


def test_short_shared_prefix_does_not_attract_a_request() -> None:
    choose = choice()
    choose.choose(chain("system", "u" * 1000), [0, 0], range(2))
    assert choose.choose(chain("system", "v" * 1000), [1, 0], range(2)) == 1


def test_model_goes_to_the_worker_that_has_it_in_memory() -> None:
    choose = choice()
    assert choose.choose(chain("user 1", model="one"), [0, 0], range(2)) == 0
    assert choose.choose(chain("user 2", model="two"), [0, 0], range(2)) == 1
    for index in range(5):
        name = ["one", "two"][index % 2]
        prompt = chain(f"user {index}{index}", model=name)
        queues = [9, 0] if name == "one" else [0, 9]
        assert choose.choose(prompt, queues, range(2)) == index % 2


def test_stored_responses_go_to_their_worker_if_it_is_ready() -> None:
    choose = choice()
    assert choose.choose(PromptKeys(worker=1), [0, 50], range(2)) == 1
    assert choose.choose(PromptKeys(worker=1), [0, 0], [0]) == 0
    assert choose.choose(PromptKeys(worker=200), [0, 0], range(2)) in (0, 1)


def test_worker_that_ended_knows_nothing() -> None:
    choose = choice()
    prompt = chain("system", "user 1", model="one")
    assert choose.choose(prompt, [0, 0], range(2)) == 0
    choose.forget(0)
    assert not len(choose.table)
    assert choose.choose(prompt, [1, 0], range(2)) == 1
