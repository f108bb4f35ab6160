"""The choice of a worker for a request, by prompt prefix, model and queue.

A worker has the prompts of its requests in its prompt cache. As in the routers of SGLang and Ray
Serve, a request goes to the worker that knows the longest prefix of its prompt, unless that
worker's queue is longer than those of others by more than a bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence

from .prompts import Block, PromptKeys

_MAX_KEYS = 1 << 16
"""Blocks that are remembered; about 10 MB."""


class PrefixTable:
    """Which workers know which prefixes: the ``capacity`` blocks used last."""

    def __init__(self, capacity: int = _MAX_KEYS) -> None:
        self._capacity = capacity
        # By key of a block: the workers as a set of bits.
        self._workers: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._workers)

    def known(self, blocks: Sequence[Block], worker: int) -> int:
        """Return the bytes at the beginning of a prompt that a worker knows.

        The answer behind a prompt that the worker knows counts as well: the table has prompts
        only, and the worker has generated the answer.
        """
        size = 0
        for block in blocks:
            is_known = self._workers.get(block.key, 0) >> worker & 1
            if not is_known and not (block.is_generated and size):
                break
            size += block.size
        return size

    def add(self, blocks: Sequence[Block], worker: int) -> None:
        """Remember that a worker knows a prompt."""
        # The end of a prompt is forgotten before its beginning.
        for block in reversed(blocks):
            self._workers[block.key] = self._workers.get(block.key, 0) | 1 << worker
            self._workers.move_to_end(block.key)
        while len(self._workers) > self._capacity:
            self._workers.popitem(last=False)

    def forget(self, worker: int) -> None:
        """Forget the prompts of a worker that has ended."""
        for key, workers in [*self._workers.items()]:
            left = workers & ~(1 << worker)
            if left:
                self._workers[key] = left
            else:
                del self._workers[key]


class WorkerChoice:
    """Chooses workers by their cost for a request, in places of the queue.

    The cost is the length of the worker's queue; ``prefix_places`` times the unknown share of the
    prompt; and ``switch_places`` if the worker's latest request named another model, which the
    worker has in memory. Workers of equal cost take turns.

    Args:
        prefix_places: The number of places by which the queue of a worker that knows a whole prompt
            may be longer than the shortest one.
        switch_places: The same for a worker that has the model in memory.
        table: Remembers prompts.
    """

    def __init__(
        self, prefix_places: int, switch_places: int, table: PrefixTable | None = None
    ) -> None:
        self._prefix_places = prefix_places
        self._switch_places = switch_places
        self.table = PrefixTable() if table is None else table
        self._models: dict[int, str] = {}
        # The workers, the one that was chosen last at the end.
        self._turns: OrderedDict[int, None] = OrderedDict()

    def choose(self, prompt: PromptKeys, queues: Sequence[int], ready: Collection[int]) -> int:
        """Return the worker for a request, and remember the choice.

        Args:
            prompt: The request.
            queues: The number of requests of each worker.
            ready: The workers to choose from, at least one.
        """
        if prompt.worker is not None and prompt.worker in ready:
            chosen = prompt.worker
        else:
            costs = {worker: self._cost(prompt, worker, queues[worker]) for worker in ready}
            chosen = min(self._in_turn(ready), key=costs.__getitem__)
        self._turns[chosen] = None
        self._turns.move_to_end(chosen)
        if prompt.model is not None:
            self._models[chosen] = prompt.model
        self.table.add(prompt.blocks, chosen)
        return chosen

    def forget(self, worker: int) -> None:
        """Forget what a worker had in memory."""
        self._models.pop(worker, None)
        self.table.forget(worker)

    def _in_turn(self, ready: Collection[int]) -> Iterable[int]:
        yield from sorted(worker for worker in ready if worker not in self._turns)
        yield from (worker for worker in self._turns if worker in ready)

    def _cost(self, prompt: PromptKeys, worker: int, queue: int) -> float:
        size = sum(block.size for block in prompt.blocks)
        unknown = 1 - self.table.known(prompt.blocks, worker) / size if size else 0
        latest = self._models.get(worker, prompt.model)
        switches = prompt.model is not None and latest != prompt.model
        return queue + self._prefix_places * unknown + self._switch_places * switches
