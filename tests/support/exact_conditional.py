"""The exact distribution of a small model's answers, by enumeration.

The target is the model's distribution, conditioned on every token being kept by the machine, the
guard and the filters. Masking samples from another distribution: the product of the probabilities
that are renormalised among the kept tokens at each step (Park et al. 2024, "Grammar-Aligned
Decoding"). Both are computed in NumPy, in double precision, without the engine's samplers.
"""

from __future__ import annotations

import copy
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from engine_parts import core_of
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache, make_prompt_cache

from proxy_engine import InferenceEngine
from proxy_engine.engine.arguments import RequestArguments
from proxy_engine.generation import FastForward, end_token_ids
from proxy_engine.generation.fast_forward import text_encoder
from samplers import SamplingParameters
from state_machines import Vocabulary
from state_machines.completion import Guard

Logits: TypeAlias = Callable[[Sequence[Sequence[int]]], npt.NDArray[np.float64]]
"""Rows of tokens of one length, prompt included, to the logits after each: (rows, vocabulary)."""

_Row: TypeAlias = npt.NDArray[np.float64]

_MAX_LOGITS = 1 << 22
"""Logits that are computed together."""


@dataclass(frozen=True, slots=True)
class EnumeratedAnswer:
    """One answer.

    Attributes:
        token_ids: Its tokens, the end token included.
        steps: For each token, its log-probability under the model, without mask and filters, and
            the log-probability that masking writes it: 0 for a forced token.
    """

    token_ids: tuple[int, ...]
    steps: tuple[tuple[float, float], ...]

    @property
    def log_base(self) -> float:
        """Log-probability of the tokens under the model: no mask, no filter."""
        return math.fsum(base for base, _ in self.steps)

    @property
    def log_masked(self) -> float:
        """Log-probability that masking writes the tokens."""
        return math.fsum(masked for _, masked in self.steps)


