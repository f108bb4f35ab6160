"""Runs of one request with and without drafts, compared."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
from adversarial_drafters import ALWAYS, Replay, Texts, drafter_of, drafters
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object, function_tool
from patched_limits import patch_limits
from prefix_model import PrefixModel

from proxy_engine import (
    Event,
    Finished,
    GenerationResult,
    InferenceEngine,
    PartialValue,
    PromptProgress,
    TokenGenerated,
)
from proxy_engine.generation.speculation.drafting import DraftedText
from proxy_engine.results.parts import Logprob, TokenLogprobs

PERSON: dict[str, Any] = closed_object(
    name={"type": "string", "maxLength": 12},
    age={"type": "integer"},
    tags={"type": "array", "items": {"enum": ["abc", "b"]}, "maxItems": 4},
)
TOOL: dict[str, Any] = function_tool(
    "find",
    {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 12}},
        "required": ["a"],
    },
)
_SYMBOLS = ('"', "a", "b", "ab", "1", "2", ":", "{", "}", "Ġ", "x")


class Living:
    """The texts that draft models and heads have read, and not freed."""

    def __init__(self) -> None:
        self.texts: WeakSet[DraftedText] = WeakSet()

    def __len__(self) -> int:
        gc.collect()
        return len(self.texts)


def living_texts(monkeypatch: pytest.MonkeyPatch) -> Living:
    """Return the texts of draft models and heads that begin from now on and are not freed."""
    living, begin = Living(), DraftedText.__init__

    def counted(text: DraftedText, *arguments: Any) -> None:
        begin(text, *arguments)
        living.texts.add(text)

    monkeypatch.setattr(DraftedText, "__init__", counted)
    return living


def babbling_model(tokenizer: TokenizerWrapper) -> PrefixModel:
    """A model with random probabilities for all tokens, which depend on the last two.

    Its logits are the same numbers in passes of any width, so tokens are compared exactly.
    """
    symbols = [int(tokenizer.convert_tokens_to_ids(token)) for token in _SYMBOLS]
    end = int(tokenizer.eos_token_id)
    others = [token for token in range(end + 1) if token not in symbols]

    def probabilities(text: tuple[int, ...]) -> dict[int, float]:
        random = np.random.default_rng([3, *text])
        likely = random.dirichlet(np.full(len(symbols), 0.4))
        unlikely = random.dirichlet(np.full(len(others), 1.0)) * 0.3
        found = dict(zip(symbols + others, [*likely, *unlikely], strict=True))
        return {token: max(share, 1e-6) for token, share in found.items()}

    return PrefixModel(320, symbols, 2, probabilities)


@contextmanager
def complete_masks() -> Iterator[None]:
    """Let guards restrict masks completely.

    Which tokens a guard decides within its own step limits depends on what its caches know, so that
    even runs without drafts differ from each other.
    """
    with pytest.MonkeyPatch.context() as patched:
        patch_limits(patched, restriction_steps=200_000, token_plan_steps=200_000)
        yield


def outcome(result: GenerationResult[Any]) -> dict[str, Any]:
    """Return the parts of a result that do not depend on times, identifiers and drafts."""
    return {
        "text": result.text,
        "parsed": result.parsed,
        "finish_reason": result.finish_reason,
        "cut_short": result.cut_short,
        "token_ids": result.token_ids,
        "reasoning": result.reasoning,
        "tool_calls": [(call.name, call.arguments, call.raw) for call in result.tool_calls],
        "parts": result.parts,
        "choices": [
            (choice.offset, choice.chosen.text, choice.forced_bytes)
            for choice in result.scored_choices
        ],
        "tokens": (result.usage.prompt_tokens, result.usage.completion_tokens),
        "forced": result.usage.forced_tokens,
    }


def check_logprobs(
    one: Sequence[TokenLogprobs] | None, other: Sequence[TokenLogprobs] | None
) -> None:
    """Compare log-probabilities up to rounding."""
    if one is None or other is None:
        assert one is other
        return
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert left.chosen.token_id == right.chosen.token_id
        for name in ("chosen", "top_before_mask", "top_after_mask"):
            _check_close(_listed(getattr(left, name)), _listed(getattr(right, name)))


def _listed(given: Logprob | Sequence[Logprob]) -> Sequence[Logprob]:
    return [given] if isinstance(given, Logprob) else given


def _check_close(one: Sequence[Logprob], other: Sequence[Logprob]) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        for name in ("before_mask", "after_mask"):
            pair = getattr(left, name), getattr(right, name)
            assert pair[0] == pair[1] or math.isclose(*pair, abs_tol=1e-4)


def check_usage(drafted: GenerationResult[Any], plain: GenerationResult[Any]) -> None:
    """Check the token counts of a run with drafts, given the run without."""
    usage, without = drafted.usage, plain.usage
    assert 0 <= usage.accepted_tokens <= usage.drafted_tokens
    for counts in usage.drafts.values():
        assert 0 <= counts.accepted_tokens <= counts.drafted_tokens
    assert without.accepted_tokens == without.drafted_tokens == 0
    assert usage.forward_passes <= without.forward_passes <= without.completion_tokens
    sampled = usage.completion_tokens - usage.forced_tokens
    assert usage.accepted_tokens <= sampled


def merged(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Return events in a form that does not depend on how many tokens arrive together.

    Consecutive deltas of one part are joined; partial values and progress are left out.
    """
    found: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, TokenGenerated):
            continue
        if isinstance(event, PartialValue | PromptProgress | Finished):
            continue
        values = {name: value for name, value in event if name != "id"}
        text = next((values.pop(name) for name in ("text", "arguments") if name in values), "")
        key = tuple(sorted((name, str(value)) for name, value in values.items()))
        if found and found[-1][0] == key and isinstance(text, str):
            found[-1] = (key, found[-1][1] + text)
        else:
            found.append((key, text))
    return found


