"""How a model is divided among the ranks of a process group, from its configuration alone.

mlx-lm's models shard themselves. Their methods divide numbers of heads without a check, so that a
remainder is lost silently. A plan therefore builds the model from its configuration, with lazy
arrays that take no memory, lets it shard itself, and checks what was divided.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import mlx_lm.utils
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx_lm.models.cache import make_prompt_cache

from ..errors import UnsupportedArchitectureError
from ..models.kinds import is_speech_model

REFUSED: Mapping[str, str] = {
    "muse_spark": "its attention is a Metal kernel, which has not been compared with one process",
    "prism_hadamard_qwen35": "its packed weights have not been compared with one process",
}
"""Architectures whose sharded models are refused, and why."""

MAX_SUGGESTED_RANKS = 16
"""The most ranks that a refusal suggests."""

_GROUP_SIZES = {"awq": 128, "gptq": 128, "mxfp4": 32, "mxfp8": 32, "modelopt": 16}
"""Weights per scale of the formats that mlx-lm converts, where the configuration has no number."""

_NAMES = {
    **dict.fromkeys(["n_heads", "num_heads", "num_attention_heads"], "attention heads"),
    **dict.fromkeys(["n_kv_heads", "num_kv_heads", "num_key_value_heads"], "KV heads"),
    "num_k_heads": "key heads of linear attention",
    "num_v_heads": "value heads of linear attention",
    "index_n_heads": "heads of the indexer",
    "o_groups": "output groups",
}
"""Names of the numbers that models divide."""


class Parallelism(enum.Enum):
    """How a model is divided among the ranks."""

    TENSOR = "tensor"
    """Each rank has a part of every layer."""
    PIPELINE = "pipeline"
    """Each rank has some of the layers. Rank 0 has the last ones."""


class RankGroup(Protocol):
    """What models read of a process group when they shard."""

    def rank(self) -> int:
        """Return the number of this process."""
        ...

    def size(self) -> int:
        """Return the number of processes."""
        ...


class Stage(Protocol):
    """The part of a model that runs its layers as a stage of a pipeline."""

    layers: list[Any]
    start_idx: int
    end_idx: int

    def pipeline(self, group: RankGroup) -> None:
        """Drop the layers of other ranks."""
        ...


@dataclass(frozen=True)
class ImaginedGroup:
    """A process group without processes, for sharding lazy arrays."""

    number: int
    count: int

    def rank(self) -> int:
        """Return the number of this process."""
        return self.number

    def size(self) -> int:
        """Return the number of processes."""
        return self.count


def plan(config: Mapping[str, Any], size: int, name: str = "") -> Parallelism:
    """Choose how a model is divided: by tensors if possible, otherwise as a pipeline.

    Reads no weights. The model of a multimodal configuration is mlx-lm's model of text.

    Args:
        config: The content of ``config.json``, with the entries that replace it.
        size: Number of ranks.
        name: The model's name in errors.

    Raises:
        UnsupportedArchitectureError: mlx-lm cannot divide the model, or not among so many ranks.
    """
    _check_architecture(config, name)
    group = ImaginedGroup(0, size)
    by_tensors = sharding_problem(build(config), group)
    if by_tensors is None:
        return Parallelism.TENSOR
    by_layers = pipeline_problem(build(config), group)
    if by_layers is None:
        return Parallelism.PIPELINE
    if not by_tensors and not by_layers:
        raise _one_machine_only(
            f"mlx-lm does not divide models of type {config['model_type']!r}", name
        )
    raise refusal("; ".join(filter(None, (by_tensors, by_layers))), config, size, name)


def refusal(
    problem: str, config: Mapping[str, Any], size: int, name: str
) -> UnsupportedArchitectureError:
    """Return the error of a model that cannot be divided among ``size`` ranks."""
    others = list(possible_sizes(config))
    hint = f"Possible numbers of ranks: {', '.join(map(str, others))}." if others else ""
    return UnsupportedArchitectureError(
        f"{name!r} cannot be divided among {size} ranks: {problem}", model=name, hint=hint
    )


def possible_sizes(config: Mapping[str, Any]) -> Iterator[int]:
    """Yield the numbers of ranks, from 2 to ``MAX_SUGGESTED_RANKS``, that can share a model."""
    for size in range(2, MAX_SUGGESTED_RANKS + 1):
        group = ImaginedGroup(0, size)
        if (
            pipeline_problem(build(config), group) is None
            or sharding_problem(build(config), group) is None
        ):
            yield size


def build(config: Mapping[str, Any]) -> Module:
    """Build a model with lazy random weights, quantized as its configuration states.

    Layers count as quantized if mlx-lm would quantize them: those that the model allows, whose
    input size is a multiple of the group size.
    """
    entries = dict(config)
    model_class, arguments_class = mlx_lm.utils._get_classes(entries)
    model: Module = model_class(arguments_class.from_dict(entries))
    quantization = _quantization(entries)
    if quantization is None:
        return model
    group_size = quantization["group_size"]
    is_allowed = getattr(model, "quant_predicate", lambda *_: True)

    def parameters(path: str, layer: Module) -> bool | dict[str, Any]:
        if path in quantization:
            return cast("bool | dict[str, Any]", quantization[path])
        if not hasattr(layer, "to_quantized") or layer.weight.shape[-1] % group_size:
            return False
        return bool(is_allowed(path, layer))

    quantize(
        model,
        group_size=group_size,
        bits=quantization["bits"],
        mode=quantization.get("mode", "affine"),
        class_predicate=parameters,
    )
    return model


def sharding_problem(model: Module, group: RankGroup) -> str | None:
    """Shard a model by tensors.

    Args:
        model: The model, which is changed. It must not be used if there is a problem.
        group: The process group.

    Returns:
        Why the result is wrong; empty if mlx-lm cannot shard the model at all, ``None`` if it is
        right.
    """
    shard = getattr(model, "shard", None)
    if shard is None:
        return ""
    size, before = group.size(), dict(_numbers(model))
    try:
        shard(group)
    except Exception as error:
        # mlx's and mlx-lm's checks raise ValueError, AssertionError and others.
        heads = {
            f"{number} {_NAMES[name]}"
            for (_, name), number in before.items()
            if name in _NAMES and number % size
        }
        return _indivisible(heads, size) if heads else str(error).rstrip(".")
    remainders = {
        f"{before[place]} {_NAMES.get(place[1], place[1])}"
        for place, number in _numbers(model)
        if place in before and not _is_share(before[place], number, size)
    }
    return _indivisible(remainders, size) if remainders else None


def pipeline_problem(model: Module, group: RankGroup) -> str | None:
    """Reduce a model to the layers of one rank.

    Args:
        model: The model, which is changed. It must not be used if there is a problem.
        group: The process group.

    Returns:
        Why the result is wrong; empty if mlx-lm cannot run the model as a pipeline at all, ``None``
        if it is right.
    """
    stage = pipeline_stage(model)
    if stage is None:
        return ""
    num_layers = len(stage.layers)
    if num_layers < group.size():
        return f"it has {num_layers} layers"
    try:
        stage.pipeline(group)
    except ValueError as error:
        return str(error)
    # Some models count the layers of other ranks, too, and would use the wrong caches.
    is_right = len(make_prompt_cache(model)) == stage.end_idx - stage.start_idx
    return None if is_right else ""


def pipeline_stage(model: Module) -> Stage | None:
    """Return the part of a model that can be a stage of a pipeline; ``None`` if it has none."""
    for owner in (model, getattr(model, "language_model", None)):
        part = getattr(owner, "model", None)
        if hasattr(part, "pipeline"):
            return cast("Stage", part)
    return None


def _indivisible(numbers: Iterable[str], size: int) -> str:
    return f"{size} does not divide {' and '.join(sorted(numbers))}"


def _check_architecture(config: Mapping[str, Any], name: str) -> None:
    """Raise ``UnsupportedArchitectureError`` for models that no number of ranks can share."""
    if is_speech_model(config):
        reason = "speech models are not divided"
    elif config.get("model_file") is not None:
        reason = "its architecture is code of the checkpoint"
    else:
        try:
            model_class, _ = mlx_lm.utils._get_classes(dict(config))
        except (KeyError, ValueError):
            reason = f"mlx-lm has no architecture {config.get('model_type')!r}"
        else:
            architecture = model_class.__module__.rpartition(".")[2]
            reason = REFUSED.get(architecture, "")
    if reason:
        raise _one_machine_only(reason, name)


def _one_machine_only(reason: str, name: str) -> UnsupportedArchitectureError:
    return UnsupportedArchitectureError(f"{name!r} runs on one machine only: {reason}", model=name)


def _quantization(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the quantization as mlx-lm states it; ``None`` for weights that are not quantized."""
    if config.get("quantization"):
        return dict(config["quantization"])
    nested = config.get("text_config") or {}
    given = config.get("quantization_config") or nested.get("quantization_config") or {}
    group_size = _GROUP_SIZES.get(given.get("quant_method", ""))
    if group_size is None:
        return None
    group_size = given.get("group_size", group_size)
    mode = {16: "nvfp4", 32: "mxfp4"}.get(group_size, "affine")
    return {"group_size": group_size, "bits": 4, "mode": mode}


def _numbers(model: Module) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the numbers that the model's layers store, such as heads, by layer and name."""
    for path, layer in model.named_modules():
        for attribute, value in vars(layer).items():
            if type(value) is int:
                yield (path, attribute), value


def _is_share(whole: int, share: int, size: int) -> bool:
    """Whether a number is unchanged, divided without remainder, or the single KV head of a rank.

    Where there are fewer KV heads than ranks, some models repeat each of them on several ranks.
    """
    return share in (whole, whole / size) or (share == 1 and whole < size and size % whole == 0)
