"""Compare the logits of models that ranks share with those of one process. To be run on each rank.

Arguments: cases, each ``ARCHITECTURE:PARALLELISM:SCENARIO``, or ``DIRECTORY::loaded`` for the model
of a directory. Rank 0 prints the largest difference of each case, relative to the largest logit, as
a line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
from architecture_configs import ADDITIONS
from architectures import WINDOW, small_model
from mlx.nn.layers.base import Module
from mlx_lm.generate import _merge_caches
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.distributed.sharding import load_sharded
from proxy_engine.distributed.sharding_plan import Parallelism, pipeline_stage, sharding_problem
from proxy_engine.models.load_options import LoadOptions

TENSOR = (
    *("deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v41", "exaone_moe", "glm4_moe"),
    *("glm4_moe_lite", "glm_moe_dsa", "gpt_oss", "iquestloopcoder", "kimi_k25", "kimi_k3", "llama"),
    *("longcat_flash", "longcat_flash_ngram", "minimax", "minimax_m3_vl", "ministral3", "mistral4"),
    *("qwen2", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "solar_open", "step3p5"),
)
"""Architectures whose layers mlx-lm shards."""

PIPELINE = (
    *("bailing_hybrid", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v41", "glm4_moe"),
    *("glm4_moe_lite", "glm_moe_dsa", "kimi_k25", "kimi_k3", "minimax_m3_vl", "ministral3"),
    *("mistral4", "qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "solar_open"),
)
"""Architectures that mlx-lm runs as a pipeline."""

NOT_COMPARED = {
    "deepseek_v41:batch": "its caches do not form batches",
}
"""Scenarios that a model cannot run in one process either."""

LONG_PROMPT = [37 * i % 300 for i in range(2 * WINDOW + 5)]
"""Longer than sliding windows, so that rotating caches rotate."""
SHORT_PROMPT = [11, 250, 3]
QUANTIZED_SIZES = {
    **dict.fromkeys(["hidden_size", "intermediate_size"], 128),
    **dict.fromkeys(["dense_intermediate_size", "ffn_hidden_size"], 128),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 128),
    **dict.fromkeys(["expert_ffn_hidden_size", "share_expert_dim"], 128),
    **dict.fromkeys(["head_dim", "v_head_dim", "linear_value_head_dim"], 32),
}
"""Sizes of which each of two ranks has whole groups of 64 weights."""


_QUANTIZED_ADDITIONS: Mapping[str, Mapping[str, Any]] = {
    "kimi_k3": {
        "linear_attn_config": {**ADDITIONS["kimi_k3"]["linear_attn_config"], "head_dim": 32}
    }
}


def _alone(model: Module) -> list[mx.array]:
    """A prompt, single tokens, and a pass of several tokens."""
    cache = make_prompt_cache(model)
    passes = [LONG_PROMPT, [7], [8], [9, 10, 11, 12], [13]]
    return [_evaluated(model, [tokens], cache) for tokens in passes]


def _batch(model: Module) -> list[mx.array]:
    """Prompts of several lengths, each on its own, and then tokens of all of them in one batch."""
    caches, logits = [], []
    for prompt in (LONG_PROMPT, SHORT_PROMPT):
        caches.append(make_prompt_cache(model))
        logits.append(_evaluated(model, [prompt], caches[-1]))
    cache = _merge_caches(caches)
    return logits + [_evaluated(model, [[token], [token + 1]], cache) for token in (7, 8, 9)]


def _evaluated(model: Any, tokens: list[list[int]], cache: Sequence[Any]) -> mx.array:
    logits: mx.array = model(mx.array(tokens), cache=cache)
    mx.eval(logits)
    return logits


SCENARIOS: dict[str, Callable[[Module], list[mx.array]]] = {
    "alone": _alone,
    "batch": _batch,
    "loaded": _alone,
    "quantized": _alone,
}


def _model(architecture: str, scenario: str) -> Module:
    if scenario != "quantized":
        return small_model(architecture)
    sizes = {**QUANTIZED_SIZES, **_QUANTIZED_ADDITIONS.get(architecture, {})}
    model = small_model(architecture, **sizes)
    is_allowed = getattr(model, "quant_predicate", lambda *_: True)
    nn.quantize(
        model,
        group_size=64,
        bits=4,
        class_predicate=lambda path, layer: (
            hasattr(layer, "to_quantized")
            and layer.weight.shape[-1] % 64 == 0
            and bool(is_allowed(path, layer))
        ),
    )
    return model


def _shared(model: Module, parallelism: Parallelism, group: mx.distributed.Group) -> Module:
    if parallelism is Parallelism.TENSOR:
        problem = sharding_problem(model, group)
        assert problem is None, problem
    else:
        stage = pipeline_stage(model)
        assert stage is not None
        stage.pipeline(group)
    mx.eval(model.parameters())
    return model


def _loaded(directory: str, group: mx.distributed.Group) -> tuple[Module, Module]:
    whole = mlx_lm.load(directory)[0]
    loaded = load_sharded(directory, LoadOptions(), group)
    assert loaded.num_layers == len(whole.layers)
    return whole, loaded.model


def _difference(expected: Sequence[mx.array], computed: Sequence[mx.array]) -> float:
    differences = [
        mx.abs(a - b).max() / mx.abs(a).max() for a, b in zip(expected, computed, strict=True)
    ]
    return mx.stack(differences).max().item()


def main(cases: Sequence[str]) -> None:
    group = mx.distributed.init(strict=True, backend="ring")
    for case in cases:
        architecture, parallelism, scenario = case.split(":")
        run = SCENARIOS[scenario]
        if scenario == "loaded":
            whole, part = _loaded(architecture, group)
        else:
            whole = _model(architecture, scenario)
            part = _shared(_model(architecture, scenario), Parallelism(parallelism), group)
        difference = mx.array(_difference(run(whole), run(part)))
        worst = mx.distributed.all_max(difference, group=group).item()
        if group.rank() == 0:
            print(json.dumps({"case": case, "difference": worst}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
