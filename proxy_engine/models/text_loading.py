"""Loading of language models: with mlx-lm, and of known checkpoints without transformers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from .kinds import ModelParts
from .known_checkpoints import KnownCheckpoint, entry_directory, find, remember
from .load_options import LoadOptions

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper


def load_parts(path: str, config: Mapping[str, Any], name: str, options: LoadOptions) -> ModelParts:
    """Load a language model; a ``PartsLoader``."""
    directory = Path(path)
    entry = None
    if directory.is_dir() and not options.trust_remote_code:
        arguments = [options.tokenizer_arguments(), dict(options.config_overrides)]
        entry = entry_directory(directory, arguments)
    known = None if entry is None else find(entry, directory)
    if known is not None:
        parts = _known_parts(known, options)
        if parts is not None:
            return parts
    loaded = _load_with_mlx_lm(path, options)
    if entry is not None and known is None and _is_plain(directory, loaded, options):
        remember(entry, directory, type(loaded.model).__module__, loaded.tokenizer)
    return loaded


def _load_with_mlx_lm(path: str, options: LoadOptions) -> ModelParts:
    # Deferred: it imports transformers.
    import mlx_lm  # noqa: PLC0415

    loaded = mlx_lm.load(
        path,
        tokenizer_config=options.tokenizer_arguments(),
        model_config=dict(options.config_overrides),
        lazy=True,
        return_config=True,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
    )
    return ModelParts(*loaded)


def _known_parts(known: KnownCheckpoint, options: LoadOptions) -> ModelParts | None:
    """Load a known checkpoint; ``None`` if it cannot be read."""

    def load_tokenizer() -> TokenizerWrapper:
        from mlx_lm.utils import load_tokenizer  # noqa: PLC0415 - it imports transformers.

        loaded: TokenizerWrapper = load_tokenizer(
            known.directory, options.tokenizer_arguments(), config.get("eos_token_id")
        )
        return loaded

    try:
        model, config = plain_model(known.directory, known.architecture, options.config_overrides)
        tokenizer: Any = known.tokenizer(load_tokenizer)
    except Exception:
        # mlx-lm reads the same files, and states what is wrong with them.
        return None
    return ModelParts(model, tokenizer, config)


def plain_model(
    directory: Path, architecture: str, overrides: Mapping[str, Any]
) -> tuple[Module, dict[str, Any]]:
    """Load a checkpoint in mlx-lm's own form, with lazy weights.

    Args:
        directory: The model's files.
        architecture: The module of the model.
        overrides: Entries that replace those of ``config.json``.

    Returns:
        The model and its configuration.

    Raises:
        Exception: The checkpoint has another form.
    """
    module = importlib.import_module(architecture)
    config = {**_configuration(directory), **overrides}
    weights: dict[str, mx.array] = {}
    for file in directory.glob("model*.safetensors"):
        found = mx.load(str(file))
        if not isinstance(found, dict):
            raise TypeError(f"{file.name} has no names of weights")
        weights |= found
    model: Module = module.Model(module.ModelArgs.from_dict(config))
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    quantization = config.get("quantization")
    if quantization is not None:

        def is_quantized(path: str, layer: Module) -> bool | dict[str, Any]:
            if path in quantization:
                own: bool | dict[str, Any] = quantization[path]
                return own
            return hasattr(layer, "to_quantized") and f"{path}.scales" in weights

        quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            mode=quantization.get("mode", "affine"),
            class_predicate=is_quantized,
        )
    model.eval()
    model.load_weights(list(weights.items()))
    return model, config


def _configuration(directory: Path) -> dict[str, Any]:
    """Return ``config.json`` with the end tokens of ``generation_config.json``, as mlx-lm does."""
    config: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    generation = directory / "generation_config.json"
    if generation.is_file():
        ends = json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id")
        config |= {"eos_token_id": ends} if ends else {}
    return config


def _is_plain(directory: Path, loaded: ModelParts, options: LoadOptions) -> bool:
    """Whether ``plain_model`` loads the same model as mlx-lm, without reading weights."""
    try:
        architecture = type(loaded.model).__module__
        model, config = plain_model(directory, architecture, options.config_overrides)
    except Exception:
        return False
    return config == loaded.config and _described(model) == _described(loaded.model)


def _described(model: Module) -> dict[str, Any]:
    """Return the types of a model's layers, and the shapes and types of its weights."""
    layers: list[tuple[str, Any]] = model.named_modules()
    weights = cast("list[tuple[str, Any]]", tree_flatten(model.parameters()))
    described: dict[str, Any] = {
        name: (type(layer), *(getattr(layer, key, None) for key in ("group_size", "bits", "mode")))
        for name, layer in layers
    }
    return described | {name: (array.shape, array.dtype) for name, array in weights}