@dataclass(frozen=True)
class ExactConditional:
    """All answers of a request.

    Attributes:
        sequences: The answers by tokens.
        log_evidence: Log of the model's total mass of the answers.
        vocabulary: The tokens.
    """

    sequences: tuple[EnumeratedAnswer, ...]
    log_evidence: float
    vocabulary: Vocabulary

    @property
    def by_tokens(self) -> dict[tuple[int, ...], float]:
        """The exact conditional probability of each token sequence."""
        return {one.token_ids: math.exp(one.log_base - self.log_evidence) for one in self.sequences}

    @property
    def masked_by_tokens(self) -> dict[tuple[int, ...], float]:
        """The probability that masking writes each token sequence."""
        return {one.token_ids: math.exp(one.log_masked) for one in self.sequences}

    @property
    def by_text(self) -> dict[str, float]:
        """The exact conditional probability of each text."""
        return self._by_text(self.by_tokens)

    @property
    def masked_by_text(self) -> dict[str, float]:
        """The probability that masking writes each text."""
        return self._by_text(self.masked_by_tokens)

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text that tokens spell, without end tokens; special tokens by their names."""
        ends = self.vocabulary.end_token_ids
        forms = self.vocabulary.token_bytes
        spelled = b"".join(forms[i] or b"" for i in token_ids if i not in ends)
        return spelled.replace(Vocabulary.SPECIAL_MARK, b"").decode("utf-8", "replace")

    def _by_text(self, by_tokens: Mapping[tuple[int, ...], float]) -> dict[str, float]:
        found: defaultdict[str, float] = defaultdict(float)
        for token_ids, probability in by_tokens.items():
            found[self.text(token_ids)] += probability
        return dict(found)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The beginning of an answer; ``forced`` tokens follow it."""

    token_ids: tuple[int, ...]
    guard: Guard
    steps: tuple[tuple[float, float], ...] = ()
    forced: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Enumeration:
    """What determines the answers of a request.

    Attributes:
        logits: The model.
        prompt_ids: The prompt.
        guard: The guard at the start of the answer. It is not advanced.
        end_token_ids: Tokens that end the text.
        max_tokens: Maximum number of generated tokens.
        min_tokens: Number of tokens before which end tokens are masked.
        sampling: Temperature, filters, biases and penalties.
        fast_forward: Tokenizes forced text; ``None``: all tokenizations of it are answers.
        exact: Whether filters see the guard's exact mask. Without filters it makes no difference.
    """

    logits: Logits
    prompt_ids: Sequence[int]
    guard: Guard
    end_token_ids: tuple[int, ...]
    max_tokens: int
    min_tokens: int
    sampling: SamplingParameters
    fast_forward: FastForward | None = None
    exact: bool = True

    @classmethod
    def of(
        cls,
        engine: InferenceEngine,
        prompt: Any,
        *,
        response_format: Any = None,
        **arguments: Unpack[RequestArguments],
    ) -> Enumeration:
        """Return the enumeration of a request to an engine, given as to ``engine.generate``.

        The engine has to be idle while it is used.
        """
        core = core_of(engine)
        request = core.preparation.request(prompt, response_format, arguments)
        if request.guard is None:
            raise ValueError("unconstrained text cannot be enumerated")
        if request.options.parts or request.options.max_seconds is not None:
            raise ValueError("options by part and time limits are not supported")
        logits = model_logits(core.loaded.model, request.prompt.token_ids)
        encode = text_encoder(core.loaded.tokenizer, threading.Lock())
        fast_forward = FastForward(encode, core.vocabulary)
        return cls(
            lambda rows: core.worker.submit(lambda: logits(rows)).result(),
            request.prompt.token_ids,
            request.guard,
            end_token_ids(core.vocabulary, core.loaded.tokenizer),
            request.max_tokens,
            request.options.min_tokens,
            request.options.sampling(),
            fast_forward if request.options.fast_forward else None,
        )

    def run(self, max_sequences: int = 100_000) -> ExactConditional:
        """Enumerate the answers.

        Raises:
            ValueError: There are more than ``max_sequences`` answers.
        """
        vocabulary = self.guard.matcher.vocabulary
        waiting = defaultdict(list)
        first = _Prefix((), self.guard)
        waiting[0] = [replace(first, forced=self._forced(first))]
        finished: list[EnumeratedAnswer] = []
        rows = max(1, _MAX_LOGITS // vocabulary.size)
        while waiting:
            length = min(waiting)
            prefixes = waiting.pop(length)
            for start in range(0, len(prefixes), rows):
                for prefix in self._extended(prefixes[start : start + rows]):
                    if self._is_finished(prefix):
                        one = EnumeratedAnswer(prefix.token_ids, prefix.steps)
                        finished.append(one)
                    else:
                        waiting[length + 1].append(prefix)
            if len(finished) + len(waiting[length + 1]) > max_sequences:
                raise ValueError(f"there are more than {max_sequences:,} answers")
            if not waiting[length + 1]:
                del waiting[length + 1]
        total = float(np.logaddexp.reduce([one.log_base for one in finished]))
        return ExactConditional(tuple(finished), total, vocabulary)

    def follow(self, token_ids: Sequence[int]) -> EnumeratedAnswer:
        """Return one answer, without enumerating the others.

        Raises:
            ValueError: It is no answer.
        """
        first = _Prefix((), self.guard)
        prefix = replace(first, forced=self._forced(first))
        for length in range(1, len(token_ids) + 1):
            written = tuple(token_ids[:length])
            found = [one for one in self._extended([prefix]) if one.token_ids == written]
            if not found:
                raise ValueError(f"token {length - 1} is not kept")
            prefix = found[0]
        return EnumeratedAnswer(prefix.token_ids, prefix.steps)

    def _extended(self, prefixes: Sequence[_Prefix]) -> Iterator[_Prefix]:
        logits = self.logits([[*self.prompt_ids, *one.token_ids] for one in prefixes])
        for prefix, row in zip(prefixes, logits, strict=True):
            yield from self._continuations(prefix, row)

    def _continuations(self, prefix: _Prefix, logits: _Row) -> Iterator[_Prefix]:
        """Yield the prefix with each kept token behind it."""
        allowed = self._allowed(prefix)
        adjusted = self._adjusted(prefix, logits)
        base = _log_softmax(adjusted / self.sampling.temperature)
        if prefix.forced:
            token_id, *rest = prefix.forced
            ends = list(self.end_token_ids)
            # A forced end stands for all end tokens.
            mass = np.logaddexp.reduce(base[ends if token_id in ends else [token_id]])
            yield self._appended(prefix, token_id, float(mass), 0.0, rest)
            return
        kept = filtered(np.where(allowed, adjusted, -np.inf), self.sampling)
        ids = [int(i) for i in np.flatnonzero(kept > -np.inf) if self._accepts(prefix, int(i))]
        masked = _log_softmax(kept[ids] / self.sampling.temperature)
        for token_id, log_masked in zip(ids, masked, strict=True):
            if base[token_id] > -np.inf:
                one = self._appended(prefix, token_id, float(base[token_id]), float(log_masked))
                yield replace(one, forced=self._forced(one))

    def _accepts(self, prefix: _Prefix, token_id: int) -> bool:
        is_end = token_id in self.end_token_ids
        return prefix.guard.matcher.is_accepting if is_end else prefix.guard.accepts(token_id)

    def _allowed(self, prefix: _Prefix) -> npt.NDArray[np.bool_]:
        allowed = prefix.guard.matcher.allowed_tokens()
        allowed = prefix.guard.mask(allowed, exact=self.exact)
        if len(prefix.token_ids) < self.min_tokens:
            others = allowed.copy()
            others[list(self.end_token_ids)] = False
            return others if others.any() else allowed
        return allowed

    def _adjusted(self, prefix: _Prefix, logits: _Row) -> _Row:
        """Apply biases and penalties to the model's logits."""
        adjusted = logits.astype(np.float64)
        for token_id, number in self.sampling.bias_pairs:
            adjusted[token_id] += number
        tokens = [*self.prompt_ids, *prefix.token_ids]
        recent = tokens[-self.sampling.repetition_context_size :]
        penalty = self.sampling.repetition_penalty
        for token_id in set(recent):
            value = adjusted[token_id]
            adjusted[token_id] = value * penalty if value < 0 else value / penalty
        written = prefix.token_ids[-self.sampling.repetition_context_size :]
        for token_id, count in Counter(written).items():
            adjusted[token_id] -= self.sampling.presence_penalty
            adjusted[token_id] -= self.sampling.frequency_penalty * count
        return adjusted

    def _forced(self, prefix: _Prefix) -> tuple[int, ...]:
        """Return the tokens that are appended without sampling, as the loop appends them."""
        if self._is_finished(prefix):
            return ()
        guard = _copy(prefix.guard)
        tokens: tuple[int, ...] = ()
        if self.fast_forward is not None:
            written = [*self.prompt_ids, *prefix.token_ids]
            tokens = self.fast_forward.tokens(guard.matcher, written)
        forced = []
        for token_id in tokens:
            if not guard.accepts(token_id):
                break
            guard.advance(token_id)
            forced.append(token_id)
            if len(prefix.token_ids) + len(forced) >= self.max_tokens:
                return tuple(forced)
        if guard.matcher.state.nullable and not guard.matcher.state.first_bytes:
            forced.append(self.end_token_ids[0])
        return tuple(forced)

    def _appended(
        self,
        prefix: _Prefix,
        token_id: int,
        log_base: float,
        log_masked: float,
        forced: Sequence[int] = (),
    ) -> _Prefix:
        guard = _copy(prefix.guard)
        guard.advance(token_id)
        return _Prefix(
            (*prefix.token_ids, token_id),
            guard,
            (*prefix.steps, (log_base, log_masked)),
            tuple(forced),
        )

    def _is_finished(self, prefix: _Prefix) -> bool:
        is_at_limit = len(prefix.token_ids) >= self.max_tokens
        return is_at_limit or prefix.token_ids[-1:] in {(i,) for i in self.end_token_ids}


def model_logits(model: Module, prompt_ids: Sequence[int] = ()) -> Logits:
    """Return a model's logits.

    Args:
        model: The model.
        prompt_ids: What all rows begin with. Models with plain KV caches process it once.
    """
    kept: list[Any] = []
    shared = len(prompt_ids) - 1

    def caches(rows: int) -> list[Any] | None:
        if not kept:
            kept.extend(make_prompt_cache(model))
            if shared > 0 and all(type(layer) is KVCache for layer in kept):
                model(mx.array([list(prompt_ids[:-1])]), cache=kept)
                mx.eval([layer.state for layer in kept])
        if kept[0].empty():
            return None
        copies = [KVCache() for _ in kept]
        for twin, layer in zip(copies, kept, strict=True):
            twin.update_and_fetch(
                *(mx.repeat(part, rows, axis=0) for part in layer.keys_and_values())
            )
        return copies

    def logits(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        cache = caches(len(rows))
        start = 0 if cache is None else shared
        given = mx.array([list(row[start:]) for row in rows])
        last = model(given, cache=cache)[:, -1].astype(mx.float32)
        return np.array(last).astype(np.float64)

    return logits


def filtered(logits: _Row, sampling: SamplingParameters) -> _Row:
    """Set logits to ``-inf`` that top-p, min-p or top-k drop, in this order, one after the other."""
    if sampling.top_p < 1:
        probabilities = np.exp(_log_softmax(logits))
        ascending = np.sort(probabilities)
        likelier = ascending[::-1].cumsum()[::-1] - ascending
        least = ascending[likelier < sampling.top_p].min()
        logits = np.where(probabilities >= least, logits, -np.inf)
    if sampling.min_p > 0:
        least = logits.max() + math.log(sampling.min_p)
        ranked = np.sort(logits)[-min(sampling.min_tokens_to_keep, len(logits))]
        logits = np.where(logits >= min(least, ranked), logits, -np.inf)
    if 0 < sampling.top_k < len(logits):
        least = np.sort(logits)[-sampling.top_k]
        logits = np.where(logits >= least, logits, -np.inf)
    return logits


def _log_softmax(logits: _Row) -> _Row:
    shifted = logits - logits.max()
    result: _Row = shifted - np.log(np.exp(shifted).sum())
    return result


def _copy(guard: Guard) -> Guard:
    twin = copy.copy(guard)
    twin.matcher = guard.matcher.copy()
    return twin
