"""Adapters: weights of LoRA, DoRA or a full fine-tune, as ``mlx_lm.lora`` writes them.

mlx-lm loads an adapter with weights missing, and leaves the layers without them as they are. Here
an adapter has a weight for each parameter that its configuration adds to the model, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..checks import problems_in
from ..errors import AdapterError
from .files import is_intact, read_object

CONFIGURATION = "adapter_config.json"
WEIGHTS = "adapters.safetensors"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _LoraParameters(_Strict):
    rank: int = Field(ge=1)
    scale: float
    dropout: float = Field(ge=0, lt=1)
    keys: list[str] | None = None


class FullFineTune(_Strict):
    """The configuration of weights that replace a model's weights."""

    fine_tune_type: Literal["full"]


class AddedLayers(_Strict):
    """The configuration of LoRA or DoRA layers."""

    fine_tune_type: Literal["lora", "dora"] = "lora"
    num_layers: int
    lora_parameters: _LoraParameters


AdapterConfiguration: TypeAlias = AddedLayers | FullFineTune


def read_adapter(directory: Path, model: str) -> AdapterConfiguration:
    """Check the files of an adapter, in milliseconds, and return its configuration.

    Args:
        directory: The adapter.
        model: The model's name in errors.

    Raises:
        AdapterError: The files cannot be loaded.
    """

    def error(what: str) -> AdapterError:
        return AdapterError(what, adapter=directory, model=model)

    if not directory.is_dir():
        raise error("there is no such directory")
    for name in (CONFIGURATION, WEIGHTS):
        if not (directory / name).is_file():
            raise error(f"there is no {name}")
    try:
        config = read_object(directory / CONFIGURATION)
        has_whole_weights = is_intact(directory / WEIGHTS)
    except OSError as failure:
        file = Path(failure.filename or directory).name
        raise error(f"{file} cannot be read: {failure.strerror}") from failure
    if config is None:
        raise error(f"{CONFIGURATION} is not a JSON object")
    if "peft_type" in config:
        raise error("it has the form of PEFT; mlx_lm.lora writes adapters for MLX")
    if not has_whole_weights:
        raise error(f"{WEIGHTS} is damaged or incomplete")
    kind = FullFineTune if config.get("fine_tune_type") == "full" else AddedLayers
    try:
        return kind.model_validate(config)
    except ValidationError as failure:
        problem = problems_in(failure, config)[0]
        place = ".".join(map(str, problem.location))
        raise error(f"{CONFIGURATION}: {place} {problem.what}") from failure


def apply_adapter(model: Module, directory: Path, name: str) -> None:
    """Add an adapter to a model that has none.

    The weights are lazy arrays. To be called on the thread that will run the model.

    Args:
        model: The model, which is changed. After an error it must not be used.
        directory: The adapter.
        name: The model's name in errors.

    Raises:
        AdapterError: The files cannot be read, or the adapter belongs to another model.
    """
    # Deferred: it imports transformers.
    from mlx_lm.tuner.utils import linear_to_lora_layers  # noqa: PLC0415

    config = read_adapter(directory, name)
    try:
        if isinstance(config, AddedLayers):
            # Only the parameters of the added layers are trainable then.
            model.freeze()
            linear_to_lora_layers(
                model,
                config.num_layers,
                config.lora_parameters.model_dump(exclude_none=True),
                use_dora=config.fine_tune_type == "dora",
            )
        weights = cast("dict[str, mx.array]", mx.load(str(directory / WEIGHTS)))
    except Exception as error:
        # Layers that LoRA does not support raise errors of several kinds.
        raise AdapterError(str(error), adapter=directory, model=name) from error
    problem = _mismatch(model, weights, config)
    if problem is not None:
        raise AdapterError(
            problem,
            adapter=directory,
            model=name,
            hint="Load the model that the adapter was trained with.",
        )
    model.load_weights(list(weights.items()), strict=False)
    # Without dropout.
    model.eval()


def _mismatch(
    model: Module, weights: Mapping[str, mx.array], config: AdapterConfiguration
) -> str | None:
    """Return why weights do not fit an adapter's parameters; ``None`` if they fit.

    Args:
        model: The model with the adapter's layers.
        weights: The adapter's weights.
        config: The adapter's configuration.
    """
    is_full = isinstance(config, FullFineTune)
    parameters = model.parameters() if is_full else model.trainable_parameters()
    leaves = cast("list[tuple[str, mx.array]]", tree_flatten(parameters))
    shapes = {name: leaf.shape for name, leaf in leaves}
    if unknown := weights.keys() - shapes.keys():
        return f"the model has no parameter {min(unknown)}"
    for name, weight in weights.items():
        if weight.shape != shapes[name]:
            return f"{name} has the shape {weight.shape} in place of {shapes[name]}"
    missing = set() if is_full else shapes.keys() - weights.keys()
    if missing:
        return f"{WEIGHTS} lacks {len(missing)} of the weights, such as {min(missing)}"
    return None
