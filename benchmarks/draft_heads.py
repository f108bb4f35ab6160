"""Tokens per pass and time per token with a draft head, by its agreement with the model.

The head is scripted: it knows the greedy answer of the model, and proposes another token at a share
of the positions. So the agreement is exact, and the same with and without a constraint. mlx-vlm's
own loop, which takes no constraint, runs in turns with ours, on the same weights and with the same
mistakes. ``--beside-free`` compares answers with a schema with free text of the same length and the
same mistakes, alone and together. Run with ``make bench-heads``; needs mlx-vlm.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx_vlm.speculative.drafters.eagle3 as eagle3
import numpy as np
from jsonschema import Draft202012Validator
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models import gemma4_text
from mlx_lm.models.cache import make_prompt_cache
from mlx_vlm.models.gemma4 import config as peer_config
from mlx_vlm.models.gemma4 import language as peer_language
from mlx_vlm.speculative.mtp import _mtp_rounds

from proxy_engine import GenerationResult, InferenceEngine, RawPrompt, SpeculationOptions
from proxy_engine.generation.speculation.draft_heads import HeadOutput
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
TEXT_TOKENS = 120
KINDS: dict[str, dict[str, Any]] = {
    "free text": {"max_tokens": TEXT_TOKENS, "min_tokens": TEXT_TOKENS},
    "schema": {"max_tokens": 160, "response_format": SCHEMA},
    "schema, no forced text": {
        "max_tokens": 160,
        "response_format": SCHEMA,
        "fast_forward": False,
    },
}
DRAFTED = 4
ROWS, WIDE = 8, 7

PUBLISHED = {0.69: "oMLX's MTP, lowest", 0.85: "DeepSeek-V3, lower", 0.9: "DeepSeek-V3, upper"}
"""Accepted shares of the drafts of trained heads: of jundot/omlx#2113, chains of up to three
tokens, 69% to 78% with Qwen3.6-27B; of the technical report of DeepSeek-V3, section 5.4.3."""

OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "notes": {
            "type": "array",
            "items": {"type": "string", "minLength": 5, "maxLength": 60},
            "minItems": 4,
        },
        "total": {"type": "integer"},
    },
    "required": ["notes", "total"],
    "additionalProperties": False,
}
"""A schema whose answers take all tokens that there are."""


def always(tokens: int) -> SpeculationOptions:
    """Drafts of the head of a fixed length."""
    return SpeculationOptions(
        prompt_lookup=False, is_adaptive=False, num_draft_tokens=tokens, max_draft_tokens=tokens
    )


def mistakes(text: Sequence[int], agreement: float) -> set[int]:
    """Return the places of a text whose tokens a head does not propose.

    They are the same in all answers to a prompt.
    """
    draw = random.Random(str(text[:10]))
    return {place for place in range(2, len(text)) if draw.random() >= agreement}


class ScriptedHead:
    """A chain that agrees with known texts at a share of their positions.

    Args:
        texts: The texts. No two of them are predicted at the same position.
        agreement: The share.
        width: Size of the vocabulary.
    """

    state_layers = ()
    reads_target = False
    mask_id = None
    block_size = 0
    first_prediction = 1

    def __init__(self, texts: Sequence[Sequence[int]], agreement: float, width: int) -> None:
        self._next: dict[tuple[int, int], int] = {}
        for text in texts:
            wrong = mistakes(text, agreement)
            for place in range(len(text) - 2):
                if place + 2 not in wrong:
                    self._next[place, text[place + 1]] = text[place + 2]
        self._noise = np.random.default_rng(0).normal(size=(97, width)).astype(np.float32)

    def make_cache(self) -> list[Any]:
        """Return an empty cache."""
        return []

    def read(
        self, tokens: mx.array, states: mx.array, cache: list[Any], positions: mx.array | int
    ) -> HeadOutput:
        """Return places and tokens as features."""
        empty = mx.zeros((tokens.shape[0], 1, tokens.shape[1], 1))
        for layer in cache:
            # Rows of a batch are padded and trimmed by what their caches hold.
            layer.update_and_fetch(empty, empty)
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
            if (place, token) in self._next:
                found[index][self._next[place, token]] = 30.0
        return mx.array(found)

    def logits_after(self, token_id: int, features: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of a block, which this is not."""
        return logits


class ScriptedPeer:
    """The same head as mlx-vlm's loop calls it.

    Args:
        text: The text.
        start: Place of the first generated token.
        wrong: Places at which it proposes another token.
    """

    prefer_requested_block_size = True

    def __init__(self, text: Sequence[int], start: int, wrong: Collection[int]) -> None:
        self.config = SimpleNamespace(block_size=DRAFTED + 1, target_layer_ids=[])
        self.accept_lens: list[int] = []
        self.draft_lens: list[int] = []
        self._text, self._start, self._wrong = text, start, wrong

    def reset(self, model: Any) -> list[Any]:
        """Return an empty cache."""
        return []

    def set_shared_kv(self, *_: Any, **__: Any) -> None:
        """Take keys and values of the target, which are not read."""

    def draft_block(self, bonus: Any, hidden: Any, cache: Any, size: int, *_: Any) -> mx.array:
        """Return the tokens behind the last accepted one."""
        place = self._start + sum(self.accept_lens) + len(self.accept_lens) + 1
        padded = [*self._text, *[0] * size]
        places = range(place, place + size - 1)
        return mx.array([[padded[at] ^ (at in self._wrong) for at in places]], mx.int32)


