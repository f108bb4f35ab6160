"""Whether particles give better answers: plain sampling, particles, and the best of several.

The measure is the expected exact match: the probability that the returned answer is right in all of
its fields. For plain sampling it is the share of right answers among the samples, with particles
the sum of the probabilities of the right ones. The best of the samples is the one that the model
gives the highest probability, as its own likelihood ranks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
from quality_arms import ARMS
from quality_runner import ArmRunner, value_of
from quality_scores import Interval, interval
from quality_tasks import Record, make_records

from proxy_engine import InferenceEngine

__all__ = ["COMPARED", "GAIN_TASKS", "gain_of", "log_likelihoods", "measure_gain"]

GAIN_TASKS = ("extraction", "calls", "arithmetic")
COMPARED = ("plain", "best", "particles")

Row = Mapping[str, Any]


def measure_gain(
    tasks: Sequence[str],
    *,
    records: int,
    samples: int,
    seed: int = 0,
    model: str | None = None,
    on_row: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Return the expected exact match of each record: plain, best of ``samples``, particles."""
    runner = ArmRunner(model, seed)
    rows = []
    try:
        for task in tasks:
            for record in make_records(task, seed, records):
                rows.append(_row(runner, record, samples))
                on_row(rows[-1])
    finally:
        runner.close()
    return rows


def gain_of(rows: Sequence[Row], task: str, arm: str, reference: str = "plain") -> Interval:
    """Return how much higher an arm's expected exact match is, with a paired bootstrap interval."""
    return interval([row[arm] - row[reference] for row in rows if row["task"] == task])


def _row(runner: ArmRunner, record: Record, samples: int) -> Row:
    request = runner.request(ARMS["ours-t1"], record)
    engine = runner.engine
    options = dict(request.options or {})
    plain = engine.generate(
        request.prompt, response_format=request.response_format, **{**options, "n": samples}
    )
    weighted = engine.generate(
        request.prompt, response_format=request.response_format, **{**options, "particles": samples}
    )
    answers = plain.choices
    right = [record.is_match(value_of(answer)) for answer in answers]
    prompt_ids = _prompt_ids(engine, request)
    likelihoods = log_likelihoods(engine, prompt_ids, [answer.token_ids for answer in answers])
    best = max(range(len(answers)), key=likelihoods.__getitem__)
    expected = sum(
        particle.probability
        for particle in weighted.particles
        if record.is_match(value_of(particle))
    )
    return {
        "task": record.task,
        "kind": record.kind,
        "number": record.number,
        "plain": round(sum(right) / len(right), 6),
        "best": float(right[best]),
        "particles": round(expected, 6),
        "drawn": float(record.is_match(value_of(weighted))),
        "effective": round(1 / sum(one.probability**2 for one in weighted.particles), 2),
    }


def log_likelihoods(
    engine: InferenceEngine, prompt_ids: Sequence[int], answers: Sequence[Sequence[int]]
) -> list[float]:
    """Return the log-probability that the model gives to each answer, at temperature 1."""
    core = engine._core
    model = core.loaded.model
    longest = max(map(len, answers))

    def run() -> list[float]:
        rows = [[*prompt_ids, *answer, *[0] * (longest - len(answer))] for answer in answers]
        tokens = mx.array(rows)
        # A token sees the ones before it only, so padding on the right changes nothing.
        logits = model(tokens[:, :-1])[:, len(prompt_ids) - 1 :].astype(mx.float32)
        chosen = mx.take_along_axis(logits, tokens[:, len(prompt_ids) :, None], axis=2)[..., 0]
        each = chosen - mx.logsumexp(logits, axis=2)
        lengths = mx.array([len(answer) for answer in answers])
        is_answer = mx.arange(longest)[None] < lengths[:, None]
        found: list[float] = mx.where(is_answer, each, 0).sum(axis=1).tolist()
        return found

    return core.worker.submit(run).result()


def _prompt_ids(engine: InferenceEngine, request: Any) -> list[int]:
    prepared = engine._core.preparation.request(request.prompt, request.response_format, {})
    return list(prepared.prompt_ids)
