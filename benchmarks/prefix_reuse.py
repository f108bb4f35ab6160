"""Prompt tokens that a conversation processes again, by family of models.

Small random models of mlx-lm's classes answer conversations of many turns. States of recurrent
layers cannot be trimmed, so a turn starts from a copy that an earlier turn has left. A turn has to
process its new messages: the answer before it, where the template writes other tokens than the
model, and the message of the user. The rest is processed *again*. Every answer is compared with
that of an engine without prompt caching.

    python benchmarks/prefix_reuse.py [--turns 20] [--json docs/plots/prefix_reuse.json]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from architectures import small_model
from arguments import environment, positive
from records import write_record
from tables import markdown

from proxy_engine import BatchRequest, CacheOptions, GenerationResult, InferenceEngine
from proxy_engine.generation.prefill import default_prefill_step_size
from proxy_engine.models.loading import load_model

FAMILIES = {
    "llama": "keys and values",
    "gemma3_text": "sliding windows",
    "qwen3_next": "attention and gated delta states",
    "nemotron_h": "attention and Mamba 2 states",
}
MAX_TOKENS = 32
SYSTEM = "You keep the books of a workshop that sells gears and punched cards. " * 8
SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string", "maxLength": 20}, "count": {"type": "integer"}},
    "required": ["item", "count"],
    "additionalProperties": False,
}
KINDS: dict[str, tuple[int, Mapping[str, Any]]] = {
    "free text": (1, {}),
    "schema": (1, {"response_format": SCHEMA}),
    "reasoning, then schema": (
        1,
        {
            "response_format": SCHEMA,
            "reasoning": True,
            "parts": {"reasoning": {"max_tokens": 8}},
            "max_tokens": MAX_TOKENS + 24,
        },
    ),
    "free text, 4 conversations at once": (4, {}),
}
"""Conversations at once, and arguments of their requests, by kind. The template of the tokenizer
leaves the reasoning of earlier answers out."""


def engine_of(family: str, *, caches: bool) -> InferenceEngine:
    """Return an engine with a small random model of a family."""
    loaded = load_model()
    sizes = {"vocab_size": loaded.logits_width}
    sizes |= dict.fromkeys(["max_position_embeddings", "n_positions"], 16_384)
    model = small_model(family, **sizes)
    cache = CacheOptions() if caches else CacheOptions(max_bytes=0)
    return InferenceEngine(model, loaded.tokenizer, cache=cache, batch_size=8)


def question(talk: int, turn: int) -> str:
    """Return the message of a user."""
    return f"Customer {talk} asks in turn {turn}: " + f"how many gears of size {turn}? " * 4


def answers(
    engine: InferenceEngine, talks: Sequence[list[dict[str, str]]], arguments: Mapping[str, Any]
) -> list[GenerationResult[Any]]:
    """Return an answer to each conversation, all together."""
    options = {key: value for key, value in arguments.items() if key != "response_format"}
    options = {"temperature": 0, "max_tokens": MAX_TOKENS, **options}
    return engine.generate_batch(
        [BatchRequest(list(talk), options=options) for talk in talks],
        arguments.get("response_format"),
    )


def measure(families: Sequence[str], turns: int) -> Iterator[dict[str, Any]]:
    """Return the tokens of all turns but the first, by family and kind of answer."""
    for family in families:
        with engine_of(family, caches=True) as engine, engine_of(family, caches=False) as fresh:
            for kind, (at_once, arguments) in KINDS.items():
                engine.clear_prompt_cache()
                talks = [[{"role": "system", "content": SYSTEM}] for _ in range(at_once)]
                figures = {"prompt": 0, "processed": 0, "new": 0, "most_again": 0, "equal": 0}
                lengths = [0] * at_once
                for turn in range(turns):
                    for number, talk in enumerate(talks):
                        talk.append({"role": "user", "content": question(number, turn)})
                    found = answers(engine, talks, arguments)
                    expected = answers(fresh, talks, arguments)
                    for number, result in enumerate(found):
                        usage = result.usage
                        equal = result.token_ids == expected[number].token_ids
                        figures["equal"] += equal
                        talks[number].append({"role": "assistant", "content": result.text})
                        new = usage.prompt_tokens - lengths[number]
                        lengths[number] = usage.prompt_tokens
                        if turn:
                            processed = usage.prompt_tokens - usage.cached_tokens
                            figures["prompt"] += usage.prompt_tokens
                            figures["processed"] += processed
                            figures["new"] += new
                            again = max(0, processed - new)
                            figures["most_again"] = max(figures["most_again"], again)
                yield {
                    "family": family,
                    "kind": kind,
                    "answers": turns * at_once,
                    "cached_bytes": engine._core.caches.nbytes,
                    **figures,
                }


def rows_of(figures: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a table with a row for each family and kind of answer."""
    rows = [
        [
            "family",
            "answers",
            "processed share of prompts",
            "processed / new tokens",
            "most again in a turn",
            "equal answers",
            "cached MiB",
        ]
    ]
    for figure in figures:
        rows.append(
            [
                f"{figure['family']} ({FAMILIES[figure['family']]})",
                figure["kind"],
                f"{figure['processed'] / figure['prompt']:.1%}",
                f"{figure['processed'] / figure['new']:.2f}",
                str(figure["most_again"]),
                f"{figure['equal']} / {figure['answers']}",
                f"{figure['cached_bytes'] / 2**20:.1f}",
            ]
        )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=positive, default=20)
    parser.add_argument("--families", type=lambda text: text.split(","), default=list(FAMILIES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = []
    for figure in measure(chosen.families, chosen.turns):
        found.append(figure)
        print(figure, flush=True)
    if chosen.json:
        record = {"environment": environment(), "step": default_prefill_step_size()}
        write_record(chosen.json, record | {"figures": found})
    print(markdown(rows_of(found), 2))
    print(f"a chunk has {default_prefill_step_size()} tokens here")