def configuration(width: int) -> dict[str, Any]:
    """Return the configuration of a small Gemma 4, which mlx-lm and mlx-vlm both have."""
    return {
        "model_type": "gemma4_text",
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 2 * WIDTH,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "global_head_dim": 16,
        "vocab_size": width,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
        "use_double_wide_mlp": False,
        "layer_types": ["full_attention"] * LAYERS,
    }


def scripted_engine() -> tuple[InferenceEngine, Any]:
    """Return an engine with a head that is replaced, and mlx-vlm's model with its weights."""
    loaded = load_model()
    width = loaded.logits_width
    arguments = configuration(width)
    mx.random.seed(0)
    model = gemma4_text.Model(gemma4_text.ModelArgs.from_dict(arguments))
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
    peer = peer_language.LanguageModel(peer_config.TextConfig.from_dict(arguments))
    peer.load_weights(tree_flatten(model.parameters()))
    return InferenceEngine(model, loaded.tokenizer, draft_model=head), peer


def _greedy(logits: mx.array) -> mx.array:
    return mx.argmax(logits, axis=-1)


def peer_text(peer: Any, ids: Sequence[int]) -> list[int]:
    """Return the prompt and the model's greedy answer, by passes over one token each."""
    cache, text = make_prompt_cache(peer), list(ids)
    fed = mx.array([text])
    for _ in range(TEXT_TOKENS):
        token = int(_greedy(peer(fed, cache=cache).logits[0, -1]).item())
        text.append(token)
        fed = mx.array([[token]])
    return text


