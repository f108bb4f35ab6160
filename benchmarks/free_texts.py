"""A batch of free texts, beside mlx-lm's ``batch_generate``: time for each token.

No grammar takes part, so this is the cost of the loop itself. All texts have the same number of
tokens with both: no text ends by itself. For that, mlx-lm gets no end tokens, and this engine masks
them by ``min_tokens``. Both run by turns in one process.

    make bench-free-texts FREE_TEXTS_ARGS="[--model 8x256] [--texts 8] [--tokens 200] [--repeats 5]
        [--samplings greedy,seeded] [--drafts off,auto]"

``--model tiny`` is the model of the tests (two layers of width 32, a vocabulary of 320), ``LxW`` a
random one with the embedded model's tokenizer.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from alternation import Ratio, ratio_of, rotated, settle
from arguments import environment, positive
from mlx.nn.layers.base import Module
from mlx_lm.generate import batch_generate
from mlx_lm.sample_utils import make_sampler
from mlx_lm.tokenizer_utils import TokenizerWrapper
from random_models import make_random_model, size
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import CacheOptions, InferenceEngine, RawPrompt
from proxy_engine.runtime.blas import has_fast_blas

__all__ = ["main"]

_PROMPT = "Write about the number "
_TEMPERATURES = {"greedy": 0.0, "seeded": 1.0}


class _Texts:
    """The texts, written by either engine."""

    def __init__(self, model: Module, tokenizer: TokenizerWrapper, texts: int, tokens: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._prompts = [f"{_PROMPT}{number}." for number in range(texts)]
        # A cached prompt would save this engine a part of the prefill.
        self._engine = InferenceEngine(
            model, tokenizer, batch_size=texts, cache=CacheOptions(max_bytes=0), on_progress=None
        )

    def ours(self, temperature: float, drafts: Any) -> int:
        """Write the texts with this engine. Returns the number of passes of the first one."""
        results = self._engine.generate_batch(
            [RawPrompt(prompt) for prompt in self._prompts],
            temperature=temperature,
            seed=7,
            speculation=drafts,
            min_tokens=self._tokens,
            max_tokens=self._tokens,
        )
        _check([len(result.token_ids) for result in results], self._tokens)
        return results[0].usage.forward_passes

    def theirs(self, temperature: float) -> None:
        """Write the texts with mlx-lm."""
        mx.random.seed(7)
        endless = _Endless(self._tokenizer)
        response = batch_generate(
            self._model,
            endless,
            [self._tokenizer.encode(prompt) for prompt in self._prompts],
            max_tokens=self._tokens,
            sampler=make_sampler(temp=temperature),
            return_token_ids=True,
        )
        _check([len(ids) for ids in response.token_ids], self._tokens)

    def close(self) -> None:
        self._engine.close()


class _Endless:
    """A tokenizer without end tokens."""

    eos_token_ids: Sequence[int] = ()

    def __init__(self, tokenizer: TokenizerWrapper) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def _check(lengths: Sequence[int], expected: int) -> None:
    if set(lengths) != {expected}:
        raise SystemExit(f"texts of {expected} tokens expected, not of {lengths}")


def _measured(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return processor time and wall time of work in seconds, and its result."""
    settle()
    started, used = time.perf_counter(), time.process_time()
    result = work()
    return time.process_time() - used, time.perf_counter() - started, result


def compare(
    texts: _Texts, temperature: float, drafts: str, repeats: int
) -> tuple[Ratio, Ratio, int]:
    """Return the ratios of processor time and of wall time, and the passes of this engine."""
    stacks: dict[str, Callable[[], Any]] = {
        "ours": lambda: texts.ours(temperature, drafts),
        "theirs": lambda: texts.theirs(temperature),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in stacks}
    passes = 0
    for stack in stacks.values():
        stack()
    for turn in range(repeats):
        for name in rotated(stacks, turn):
            used, wall, result = _measured(stacks[name])
            times[name].append((used, wall))
            passes = result or passes
    used, wall = (
        ratio_of([pair[kind] for pair in times["ours"]], [pair[kind] for pair in times["theirs"]])
        for kind in (0, 1)
    )
    return used, wall, passes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--texts", type=positive, default=8)
    parser.add_argument("--tokens", type=positive, default=200)
    parser.add_argument("--repeats", type=positive, default=5)
    parser.add_argument("--samplings", default="greedy,seeded")
    parser.add_argument("--drafts", default="off,auto")
    options = parser.parse_args(arguments)
    model: Module
    if options.model == "tiny":
        model, tokenizer = make_tiny_model(context=4096), make_tiny_tokenizer()
    else:
        with InferenceEngine(on_progress=None) as embedded:
            tokenizer = embedded.tokenizer
            model = make_random_model(size(options.model), embedded.vocabulary.size)
    print({**environment(), "has_fast_blas": has_fast_blas()})
    texts = _Texts(model, tokenizer, options.texts, options.tokens)
    gc.collect()
    gc.freeze()
    with contextlib.closing(texts):
        for drafts in options.drafts.split(","):
            for sampling in options.samplings.split(","):
                temperature = _TEMPERATURES[sampling]
                used, wall, passes = compare(texts, temperature, drafts, options.repeats)
                tokens = options.texts * options.tokens
                print(
                    f"{sampling}, drafts {drafts}: processor {used.value:.2f} "
                    f"({used.low:.2f} to {used.high:.2f}), "
                    f"{1e6 * used.ours / tokens:.0f} beside {1e6 * used.theirs / tokens:.0f} µs a "
                    f"token; wall {wall.value:.2f} ({wall.low:.2f} to {wall.high:.2f}); "
                    f"{passes} passes for {options.tokens} tokens"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
