"""Tokens per pass with a draft head, as a function of its agreement with the model.

The head is scripted: it knows the greedy answer of the model, and proposes another token at a share
of the positions. So the agreement is exact, and the same with and without a constraint. Run with
``make bench-heads``; needs mlx-vlm.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx_vlm.speculative.drafters.eagle3 as eagle3
import numpy as np
from mlx.utils import tree_map
from mlx_lm.models import llama

from proxy_engine import InferenceEngine, RawPrompt, SpeculationOptions
from proxy_engine.generation import HeadOutput
from proxy_engine.models.loading import load_model

WIDTH, LAYERS = 64, 4
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "minLength": 20, "maxLength": 40},
        "notes": {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 3},
        "total": {"type": "integer"},
        "paid": {"type": "boolean"},
    },
    "required": ["customer", "notes", "total", "paid"],
    "additionalProperties": False,
}
KINDS: dict[str, dict[str, Any]] = {
    "free text": {"max_tokens": 120, "min_tokens": 120},
    "schema": {"max_tokens": 160, "response_format": SCHEMA},
    "schema, no forced text": {
        "max_tokens": 160,
        "response_format": SCHEMA,
        "fast_forward": False,
    },
}
DRAFTED = 4


class ScriptedHead:
    """A chain that agrees with a known text at a share of its positions.

    Args:
        text: The text.
        agreement: The share.
        width: Size of the vocabulary.
    """

    state_layers = ()
    reads_target = False
    mask_id = None
    block_size = 0
    first_prediction = 1

    def __init__(self, text: Sequence[int], agreement: float, width: int) -> None:
        self._next: dict[tuple[int, int], int] = {}
        self._wrong: set[tuple[int, int]] = set()
        draw = random.Random(len(text))
        for place in range(len(text) - 2):
            key = place, text[place + 1]
            self._next[key] = text[place + 2]
            if draw.random() >= agreement:
                self._wrong.add(key)
        self._noise = np.random.default_rng(0).normal(size=(97, width)).astype(np.float32)

    def make_cache(self) -> list[Any]:
        """Return an empty cache."""
        return []

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Return places and tokens as features."""
        first = mx.array(positions).reshape(-1, 1)
        places = mx.broadcast_to(first + mx.arange(tokens.shape[1]), tokens.shape)
        features = mx.stack([places, tokens], axis=-1).astype(mx.float32)
        return HeadOutput(features, features)

    def logits(self, features: mx.array) -> mx.array:
        """Return logits that prefer the next token of the text, or a random one."""
        rows = np.array(features)
        found = np.zeros((*rows.shape[:2], self._noise.shape[1]), np.float32)
        for index in np.ndindex(rows.shape[:2]):
            place, token = (int(value) for value in rows[index])
            found[index] = self._noise[(place + 31 * token) % len(self._noise)]
            if (place, token) in self._next and (place, token) not in self._wrong:
                found[index][self._next[place, token]] = 30.0
        return mx.array(found)


def scripted_engine() -> InferenceEngine:
    """Return an engine of a random model with a head that :func:`measure` replaces."""
    loaded = load_model()
    width = loaded.logits_width
    arguments = {
        "model_type": "llama",
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 2 * WIDTH,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": width,
        "tie_word_embeddings": True,
    }
    mx.random.seed(0)
    model = llama.Model(llama.ModelArgs.from_dict(arguments))
    layers = {key: arguments[key] for key in ("hidden_size", "intermediate_size", "vocab_size")}
    config = {
        "transformer_layer_config": {
            **layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
        },
        "draft_vocab_size": width,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
    }
    head = eagle3.Model(eagle3.ModelConfig.from_dict(config))
    for module in (model, head):
        module.update(
            tree_map(lambda weight: mx.random.normal(weight.shape) * 0.3, module.parameters())
        )
        mx.eval(module.parameters())
    return InferenceEngine(model, loaded.tokenizer, draft_model=head)


def measure(documents: int, agreements: Sequence[float]) -> list[dict[str, Any]]:
    """Return tokens per pass for each kind of answer and each agreement."""
    rows = []
    always = SpeculationOptions(
        prompt_lookup=False, is_adaptive=False, num_draft_tokens=DRAFTED, max_draft_tokens=DRAFTED
    )
    with scripted_engine() as engine:
        drafter: Any = engine._core.drafter
        encode = engine._core.loaded.tokenizer.encode
        prompts = [
            encode(f"Order {4711 + n} of customer {n}: " + "gear " * n) for n in range(documents)
        ]
        width = engine._core.loaded.logits_width
        for kind, arguments in KINDS.items():
            plain = [engine.generate(RawPrompt(p), speculation="off", **arguments) for p in prompts]
            for agreement in agreements:
                found = []
                for ids, result in zip(prompts, plain, strict=True):
                    text = [*ids, *result.token_ids]
                    drafter._head = ScriptedHead(text, agreement, width)
                    drafter.clear_prompt_cache()
                    found.append(engine.generate(RawPrompt(ids), speculation=always, **arguments))
                assert [one.token_ids for one in found] == [one.token_ids for one in plain]
                tokens = sum(one.usage.completion_tokens for one in found)
                forced = sum(one.usage.fast_forwarded_tokens for one in found)
                passes = sum(one.usage.forward_passes for one in found)
                drafted = sum(one.usage.drafted_tokens for one in found)
                accepted = sum(one.usage.accepted_tokens for one in found)
                rows.append(
                    {
                        "kind": kind,
                        "agreement": agreement,
                        "tokens per pass": round(tokens / passes, 2),
                        "sampled tokens per pass": round((tokens - forced) / passes, 2),
                        "accepted of drafted": round(accepted / drafted, 3),
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=6)
    measure(parser.parse_args().documents, (0.6, 0.8, 0.95))
