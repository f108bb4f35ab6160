"""Adapters: LoRA and DoRA weights, or those of a full fine-tune, as ``mlx_lm.lora`` writes them.

mlx-lm loads an adapter with weights missing, and leaves the layers without them as they are. Here
an adapter has a weight for each parameter that its configuration adds to the model, and no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers

from ..errors import AdapterError
from .weight_files import safetensors_names

CONFIGURATION = "adapter_config.json"
WEIGHTS = "adapters.safetensors"

_FULL, _KINDS = "full", ("lora", "dora", "full")
_LORA_LEAVES = frozenset({"lora_a", "lora_b"})
_MAGNITUDE = "m"
"""DoRA's parameter beside the two of LoRA."""
_MAX_LISTED = 3


def adapter_problem(directory: Path) -> str | None:
    """Return why the files of an adapter cannot be loaded; ``None`` if no problem is found.

    Reads the configuration and the header of the weights.
    """
    if not directory.is_dir():
        return "there is no such directory"
    try:
        config = _configuration(directory)
        if isinstance(config, str):
            return config
        weights = directory / WEIGHTS
        if not weights.is_file():
            return f"there is no {WEIGHTS}"
        names = safetensors_names(weights)
    except OSError as error:
        return f"{Path(error.filename or directory).name} cannot be read: {error.strerror}"
    if names is None:
        return f"{WEIGHTS} is damaged or incomplete"
    return None if names else f"{WEIGHTS} has no weights"


def check_adapter(directory: Path, model: str) -> None:
    """Check the files of an adapter, in milliseconds.

    Raises:
        AdapterError: They cannot be loaded.
    """
    problem = adapter_problem(directory)
    if problem is not None:
        raise AdapterError(problem, adapter=directory, model=model)


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
    check_adapter(directory, name)
    config = cast("Mapping[str, Any]", _configuration(directory))
    kind = config.get("fine_tune_type", "lora")
    try:
        if kind != _FULL:
            linear_to_lora_layers(
                model, config["num_layers"], config["lora_parameters"], use_dora=kind == "dora"
            )
        weights = cast("dict[str, mx.array]", mx.load(str(directory / WEIGHTS)))
    except Exception as error:
        # Layers that LoRA does not support raise errors of several kinds.
        raise AdapterError(str(error), adapter=directory, model=name) from error
    problem = _mismatch(_shapes(model), weights, is_full=kind == _FULL)
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


def adds_layers(directory: Path) -> bool:
    """Whether a loadable adapter has LoRA or DoRA layers, and does not only replace weights.

    Raises:
        OSError: The files cannot be read.
    """
    config = cast("Mapping[str, Any]", _configuration(directory))
    kind: str = config.get("fine_tune_type", "lora")
    return kind != _FULL


def _configuration(directory: Path) -> Mapping[str, Any] | str:
    """Return the content of ``adapter_config.json``, or why it is invalid.

    Raises:
        OSError: The file cannot be read.
    """
    file = directory / CONFIGURATION
    if not file.is_file():
        return f"there is no {CONFIGURATION}"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        return f"{CONFIGURATION} is not JSON: {error}"
    if not isinstance(config, dict):
        return f"{CONFIGURATION} is not a JSON object"
    if "peft_type" in config:
        return "it has the form of PEFT; mlx_lm.lora writes adapters for MLX"
    problem = _configuration_problem(config)
    return config if problem is None else f"{CONFIGURATION}: {problem}"


def _configuration_problem(config: Mapping[str, Any]) -> str | None:
    kind = config.get("fine_tune_type", "lora")
    if kind not in _KINDS:
        return f"fine_tune_type should be {', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
    if kind == _FULL:
        return None
    parameters = config.get("lora_parameters")
    if not _is_integer(config.get("num_layers")):
        return "num_layers should be an integer"
    if not isinstance(parameters, dict):
        return "lora_parameters should be an object"
    if not _is_integer(parameters.get("rank")) or parameters["rank"] < 1:
        return "lora_parameters.rank should be an integer of at least 1"
    for name in ("scale", "dropout"):
        value = parameters.get(name)
        if not isinstance(value, float) and not _is_integer(value):
            return f"lora_parameters.{name} should be a number"
    if not 0 <= parameters["dropout"] < 1:
        return "lora_parameters.dropout should be at least 0 and below 1"
    keys = parameters.get("keys")
    if keys is not None and not (isinstance(keys, list) and all(isinstance(k, str) for k in keys)):
        return "lora_parameters.keys should be a list of names"
    return None


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shapes(model: Module) -> dict[str, tuple[int, ...]]:
    leaves = cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters()))
    return {name: leaf.shape for name, leaf in leaves}


def _mismatch(
    shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, mx.array], *, is_full: bool
) -> str | None:
    """Return why weights are not those of an adapter's parameters; ``None`` if they are.

    Args:
        shapes: The shapes of all parameters of the model with the adapter's layers.
        weights: The adapter's weights.
        is_full: Whether they replace weights of the model.
    """
    expected = shapes.keys() if is_full else set(_adapter_parameters(shapes))
    if unknown := weights.keys() - expected:
        return f"the model has no parameter {_listed(unknown)}"
    for name, weight in weights.items():
        if weight.shape != shapes[name]:
            return f"{name} has the shape {weight.shape} in place of {shapes[name]}"
    missing = set() if is_full else expected - weights.keys()
    return f"{WEIGHTS} lacks {_listed(missing)}" if missing else None


def _adapter_parameters(names: Iterable[str]) -> Iterable[str]:
    split = [name.rpartition(".") for name in names]
    adapted = {parent for parent, _, leaf in split if leaf in _LORA_LEAVES}
    for parent, dot, leaf in split:
        if leaf in _LORA_LEAVES or (leaf == _MAGNITUDE and parent in adapted):
            yield parent + dot + leaf


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_LISTED} more" if len(ordered) > _MAX_LISTED else ""
    return ", ".join(ordered[:_MAX_LISTED]) + more