class Comparison:
    """Runs one request without drafts, then with drafters that know its answer.

    Args:
        engine: The engine.
        prompt: The prompt.
        arguments: The other arguments of ``engine.generate``.
    """

    def __init__(self, engine: InferenceEngine, prompt: Any, **arguments: Any) -> None:
        self._engine = engine
        self._prompt = prompt
        self._arguments = arguments
        self.plain = engine.generate(prompt, **arguments, speculation="off")

    def texts(self, prompt_ids: Sequence[int]) -> Texts:
        """Return the prompt with the answer."""
        return [[*prompt_ids, *self.plain.token_ids]]

    def run(self, *kinds: str, seed: int = 0, speculation: Any = ALWAYS) -> GenerationResult[Any]:
        """Return the result with drafters, after it was compared."""
        made: list[Replay] = []
        with drafters(self.maker(kinds, seed, made)):
            result = self._engine.generate(self._prompt, **self._arguments, speculation=speculation)
        assert outcome(result) == outcome(self.plain)
        check_logprobs(result.logprobs, self.plain.logprobs)
        check_usage(result, self.plain)
        assert [problem for drafter in made for problem in drafter.problems] == []
        return result

    def stream(self, *kinds: str, seed: int = 0) -> list[Event]:
        """Return the events with drafters, after their result was compared."""
        with drafters(self.maker(kinds, seed, [])):
            events = list(self._engine.stream(self._prompt, **self._arguments, speculation=ALWAYS))
        last = events[-1]
        assert isinstance(last, Finished)
        assert outcome(last.result) == outcome(self.plain)
        return events

    def maker(
        self, kinds: Sequence[str], seed: int, made: list[Replay]
    ) -> Callable[[Sequence[int]], list[Replay]]:
        """Return a function that creates drafters of some kinds, and appends them to ``made``."""
        vocabulary = self._engine.vocabulary
        special = [*vocabulary.end_token_ids, *vocabulary.special_tokens.values()]

        def make(prompt_ids: Sequence[int]) -> list[Replay]:
            own = [
                drafter_of(
                    kind,
                    self.texts(prompt_ids),
                    seed=seed,
                    vocabulary=vocabulary.size,
                    special=special,
                )
                for kind in kinds
            ]
            made.extend(own)
            return own

        return make
