"""Validity of answers: kinds of constraints, drafters, requests at once, and samplings.

The model is a small llama with random weights, so only the masks make an answer valid. The draft
model and the draft head are its weights with noise, so that some of their tokens are accepted.
Every answer is judged by libraries that know nothing of the masks (``validity_cases``). Greedy
answers, and answers with a seed, are compared with those of a request alone without drafts.

    python benchmarks/validity.py [--answers 32] [--json docs/plots/validity.json]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm.speculative.drafters.eagle3 as eagle3
from arguments import environment, positive
from mlx.nn.layers.base import Module
from mlx.utils import tree_map
from mlx_lm.models import llama
from mlx_lm.models.cache import make_prompt_cache
from random_models import Size, make_random_model
from records import write_record
from tables import markdown
from validity_cases import CASES, Case

from proxy_engine import BatchRequest, GenerationResult, InferenceEngine, SpeculationOptions
from proxy_engine.generation.speculation.draft_heads import HeadOutput
from proxy_engine.models.loading import load_model
from proxy_engine.prompt_cache.prompt_caches import PromptCaches

SIZE = Size(2, 64)
AT_ONCE = (1, 8, 32)
SAMPLINGS = ("greedy", "temperature 1, seed", "temperature 1")
DRAFTED = 4
MAX_TOKENS = 64

_SHARPNESS = 8.0
"""Scale of the logits. The most likely token then has some 15%, and not 1/49,152."""

_NOISE = 0.2


class CopyHead:
    """A chain that continues the tokens with a copy of a model, and does not read states.

    Args:
        model: The copy.
    """

    state_layers = ()
    reads_target = False
    mask_id = None
    block_size = 0
    first_prediction = 1

    def __init__(self, model: llama.Model) -> None:
        self._model = model

    def make_cache(self) -> list[Any]:
        """Return an empty cache."""
        return list(make_prompt_cache(self._model))

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Return the copy's hidden states behind some tokens."""
        features = self._model.model(tokens, cache)
        return HeadOutput(features, features)

    def logits(self, features: mx.array) -> mx.array:
        """Return the copy's logits."""
        logits: mx.array = self._model.model.embed_tokens.as_linear(features)
        return logits

    def logits_after(self, token_id: int, features: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of a block, which this is not."""
        return logits


def target_model(width: int) -> llama.Model:
    """Return the model, whose logits are not all equal."""
    model = make_random_model(SIZE, width)
    model.model.norm.weight = mx.full((SIZE.width,), _SHARPNESS)
    mx.eval(model.parameters())
    return model


def noisy_copy(width: int) -> llama.Model:
    """Return the model with noise in its weights."""
    model = target_model(width)
    mx.random.seed(1)
    model.update(
        tree_map(
            lambda weight: weight * (1 + _NOISE * mx.random.normal(weight.shape)),
            model.parameters(),
        )
    )
    mx.eval(model.parameters())
    return model


def _unread_head(width: int) -> Module:
    """Return a head that the engine loads; :class:`CopyHead` takes its place."""
    layers = {"hidden_size": SIZE.width, "intermediate_size": 64, "vocab_size": width}
    config = {
        "transformer_layer_config": {**layers, "num_attention_heads": 2, "num_key_value_heads": 2},
        "draft_vocab_size": width,
        "eagle_aux_hidden_state_layer_ids": [0, 1, 1],
    }
    head = eagle3.Model(eagle3.ModelConfig.from_dict(config))
    mx.eval(head.parameters())
    return head


def engine_of(drafts: str) -> InferenceEngine:
    """Return the engine of a kind of drafts."""
    loaded = load_model()
    width = loaded.logits_width
    options: dict[str, Any] = {"batch_size": max(AT_ONCE), "max_compile_seconds": None}
    if drafts == "draft model":
        options["draft_model"] = noisy_copy(width)
    if drafts == "heads":
        options["draft_model"] = _unread_head(width)
    engine = InferenceEngine(target_model(width), loaded.tokenizer, **options)
    if drafts == "heads":
        drafter: Any = engine._core.drafter
        drafter._head = CopyHead(noisy_copy(width))
        drafter._caches = PromptCaches(drafter._head)
        drafter.state_layers = ()
    return engine


SPECULATION: dict[str, Any] = {
    "none": "off",
    "copy": SpeculationOptions(draft_model=False, is_adaptive=False, max_draft_tokens=DRAFTED),
    "draft model": SpeculationOptions(
        prompt_lookup=False,
        is_adaptive=False,
        num_draft_tokens=DRAFTED,
        max_draft_tokens=DRAFTED,
    ),
}
SPECULATION["heads"] = SPECULATION["draft model"]


def request_of(number: int, case: Case, drafts: str, sampling: str) -> BatchRequest:
    """Return the request with a number, which determines its prompt and its seed."""
    words = " ".join(f"gear {number * step % 17}" for step in range(1, 3 + number % 5))
    options: dict[str, Any] = {
        "max_tokens": MAX_TOKENS,
        "temperature": 0 if sampling == "greedy" else 1,
        "speculation": SPECULATION[drafts],
        **case.options,
    }
    if sampling.endswith("seed"):
        options["seed"] = number
    tools, choice = options.pop("tools", None), options.pop("tool_choice", None)
    prompt = f"Order {4711 + number} of customer {number}: {words}"
    return BatchRequest(prompt, case.response_format, tools, choice, options)


def answers(
    engine: InferenceEngine, requests: Sequence[BatchRequest], at_once: int
) -> list[GenerationResult[Any] | Exception]:
    """Return the answers, in groups of so many at once."""
    found: list[GenerationResult[Any] | Exception] = []
    for start in range(0, len(requests), at_once):
        group = requests[start : start + at_once]
        found += engine.generate_batch(group, return_exceptions=True)
    return found


def measure(count: int, kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Return the figures of each cell of the matrix, with ``count`` answers."""
    alone: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for drafts in SPECULATION:
        with ExitStack() as stack:
            engine = stack.enter_context(engine_of(drafts))
            for kind in kinds:
                for sampling in SAMPLINGS:
                    for at_once in AT_ONCE:
                        cases = [CASES[kind][n % len(CASES[kind])] for n in range(count)]
                        requests = [
                            request_of(number, case, drafts, sampling)
                            for number, case in enumerate(cases)
                        ]
                        started = time.perf_counter()
                        found = answers(engine, requests, at_once)
                        seconds = time.perf_counter() - started
                        facts = {"kind": kind, "drafts": drafts, "at_once": at_once}
                        facts |= {"sampling": sampling, "seconds": round(seconds, 1)}
                        yield facts | _judged(found, cases, alone.get((kind, sampling)))
                        if drafts == "none" and at_once == 1 and sampling != SAMPLINGS[-1]:
                            alone[kind, sampling] = [_tokens(result) for result in found]


def _tokens(result: GenerationResult[Any] | Exception) -> tuple[int, ...]:
    return () if isinstance(result, Exception) else result.token_ids


def _judged(
    found: Sequence[GenerationResult[Any] | Exception],
    cases: Sequence[Case],
    alone: Sequence[tuple[int, ...]] | None,
) -> dict[str, Any]:
    problems, drafted, accepted, tokens = [], 0, 0, 0
    for number, (result, case) in enumerate(zip(found, cases, strict=True)):
        if isinstance(result, Exception):
            problems.append({"request": number, "problem": repr(result)})
            continue
        if problem := case.judge(result):
            whole = "".join(part.text for part in result.parts)
            problems.append({"request": number, "problem": problem, "text": whole})
        drafted += result.usage.drafted_tokens
        accepted += result.usage.accepted_tokens
        tokens += result.usage.completion_tokens
    record: dict[str, Any] = {
        "answers": len(found),
        "valid": len(found) - len(problems),
        "tokens": tokens,
        "drafted": drafted,
        "accepted": accepted,
        "problems": problems,
    }
    if alone is not None:
        differ = [n for n, result in enumerate(found) if _tokens(result) != alone[n]]
        record |= {"compared": len(found), "equal": len(found) - len(differ), "differ": differ}
    return record


def rows_of(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a table with a row for each kind of constraint and of drafts."""
    rows = [
        [
            "constraint",
            "drafts",
            *(f"valid, {at_once} at once" for at_once in AT_ONCE),
            "equal texts",
            "accepted of drafted tokens",
        ]
    ]
    cells: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for figure in figures:
        cells[figure["kind"], figure["drafts"]].append(figure)
    for kind in dict.fromkeys(kind for kind, _ in cells):
        for drafts in SPECULATION:
            own = cells[kind, drafts]
            valid = [
                _share([cell for cell in own if cell["at_once"] == at_once], "valid", "answers")
                for at_once in AT_ONCE
            ]
            compared = [cell for cell in own if "compared" in cell]
            taken = "–" if drafts == "none" else _share(own, "accepted", "drafted")
            rows.append([kind, drafts, *valid, _share(compared, "equal", "compared"), taken])
    return rows


def _share(cells: Sequence[dict[str, Any]], part: str, whole: str) -> str:
    return f"{sum(cell[part] for cell in cells):,} / {sum(cell[whole] for cell in cells):,}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=positive, default=max(AT_ONCE), help="of each cell")
    parser.add_argument("--kinds", type=lambda text: text.split(";"), default=list(CASES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = []
    for cell in measure(chosen.answers, chosen.kinds):
        found.append(cell)
        print({name: value for name, value in cell.items() if value}, flush=True)
        if chosen.json:
            write_record(chosen.json, {"environment": environment(), "figures": found})
    print(markdown(rows_of(found), 2))
    total = sum(cell["answers"] for cell in found)
    print(f"{sum(cell['valid'] for cell in found)} of {total} answers are valid")
