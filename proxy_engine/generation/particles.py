"""Weighted particles: sequential Monte Carlo over the continuations of a text.

Masking samples each token from the model restricted to the allowed tokens. The probability of a
text is then the product of the restricted distributions, which differs from the model's own
distribution among the valid texts. The ratio of the two is, up to a constant, the product of the
probabilities that the model gave to the allowed tokens: the weight of a text. Particles are texts
that are written at the same time; those with small weights are replaced by copies of those with
large ones.

Doucet & Johansen 2009, "A tutorial on particle filtering and smoothing"; Lew et al. 2023,
"Sequential Monte Carlo steering of large language models using probabilistic programs"; Loula et
al. 2025, "Syntactic and semantic control of large language models via sequential Monte Carlo".

Independent of models and requests: a particle is anything with a log-weight.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from samplers import Sampler, SamplingParameters

Floats = npt.NDArray[np.float64]

MIN_RATIO = 0.5
"""Particles are resampled if the effective sample size is below this fraction of their number."""

_STREAM = 2**32 - 1
"""Separates the random numbers of resampling from those of the tokens of equal seeds."""


class Weighted(Protocol):
    """A particle."""

    @property
    def log_weight(self) -> float:
        """The sum of its log-weights since its beginning; it may be ``-inf``."""


P = TypeVar("P", bound=Weighted)


class ParticleSystem(Generic[P]):
    """Particles with their weights.

    A particle that occurs several times counts as often. ``log_evidence`` estimates the probability
    that the model writes a valid text; the estimate itself, not its logarithm, is unbiased. Its
    expectation does not depend on when particles are resampled or which of them have advanced.

    Args:
        particles: The particles, at least one.
        seed: Seed of the random numbers; ``None``: different ones each time.
    """

    def __init__(self, particles: Sequence[P], *, seed: int | None = None) -> None:
        self.particles = list(particles)
        entropy = secrets.randbits(64) if seed is None else seed
        sequence = np.random.SeedSequence(entropy, spawn_key=(_STREAM,))
        self._random = np.random.default_rng(sequence)
        # Of each particle: its present log-weight less the one it had when it was resampled.
        self._corrections: Floats = np.zeros(len(self.particles))

    @property
    def log_weights(self) -> Floats:
        """The log-weight of each particle, shape (particles,)."""
        return self._log_weights(_whole)

    @property
    def probabilities(self) -> Floats:
        """The normalized weights, shape (particles,); uniform if all weights are 0."""
        return _normalized(self.log_weights)

    @property
    def log_evidence(self) -> float:
        """The logarithm of the mean weight."""
        return _log_mean(self.log_weights)

    def resample(
        self, copy: Callable[[P], P], log_weight: Callable[[P], float] | None = None
    ) -> bool:
        """Replace particles with small weights if the effective sample size is too small.

        Systematic resampling: the expected number of copies is proportional to the weight. All
        particles then have the mean weight, so that the evidence stays the same.

        Args:
            copy: Returns an independent copy of a particle, with the same log-weights. Called for
                all but the first occurrence of each particle that stays.
            log_weight: Returns the log-weight to compare a particle by. It may leave out the latest
                tokens of particles that are ahead of the others; these count later, for each copy.

        Returns:
            Whether particles were resampled.
        """
        measure = log_weight or _whole
        log_weights = self._log_weights(measure)
        log_mean = _log_mean(log_weights)
        count = len(self.particles)
        if log_mean == -math.inf or _effective_size(log_weights) >= MIN_RATIO * count:
            return False
        ancestors = systematic_ancestors(_normalized(log_weights), float(self._random.random()))
        old = list(self.particles)
        is_used = [False] * count
        for slot, ancestor in enumerate(ancestors):
            self.particles[slot] = copy(old[ancestor]) if is_used[ancestor] else old[ancestor]
            is_used[ancestor] = True
        self._corrections = log_mean - _log_weights(self.particles, measure)
        return True

    def _log_weights(self, log_weight: Callable[[P], float]) -> Floats:
        return _log_weights(self.particles, log_weight) + self._corrections

    def draw(self, count: int = 1) -> list[int]:
        """Return the indices of independent draws from the weighted particles."""
        drawn = self._random.choice(len(self.particles), count, p=self.probabilities)
        return [int(index) for index in drawn]


def _whole(particle: Weighted) -> float:
    return particle.log_weight


def _log_weights(particles: Sequence[P], log_weight: Callable[[P], float]) -> Floats:
    return np.array([log_weight(particle) for particle in particles], np.float64)


def _log_mean(log_weights: Floats) -> float:
    largest = float(log_weights.max())
    if largest == -math.inf:
        return largest
    return largest + math.log(np.exp(log_weights - largest).mean())


def _normalized(log_weights: Floats) -> Floats:
    largest = log_weights.max()
    if largest == -math.inf:
        return np.full(len(log_weights), 1 / len(log_weights))
    weights = np.exp(log_weights - largest)
    return np.asarray(weights / weights.sum(), np.float64)


def _effective_size(log_weights: Floats) -> float:
    return float(1 / np.square(_normalized(log_weights)).sum())


def systematic_ancestors(probabilities: Floats, offset: float) -> list[int]:
    """Return the ancestor of each particle.

    Each particle is the ancestor of ``floor(n p)`` or ``ceil(n p)`` particles. A particle that is
    an ancestor at all is its own ancestor, so that its state need not be moved.

    Args:
        probabilities: Normalized weights ``p``, shape (n,).
        offset: A uniformly random number in [0, 1).
    """
    count = len(probabilities)
    bounds = np.cumsum(probabilities)[:-1]
    points = (offset + np.arange(count)) / count
    found = np.searchsorted(bounds, points, side="right")
    # The sums may end below 1 because of rounding; the last particle may have no weight.
    last = int(np.flatnonzero(probabilities)[-1])
    chosen = np.bincount(np.minimum(found, last), minlength=count)
    ancestors = list(range(count))
    free = [slot for slot in range(count) if not chosen[slot]]
    for ancestor in range(count):
        for _ in range(chosen[ancestor] - 1):
            ancestors[free.pop(0)] = ancestor
    return ancestors


KnownWeights: TypeAlias = dict[tuple[int, tuple[int, ...], SamplingParameters], mx.array]
"""Log-weights of forced tokens by position, ids and sampling parameters."""


class _ForcedToken(NamedTuple):
    """A forced token that has not been weighed.

    Attributes:
        position: Its index in the sequence's tokens.
        ids: The tokens that could have been in its place: itself, or all end tokens.
        sampler: Gives its probability.
    """

    position: int
    ids: tuple[int, ...]
    sampler: Sampler


class TokenWeights:
    """Log-weights of a sequence's tokens: lazy arrays, then their sum as they are read.

    A sampled token weighs the probability that the model gives to all tokens among which it was
    sampled. Nothing else could be in the place of a forced token, so it weighs its own probability,
    which is known once the model has processed the token before it.

    Attributes:
        sums: Sums of the log-weights that have been read: of the first 0, 1, 2, … tokens.
    """

    def __init__(self) -> None:
        self.sums = [0.0]
        self._factor = 0.0
        self._unread: list[mx.array] = []
        self._forced: deque[_ForcedToken] = deque()

    @property
    def total(self) -> float:
        """Sum of all log-weights that have been read."""
        return self.sums[-1]

    def sum_of(self, tokens: int) -> float:
        """Return the sum of the log-weights of the first tokens, as far as they have been read."""
        return self.total if tokens >= len(self.sums) else self.sums[tokens]

    @property
    def is_complete(self) -> bool:
        """Whether no forced token waits for the logits before it."""
        return not self._forced

    @property
    def unread(self) -> Sequence[mx.array]:
        """Log-weights that have not been read, float32, shape ()."""
        return tuple(self._unread)

    def add(self, log_weight: mx.array) -> None:
        """Add the log-weight of a token, which is not read yet."""
        self._unread.append(log_weight)

    def add_factor(self, log_weight: float) -> None:
        """Add a log-weight that belongs to the next token besides its own."""
        self.read()
        self._factor += log_weight

    def settle(self, tokens: int, log_weight: float) -> None:
        """Set the log-weights of the next forced tokens: that of the first, 0 for the others."""
        self.read()
        for _ in range(tokens):
            self._forced.popleft()
            self.sums.append(self.total + log_weight + self._factor)
            log_weight = self._factor = 0.0
        self._factor += log_weight

    def expect(self, position: int, ids: Sequence[int], sampler: Sampler) -> None:
        """Record a forced token; see :class:`_ForcedToken`."""
        self._forced.append(_ForcedToken(position, tuple(ids), sampler))

    def weigh(
        self,
        logits: mx.array,
        start: int,
        tokens: Sequence[int],
        prompt_tokens: int,
        known: KnownWeights,
    ) -> None:
        """Weigh the forced tokens that follow tokens of a forward pass.

        Args:
            logits: The pass's logits, shape (tokens of the pass, vocabulary).
            start: Index of the pass's first token in ``tokens``.
            tokens: All tokens of the sequence.
            prompt_tokens: Length of the prompt.
            known: The weights of sequences with the same tokens and logits, which is extended.
        """
        while self._forced and self._forced[0].position <= start + logits.shape[0]:
            position, ids, sampler = self._forced.popleft()
            key = position, ids, sampler.parameters
            if key not in known:
                known[key] = sampler.log_probability(
                    logits[position - 1 - start],
                    mx.array(ids),
                    tokens[:position],
                    prompt_tokens=prompt_tokens,
                )
            self._unread.append(known[key])

    def read(self) -> None:
        """Read the log-weights that are known by now. May wait for the device."""
        for weight in self._unread:
            value = cast(float, weight.item())
            # A model that computes NaN gives no weight.
            self.sums.append(
                self.total + self._factor + (-math.inf if math.isnan(value) else value)
            )
            self._factor = 0.0
        self._unread.clear()

    def copy(self) -> TokenWeights:
        """Return independent weights with the same past."""
        twin = TokenWeights()
        twin.sums = list(self.sums)
        twin._factor = self._factor
        twin._unread = list(self._unread)
        twin._forced = deque(self._forced)
        return twin
