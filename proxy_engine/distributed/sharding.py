"""Loading a model that the ranks of a process group share."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
import mlx_lm.utils
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

from ..errors import InvalidOptionError, ModelFormatError
from ..models.adapters import AddedLayers, read_adapter
from ..models.files import TEXT_FILES
from ..models.kinds import ModelParts
from ..models.load_options import LoadOptions
from ..models.loading import LoadedModel, load_model
from .sharding_plan import (
    Parallelism,
    RankGroup,
    build,
    pipeline_problem,
    pipeline_stage,
    plan,
    refusal,
    sharding_problem,
)

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

_INDEX = "model.safetensors.index.json"
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_METADATA = [name for name in mlx_lm.utils.DEFAULT_ALLOW_PATTERNS if name not in TEXT_FILES]


def load_sharded(
    model: str | os.PathLike[str] | None, options: LoadOptions, group: RankGroup
) -> LoadedModel:
    """Load this rank's share of a model.

    To be called on every rank at the same time, with the same arguments, on the thread that will
    run the model: it runs a forward pass, in which the ranks communicate. The model is refused
    before its weights are read or downloaded. Pipelines require the global process group.

    Args:
        model: Directory or Hugging Face repo id; ``None``: the embedded model.
        options: How to load it.
        group: The process group.

    Raises:
        UnsupportedArchitectureError: The model cannot be divided among the ranks.
        InvalidOptionError: The adapter changes layers, which are sharded.
        ModelError: As ``load_model``.
    """
    if group.size() == 1:
        return load_model(model, options=options)
    return load_model(model, None, options, Sharding(group).load_parts)


class Sharding:
    """Loads models as lazy arrays and keeps this rank's share."""

    def __init__(self, group: RankGroup) -> None:
        self._group = group
        self._parallelism = Parallelism.TENSOR
        self._config: Mapping[str, Any] = {}

    def load_parts(
        self, path: str, config: Mapping[str, Any], name: str, options: LoadOptions
    ) -> ModelParts:
        """Check that a model can be divided, and load it as lazy arrays."""
        self.check(config, options, name)
        return ModelParts(*self.load(path, options), shard=self.shard)

    def check(self, config: Mapping[str, Any], options: LoadOptions, name: str) -> None:
        """Refuse a model that cannot be divided, or an adapter that cannot.

        Raises:
            UnsupportedArchitectureError: The model cannot be divided among the ranks.
            InvalidOptionError: The adapter changes layers, which are sharded.
        """
        self._config = {**config, **options.config_overrides}
        self._parallelism = plan(self._config, self._group.size(), name)
        adapter = options.adapter_path
        adds_layers = adapter and isinstance(read_adapter(adapter, name), AddedLayers)
        if self._parallelism is Parallelism.TENSOR and adds_layers:
            raise InvalidOptionError(
                "tensor-parallel layers take no LoRA or DoRA weights",
                option="adapter_path",
                hint="Merge the adapter into the model with mlx_lm.fuse.",
            )

    def load(
        self, path: str, options: LoadOptions
    ) -> tuple[Module, TokenizerWrapper, dict[str, Any]]:
        """Load the whole model as lazy arrays, and its tokenizer.

        As a pipeline, the weights of other ranks' layers may be missing.
        """
        layers = self._own_layers()
        directory = _download(path, options.revision, layers)
        loaded: set[str] = set()
        model, config = mlx_lm.utils.load_model(
            directory,
            lazy=True,
            strict=layers is None,
            model_config=dict(options.config_overrides),
            get_model_classes=_recording(loaded),
        )
        _check_complete(model, loaded, layers, path)
        tokenizer = mlx_lm.utils.load_tokenizer(
            directory, options.tokenizer_arguments(), eos_token_ids=config.get("eos_token_id")
        )
        return model, tokenizer, config

    def shard(self, model: Module, name: str) -> None:
        """Reduce a model to this rank's share, in place.

        Raises:
            UnsupportedArchitectureError: The quantized weights cannot be divided.
        """
        if self._parallelism is Parallelism.PIPELINE:
            problem = pipeline_problem(model, self._group)
        else:
            problem = sharding_problem(model, self._group)
        if problem is not None:
            raise refusal(problem, self._config, self._group.size(), name)

    def _own_layers(self) -> range | None:
        """Return the numbers of this rank's layers in a pipeline; ``None`` for all layers."""
        if self._parallelism is not Parallelism.PIPELINE:
            return None
        stage = pipeline_stage(build(self._config))
        assert stage is not None
        stage.pipeline(self._group)
        return range(stage.start_idx, stage.end_idx)


def _download(path: str, revision: str | None, layers: range | None) -> Path:
    """Download the files of a repo that this rank needs, and return their directory."""
    download = mlx_lm.utils._download
    if layers is None or os.path.isdir(path):
        return download(path, revision=revision)
    directory = download(path, revision=revision, allow_patterns=_METADATA)
    index = directory / _INDEX
    files: set[str] = set(TEXT_FILES)
    if index.is_file():
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = {file for weight, file in weight_map.items() if _is_own(weight, layers)}
    return download(path, revision=revision, allow_patterns=sorted(files))


def _is_own(weight: str, layers: range) -> bool:
    """Whether a rank needs a weight: of its layers, or of none."""
    layer = _LAYER.search(weight)
    return layer is None or int(layer[1]) in layers


def _recording(names: set[str]) -> Callable[..., tuple[Any, Any]]:
    """Return mlx-lm's search for classes, whose models add the names of loaded weights to a set."""

    def classes(config: dict[str, Any]) -> tuple[Any, Any]:
        model_class, arguments_class = mlx_lm.utils._get_classes(config)

        def recording_model(arguments: Any) -> Module:
            model: Module = model_class(arguments)
            load_weights = model.load_weights

            def load(weights: list[tuple[str, mx.array]], strict: bool = True) -> Module:
                names.update(name for name, _ in weights)
                del model.load_weights
                return load_weights(weights, strict=strict)

            # Beside the weights, in the instance.
            object.__setattr__(model, "load_weights", load)
            return model

        return recording_model, arguments_class

    return classes


def _check_complete(model: Module, loaded: set[str], layers: range | None, name: str) -> None:
    """Raise ``ModelFormatError`` if weights that this rank needs are missing.

    mlx-lm would leave random ones in their place.
    """
    if layers is None:
        return
    needed = {
        weight
        for weight, _ in cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters()))
        if _is_own(weight, layers)
    }
    if missing := needed - loaded:
        raise ModelFormatError(
            f"{name!r} cannot be loaded: {min(missing)!r} is missing", model=name
        )
