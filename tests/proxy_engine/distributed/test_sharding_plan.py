"""Plans of how ranks share a model, from its configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from architecture_configs import ADDITIONS, COMMON
from architectures import ARCHITECTURES
from sharded_logits import PIPELINE, TENSOR
from tiny_models import TINY_CONFIG

from proxy_engine.distributed.sharding_plan import (
    REFUSED,
    ImaginedGroup,
    Parallelism,
    build,
    pipeline_problem,
    plan,
    sharding_problem,
)
from proxy_engine.errors import UnsupportedArchitectureError

SCALING = Path(__file__).parents[3] / "docs" / "scaling.md"


def config_of(architecture: str, **options: Any) -> dict[str, Any]:
    config = {**COMMON, **ADDITIONS.get(architecture, {}), **options}
    return {**config, "model_type": architecture}


@pytest.mark.parametrize(
    ("changes", "size", "named"),
    [
        ({"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8}, 2, "3 attention"),
        ({"num_key_value_heads": 1}, 2, "1 KV heads"),
        ({"num_key_value_heads": 2}, 4, "2 KV heads"),
        ({"intermediate_size": 63}, 2, "63"),
    ],
)
def test_remainders_are_refused(changes: dict[str, Any], size: int, named: str) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=named):
        plan({**TINY_CONFIG, **changes}, size, "m")


def test_group_of_quantized_weights_is_not_split() -> None:
    config = {**TINY_CONFIG, "hidden_size": 64, "intermediate_size": 192}
    assert plan(config, 2) is Parallelism.TENSOR
    with pytest.raises(UnsupportedArchitectureError, match="group size 64"):
        plan({**config, "quantization": {"group_size": 64, "bits": 4}}, 2)


def test_refusal_names_possible_numbers_of_ranks() -> None:
    config = {**TINY_CONFIG, "num_attention_heads": 6, "num_key_value_heads": 6, "head_dim": 8}
    with pytest.raises(UnsupportedArchitectureError) as refused:
        plan({**config, "intermediate_size": 48}, 4, "org/model")
    assert refused.value.hint == "Possible numbers of ranks: 2, 3, 6."
    assert refused.value.model == "org/model"


def test_model_whose_heads_do_not_divide_is_a_pipeline() -> None:
    config = config_of("qwen2", num_attention_heads=3, num_key_value_heads=3)
    assert plan(config, 2) is Parallelism.PIPELINE
    with pytest.raises(UnsupportedArchitectureError, match=r"3 attention heads.*it has 4 layers"):
        plan(config, 5)


def test_layers_that_form_groups_are_not_separated() -> None:
    config = config_of("bailing_hybrid", layer_group_size=2)
    assert plan(config, 2) is Parallelism.PIPELINE
    with pytest.raises(UnsupportedArchitectureError) as refused:
        plan(config, 3)
    assert refused.value.hint == "Possible numbers of ranks: 2."


@pytest.mark.parametrize(
    "config",
    [
        config_of("gemma3_text"),
        # Its stages would use the caches of other ranks.
        config_of("kimi_vl", text_config=config_of("deepseek_v3")),
        config_of("muse_spark"),
        {"model_type": "no_such_type"},
        {"model_type": "whisper"},
        {**TINY_CONFIG, "model_file": "model.py"},
    ],
    ids=lambda config: str(config["model_type"]),
)
def test_other_models_run_on_one_machine_only(config: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedArchitectureError, match="one machine only"):
        plan(config, 2)


def test_document_lists_the_architectures() -> None:
    rows = re.findall(
        r"^\| (`.*`) \| (yes|no) \| (yes|no) \|$", SCALING.read_text(encoding="utf-8"), re.MULTILINE
    )
    tensor, pipeline = set[str](), set[str]()
    for names, by_tensors, by_layers in rows:
        listed = set(re.findall("`(.*?)`", names))
        tensor |= listed if by_tensors == "yes" else set()
        pipeline |= listed if by_layers == "yes" else set()
    assert tensor == set(TENSOR)
    assert pipeline == set(PIPELINE)


@pytest.mark.soak
def test_lists_of_architectures_are_complete() -> None:
    group = ImaginedGroup(0, 2)
    tensor, pipeline = set[str](), set[str]()
    for name in ARCHITECTURES:
        if name in REFUSED:
            continue
        config = config_of(name)
        config["text_config"] = dict(config)
        if sharding_problem(build(config), group) is None:
            tensor.add(name)
        if pipeline_problem(build(config), group) is None:
            pipeline.add(name)
    assert tensor == set(TENSOR)
    assert pipeline == set(PIPELINE)
