"""Rank 0 and another rank within one process: the second has equal objects."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import CellType, FrameType, SimpleNamespace
from typing import Any

import engine_answers
import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from written_models import written_model

from proxy_engine import CacheOptions, InferenceEngine
from proxy_engine.distributed import follower as follower_module
from proxy_engine.distributed import leader as leader_module
from proxy_engine.distributed import leader as leading
from proxy_engine.distributed.channel import FollowerChannel, LeaderChannel
from proxy_engine.distributed.follower import Follower, follow
from proxy_engine.distributed.leader import Leader
from proxy_engine.distributed.operations import (
    OPERATIONS,
    RankMessage,
    Replica,
    ReplicatedList,
    register,
)
from proxy_engine.errors import DistributedError
from proxy_engine.prompt_cache.layers import flat


class NearChannel(LeaderChannel):
    """Has a follower of the same process perform each message once rank 0 has."""

    def __init__(self, follower: Follower) -> None:
        super().__init__([], lambda error: error)
        self._follower = follower
        self._last: bytes | None = None

    def send(self, message: bytes) -> None:
        self.drain()
        self._last = message

    def drain(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            assert self._follower.perform(RankMessage.decode(last)) is None


class Pair:
    """A leader and a follower."""

    def __init__(self, stack: ExitStack) -> None:
        group = mx.distributed.init()
        self.follower = Follower(group, stack)
        self.channel = NearChannel(self.follower)
        self.leader = Leader(self.channel, group)
        self.broadcast: deque[mx.array] = deque()

    def send(self, array: mx.array, _: object) -> mx.array:
        self.broadcast.append(array)
        return array

    def receive(self, array: mx.array, _: object) -> mx.array:
        found = self.broadcast.popleft()
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        return found


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ExitStack() as stack:
        pair = Pair(stack)
        monkeypatch.setattr(leader_module, "broadcast", pair.send)
        monkeypatch.setattr(follower_module, "broadcast", pair.receive)
        monkeypatch.setattr(leader_module, "lead_or_follow", lambda _: pair.leader)
        session = SimpleNamespace(group=mx.distributed.init())
        monkeypatch.setattr(leading, "join", lambda: session)
        yield pair


@pytest.fixture(scope="session")
def quantizable_directory(
    tmp_path_factory: pytest.TempPathFactory, tiny_model_directory: Path
) -> Path:
    """A model with heads that are wide enough for quantized caches."""
    directory = tmp_path_factory.mktemp("models") / "qwen3"
    return written_model(directory, tiny_model_directory, "qwen3", head_dim=32)


def is_cache(value: object, leader: Leader) -> bool:
    return (
        isinstance(value, ReplicatedList)
        and value.replica.leader is leader
        and bool(value)
        and hasattr(value[0], "state")
    )


def arrays(cache: Sequence[Any]) -> list[mx.array]:
    return [array for layer in flat(cache) for _, array in tree_flatten(layer.state)]


@pytest.mark.parametrize(
    "options",
    [
        CacheOptions(),
        CacheOptions(kv_bits=8, kv_group_size=32, quantized_kv_start=8),
        CacheOptions(max_kv_size=32),
    ],
    ids=["plain", "quantized", "rotating"],
)
def test_follower_has_the_caches_of_the_leader(
    options: CacheOptions, pair: Pair, quantizable_directory: Path
) -> None:
    with InferenceEngine(
        quantizable_directory, distributed=True, batch_size=4, cache=options
    ) as engine:
        engine_answers.answers(engine, scores=options == CacheOptions())
        pair.channel.drain()
        caches = [cache for cache in gc.get_objects() if is_cache(cache, pair.leader)]
        assert caches
        for cache in caches:
            own = pair.follower.objects[cache.replica.number]
            assert list(map(type, cache)) == list(map(type, own))
            for expected, found in zip(arrays(cache), arrays(own), strict=True):
                assert mx.array_equal(expected, found)


def test_objects_that_rank_0_no_longer_uses_are_freed(
    pair: Pair, tiny_model_directory: Path
) -> None:
    with InferenceEngine(tiny_model_directory, distributed=True) as engine:
        engine.generate("hello", max_tokens=4)
        before = len(pair.follower.objects)
        for number in range(8):
            engine.generate(f"hello {number}", max_tokens=4, response_format={"type": "integer"})
        engine.clear_prompt_cache()
        gc.collect()
        engine.generate("hello", max_tokens=4)
        pair.channel.drain()
        assert len(pair.follower.objects) <= before + 1


def test_no_module_calls_an_operation_without_the_other_ranks(pair: Pair) -> None:
    operations = [
        operation
        for operation in OPERATIONS.values()
        if not (
            operation is REFUSAL
            or operation.function.__module__.startswith("proxy_engine.distributed")
        )
    ]
    functions = [operation.function for operation in operations]
    # The settings of all tests hide what was imported from the collector.
    gc.unfreeze()
    owners = gc.get_referrers(*functions)
    gc.freeze()
    # The operation itself, and the function in its place: its cell and its `__wrapped__`.
    others = [
        owner
        for owner in owners
        if not (
            owner is functions
            or owner in operations
            or isinstance(owner, CellType | FrameType)
            or (isinstance(owner, dict) and owner.get("__wrapped__") in functions)
            or _is_module_of_tests(owner)
        )
    ]
    assert not others


def _is_module_of_tests(owner: object) -> bool:
    """Whether an object has the names of a module outside of the package."""
    name = owner.get("__name__") if isinstance(owner, dict) else None
    return isinstance(name, str) and "__file__" in owner and not name.startswith("proxy_engine")


def refuse(objects: list[Any]) -> None:
    raise ValueError("refused")


REFUSAL = register(refuse)


class ScriptedChannel(FollowerChannel):
    """Delivers messages that are known in advance; then rank 0 has ended, or is silent."""

    def __init__(self, *messages: RankMessage, ends: bool = True) -> None:
        self._messages = [message.encode() for message in messages]
        self._ends = ends

    def receive(self, timeout: float | None = None) -> bytes | None:
        if self._messages:
            return self._messages.pop(0)
        if not self._ends:
            raise TimeoutError
        return None


REFUSE = RankMessage(REFUSAL.name, [[]])
FAILED = RankMessage(has_failed=True)
IDLE = RankMessage()


@pytest.mark.parametrize("messages", [[], [IDLE], [REFUSE, FAILED, IDLE], [REFUSE]])
def test_follower_accepts_what_fails_on_rank_0_as_well(messages: list[RankMessage]) -> None:
    channel = ScriptedChannel(*messages)
    follow(channel, mx.distributed.init())
    assert channel.receive() is None


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        (ScriptedChannel(REFUSE, IDLE), "rank 0 cannot perform .*: refused"),
        (ScriptedChannel(REFUSE, ends=False), "rank 0 cannot perform .*: refused"),
        (ScriptedChannel(IDLE, FAILED), "on rank 0 only"),
    ],
)
def test_operation_that_fails_on_one_rank_ends_the_run(
    channel: ScriptedChannel, message: str
) -> None:
    with pytest.raises(DistributedError, match=message):
        follow(channel, mx.distributed.init())


def test_leader_reports_an_operation_that_fails(pair: Pair) -> None:
    sent: list[RankMessage] = []
    pair.channel.send = lambda text: sent.append(RankMessage.decode(text))  # type: ignore[method-assign]
    given = ReplicatedList()
    given.replica = Replica(pair.leader, 1)
    with pytest.raises(ValueError, match="refused"):
        pair.leader.perform(REFUSAL, (given,))
    assert [message.has_failed for message in sent] == [False, True]
