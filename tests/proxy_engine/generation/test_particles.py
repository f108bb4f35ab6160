"""Particle systems, with models small enough to be tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.generation.particles import ParticleSystem, systematic_ancestors

# Probabilities of the next letter after a text; "." ends it.
TABLE: Mapping[str, Mapping[str, float]] = {
    "": {"a": 0.9, "b": 0.1},
    "a": {"a": 0.01, "b": 0.99},
    "b": {"a": 0.5, "b": 0.5},
    "aa": {".": 0.5, "x": 0.5},
    "ab": {"x": 1.0},
    "ba": {".": 1.0},
    "bb": {".": 0.8, "x": 0.2},
}
ALLOWED: Mapping[str, str] = {"": "ab", "a": "a", "b": "ab", "aa": ".", "ba": ".", "bb": "."}
EXACT = {"aa.": 0.9 * 0.01 * 0.5, "ba.": 0.1 * 0.5, "bb.": 0.1 * 0.5 * 0.8}
EVIDENCE = sum(EXACT.values())


@dataclass(eq=False)
class Text:
    text: str = ""
    log_weight: float = 0.0

    def advance(self, random: np.random.Generator) -> None:
        if self.text.endswith("."):
            return
        letters = ALLOWED[self.text]
        masses = np.array([TABLE[self.text].get(letter, 0.0) for letter in letters])
        self.log_weight += math.log(masses.sum())
        self.text += str(random.choice(list(letters), p=masses / masses.sum()))


def run(count: int, seed: int, *, resamples: bool = True) -> ParticleSystem[Text]:
    random = np.random.default_rng(seed)
    system = ParticleSystem([Text() for _ in range(count)], seed=seed)
    for _ in range(3):
        for particle in system.particles:
            particle.advance(random)
        if resamples:
            system.resample(replace)
    return system


@pytest.mark.parametrize("resamples", [True, False], ids=["resampled", "weighted"])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_evidence_is_unbiased(count: int, resamples: bool) -> None:
    runs = [math.exp(run(count, seed, resamples=resamples).log_evidence) for seed in range(1000)]
    error = np.std(runs) / math.sqrt(len(runs))
    assert np.mean(runs) == pytest.approx(EVIDENCE, abs=4 * error + 1e-12)


@pytest.mark.parametrize("resamples", [True, False], ids=["resampled", "weighted"])
def test_weighted_counts_are_unbiased(resamples: bool) -> None:
    """Each text has, in expectation, its own probability as its weight."""
    found: Counter[str] = Counter()
    for seed in range(1500):
        system = run(4, seed, resamples=resamples)
        for particle, log_weight in zip(system.particles, system.log_weights, strict=True):
            found[particle.text] += math.exp(log_weight) / (4 * 1500)
    for text, probability in EXACT.items():
        assert found[text] == pytest.approx(probability, rel=0.2)


def test_draws_approach_the_exact_distribution() -> None:
    def distance(count: int) -> float:
        found: Counter[str] = Counter()
        for seed in range(600):
            system = run(count, seed)
            found[system.particles[system.draw()[0]].text] += 1
        return 0.5 * sum(abs(found[t] / 600 - p / EVIDENCE) for t, p in EXACT.items())

    assert distance(1) > 0.5
    assert distance(64) < 0.08


def test_runs_are_reproducible() -> None:
    assert [p.text for p in run(8, 5).particles] == [p.text for p in run(8, 5).particles]
    assert run(8, 5).draw(20) == run(8, 5).draw(20)
    assert run(8, 5).draw(20) != run(8, 6).draw(20)


def with_weights(*weights: float) -> ParticleSystem[Text]:
    logs = [math.log(weight) if weight else -math.inf for weight in weights]
    return ParticleSystem([Text(str(n), log) for n, log in enumerate(logs)], seed=0)


def test_particles_are_resampled_only_below_half_of_the_effective_sample_size() -> None:
    assert not with_weights(1, 1, 0, 0).resample(replace)
    system = with_weights(1, 0.9, 0, 0, 0, 0)
    evidence = system.log_evidence
    assert system.resample(replace)
    assert system.log_evidence == pytest.approx(evidence)
    assert system.probabilities == pytest.approx([1 / 6] * 6)
    assert {particle.text for particle in system.particles} == {"0", "1"}
    assert len(set(map(id, system.particles))) == 6


def test_later_weights_count_for_copies() -> None:
    system = with_weights(1, 0, 0)
    system.resample(replace)
    system.particles[1].log_weight += math.log(0.5)
    assert system.probabilities == pytest.approx([0.4, 0.2, 0.4])
    assert system.log_evidence == pytest.approx(math.log((1 + 0.5 + 1) / 9))


def test_weights_that_are_left_out_of_a_comparison_count_later() -> None:
    """A particle that is ahead is compared by its first tokens; its later ones stay weighed."""
    early = {"0": 1.0, "1": 0.1, "2": 0.0}
    system = with_weights(0.01, 0.1, 0)
    measure = {name: math.log(one) if one else -math.inf for name, one in early.items()}
    assert system.resample(replace, lambda particle: measure[particle.text])
    assert {particle.text for particle in system.particles} <= {"0", "1"}
    mean = (1.0 + 0.1) / 3
    expected = [mean * (0.01 if particle.text == "0" else 1) for particle in system.particles]
    assert np.exp(system.log_weights) == pytest.approx(expected)


def test_without_any_weight_the_draw_is_uniform() -> None:
    system = with_weights(0, 0, 0)
    assert system.log_evidence == -math.inf
    assert not system.resample(replace)
    assert system.probabilities == pytest.approx([1 / 3] * 3)
    assert set(system.draw(50)) == {0, 1, 2}


def test_tiny_weights_do_not_underflow() -> None:
    system = ParticleSystem([Text("a", -2000.0), Text("b", -2000.0 - math.log(3))])
    assert system.probabilities == pytest.approx([0.75, 0.25])
    assert system.log_evidence == pytest.approx(-2000 + math.log(2 / 3))


weights = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda x: sum(x) > 1e-3)


@given(weights, st.floats(0, 1, exclude_max=True))
def test_systematic_resampling_copies_in_proportion(given: list[float], offset: float) -> None:
    probabilities = np.array(given) / sum(given)
    ancestors = systematic_ancestors(probabilities, offset)
    counts = np.bincount(ancestors, minlength=len(given))
    assert counts.sum() == len(given)
    assert (np.abs(counts - len(given) * probabilities) < 1 + 1e-9).all()
    assert all(given[ancestor] > 0 for ancestor in ancestors)
    # Ancestors keep their places.
    assert all(ancestors[ancestor] == ancestor for ancestor in ancestors)


@given(weights)
def test_systematic_resampling_is_unbiased(given: list[float]) -> None:
    probabilities = np.array(given) / sum(given)
    offsets = (np.arange(2000) + 0.5) / 2000
    counts = sum(
        np.bincount(systematic_ancestors(probabilities, offset), minlength=len(given))
        for offset in offsets[::20]
    )
    assert counts / 100 == pytest.approx(len(given) * probabilities, abs=0.05)
