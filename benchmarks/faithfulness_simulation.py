"""The engine's particle system on the tree of enumerated answers, without a model.

A particle is a path in the tree. Its tokens are drawn as masking draws them and weighed as the
engine weighs them; resampling and the final draw are the engine's own. This makes tens of
thousands of draws affordable.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from exact_conditional import EnumeratedAnswer, ExactConditional

from proxy_engine.generation.particles import ParticleSystem

__all__ = ["simulated_texts"]


@dataclass(slots=True)
class _Node:
    """The beginning of an answer.

    Attributes:
        log_weights: Of each next token: its probability under the model over that of masking.
        children: The beginning with each next token behind it.
        bounds: Sums of masking's probabilities of the next tokens.
        answer: The answer, if it ends here.
    """

    log_weights: list[float] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    answer: EnumeratedAnswer | None = None


@dataclass(slots=True, eq=False)
class _Path:
    node: _Node
    log_weight: float = 0.0

    def advance(self, random: Random) -> None:
        node = self.node
        if node.answer is None:
            index = 0
            if len(node.children) > 1:
                index = min(bisect(node.bounds, random.random()), len(node.children) - 1)
            self.log_weight += node.log_weights[index]
            self.node = node.children[index]

    def copy(self) -> _Path:
        return _Path(self.node, self.log_weight)


def simulated_texts(
    exact: ExactConditional, particles: int, draws: int, seed: int = 0
) -> Iterator[tuple[str, float]]:
    """Yield the text that each run draws, and its estimate of the log-evidence."""
    root = _tree(exact)
    random = Random(f"{seed}/{particles}")
    texts = {one.token_ids: exact.text(one.token_ids) for one in exact.sequences}
    for _ in range(draws):
        system = ParticleSystem(
            [_Path(root) for _ in range(particles)], seed=random.getrandbits(63)
        )
        while any(path.node.answer is None for path in system.particles):
            for path in system.particles:
                path.advance(random)
            system.resample(_Path.copy)
        answer = system.particles[system.draw()[0]].node.answer
        if answer is None:
            raise AssertionError("every path ends with an answer")
        yield texts[answer.token_ids], system.log_evidence


def _tree(exact: ExactConditional) -> _Node:
    nodes: dict[tuple[int, ...], _Node] = {(): _Node()}
    for answer in exact.sequences:
        for length, (log_base, log_masked) in enumerate(answer.steps, start=1):
            beginning = answer.token_ids[:length]
            if beginning in nodes:
                continue
            nodes[beginning] = _Node()
            parent = nodes[beginning[:-1]]
            parent.children.append(nodes[beginning])
            parent.log_weights.append(log_base - log_masked)
            parent.bounds.append(math.exp(log_masked))
        nodes[answer.token_ids].answer = answer
    for node in nodes.values():
        node.bounds = list(accumulate(node.bounds))
    return nodes[()]