def peer_rounds(peer: Any, ids: Sequence[int], text: Sequence[int], agreement: float) -> int:
    """Generate the text by mlx-vlm's loop with the scripted head; return the number of passes."""
    drafter = ScriptedPeer(text, len(ids), mistakes(text, agreement))
    cache, prompt = make_prompt_cache(peer), mx.array([list(ids)])
    output = peer(prompt, cache=cache, return_hidden=True, return_shared_kv=True)
    first = int(_greedy(output.logits[0, -1]).item())
    rounds = _mtp_rounds(
        peer,
        drafter,
        cache,
        output.hidden_states[-1],
        output.shared_kv_states,
        first_bonus=first,
        max_tokens=TEXT_TOKENS,
        sampler=_greedy,
        draft_block_size=DRAFTED + 1,
        greedy_sampling=True,
    )
    found = [first, *(token for token, _ in rounds)]
    assert found == list(text[len(ids) :])
    return len(drafter.accept_lens)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result, and the processor time in seconds."""
    started = time.process_time()
    return work(), time.process_time() - started


def measure(documents: int, agreements: Sequence[float]) -> list[dict[str, Any]]:
    """Return tokens per pass and milliseconds per token for each kind of answer and agreement."""
    rows = []
    engine, peer = scripted_engine()
    with engine:
        drafter: Any = engine._core.drafter
        encode = engine._core.loaded.tokenizer.encode
        prompts = [
            encode(f"Order {4711 + n} of customer {n}: " + "gear " * n) for n in range(documents)
        ]
        width = engine._core.loaded.logits_width

        def answer(ids: Sequence[int], arguments: Mapping[str, Any]) -> GenerationResult[Any]:
            return engine.generate(RawPrompt(ids), **arguments)

        peer_texts = [peer_text(peer, ids) for ids in prompts]
        texts = {
            kind: [
                [*ids, *answer(ids, {**arguments, "speculation": "off"}).token_ids]
                for ids in prompts
            ]
            for kind, arguments in KINDS.items()
        }
        for agreement in agreements:
            passes, seconds = 0, 0.0
            for ids, text in zip(prompts, peer_texts, strict=True):
                found, spent = timed(partial(peer_rounds, peer, ids, text, agreement))
                passes, seconds = passes + found, seconds + spent
            rows.append(
                {
                    "kind": "mlx-vlm, free text",
                    "agreement": agreement,
                    "tokens per pass": round(documents * (TEXT_TOKENS - 1) / passes, 2),
                    "ms per token": round(1000 * seconds / documents / TEXT_TOKENS, 2),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
            for kind, arguments in KINDS.items():
                results, seconds = [], 0.0
                for ids, text in zip(prompts, texts[kind], strict=True):
                    drafter._head = ScriptedHead([text], agreement, width)
                    engine.clear_prompt_cache()
                    given = {**arguments, "speculation": always(DRAFTED)}
                    result, spent = timed(partial(answer, ids, given))
                    assert [*ids, *result.token_ids] == text
                    results.append(result)
                    seconds += spent
                rows.append({"kind": kind, "agreement": agreement, **figures(results, seconds)})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def figures(results: Sequence[GenerationResult[Any]], seconds: float) -> dict[str, float]:
    """Return the figures of some answers."""
    usages = [result.usage for result in results]
    tokens = sum(usage.completion_tokens for usage in usages)
    forced = sum(usage.forced_tokens for usage in usages)
    passes = sum(usage.forward_passes for usage in usages)
    accepted = sum(usage.accepted_tokens for usage in usages)
    return {
        "tokens per pass": round(tokens / passes, 2),
        "sampled tokens per pass": round((tokens - forced) / passes, 2),
        "accepted of drafted": round(accepted / sum(usage.drafted_tokens for usage in usages), 3),
        "ms per token": round(1000 * seconds / tokens, 2),
    }


def beside_free(agreements: Sequence[float]) -> list[dict[str, Any]]:
    """Return tokens per pass with a schema beside those of free text, alone and together.

    Answers to a prompt have equal lengths and equal mistakes. Forced text is sampled, since it
    would save passes that free text takes.
    """
    kinds: dict[str, dict[str, Any]] = {
        "free text": {"min_tokens": TEXT_TOKENS},
        "schema": {"response_format": OPEN, "fast_forward": False, "stop_repetition": False},
    }
    rows = []
    engine, _ = scripted_engine()
    with engine:
        drafter: Any = engine._core.drafter
        encode = engine._core.loaded.tokenizer.encode
        width = engine._core.loaded.logits_width
        # Of different lengths, so that the head knows the row by the position.
        prompts = [
            encode(f"Order {4711 + n} of customer {n}: " + "gear " * (2 * TEXT_TOKENS * n))
            for n in range(ROWS)
        ]
        for kind, arguments in kinds.items():
            given = {"max_tokens": TEXT_TOKENS, "temperature": 0, **arguments}
            texts = [
                [*ids, *engine.generate(RawPrompt(ids), **given, speculation="off").token_ids]
                for ids in prompts
            ]
            for agreement in agreements:
                for at_once in (1, ROWS):
                    results: list[GenerationResult[Any]] = []
                    for start in range(0, ROWS, at_once):
                        group = slice(start, start + at_once)
                        drafter._head = ScriptedHead(texts[group], agreement, width)
                        engine.clear_prompt_cache()
                        results += engine.generate_batch(
                            [RawPrompt(ids) for ids in prompts[group]],
                            **given,
                            speculation=always(DRAFTED),
                        )
                    rows.append(
                        {
                            "kind": kind,
                            "agreement": agreement,
                            "at once": at_once,
                            **_counts(results, kind == "schema"),
                            "equal": sum(
                                [*ids, *result.token_ids] == text
                                for ids, text, result in zip(prompts, texts, results, strict=True)
                            ),
                        }
                    )
                    print(json.dumps(rows[-1]), flush=True)
    return rows


def _counts(results: Sequence[GenerationResult[Any]], has_schema: bool) -> dict[str, Any]:
    """Return tokens, passes, and how many answers match the schema."""
    tokens = sum(result.usage.completion_tokens for result in results)
    passes = sum(result.usage.forward_passes for result in results)
    record = {"tokens": tokens, "passes": passes, "tokens per pass": round(tokens / passes, 3)}
    if has_schema:
        validator = Draft202012Validator(OPEN)
        record["valid"] = sum(validator.is_valid(json.loads(result.text)) for result in results)
    return record


def mask_work() -> dict[str, Any]:
    """Return the time of masks in a pass of eight rows with eight tokens each."""
    engine, _ = scripted_engine()
    with engine:
        encode = engine._core.loaded.tokenizer.encode
        prompts = [RawPrompt(encode(f"Order {4711 + n} of customer {n}")) for n in range(ROWS)]
        for _ in range(2):
            # The states of the second run are known.
            results = engine.generate_batch(
                prompts, max_tokens=160, response_format=SCHEMA, speculation=always(WIDE)
            )
        usages = [result.usage for result in results]
        passes = max(usage.forward_passes for usage in usages)
        seconds = sum(usage.mask_seconds for usage in usages)
        drafted = sum(usage.drafted_tokens for usage in usages)
        row = {
            "kind": f"masks, {ROWS} rows",
            "ms per pass": round(1000 * seconds / passes, 3),
            "drafted per pass": round(drafted / passes, 1),
        }
        print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=6)
    parser.add_argument("--beside-free", action="store_true", help="with a schema beside without")
    chosen = parser.parse_args()
    if chosen.beside_free:
        beside_free(list(PUBLISHED))
    else:
        measure(chosen.documents, (0.6, 0.8, 0.95))
        mask_work()
