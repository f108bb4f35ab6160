"""Loading of multimodal models with mlx-vlm."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from ..runtime.extras import import_extra, is_installed
from .chat_template import Kind, MediaChatTemplate
from .language_model import LanguageModel
from .model_caches import UnsupportedModelError as UnsupportedModelError
from .processor import MultimodalProcessor

MEDIA_KEYS: Mapping[Kind, tuple[str, ...]] = {
    "image": (
        "vision_config",
        "mm_vision_tower",
        "vision_tower",
        "img_processor",
        "embd_layer",
        "image_token_id",
        "image_token_index",
        "thinker_config",
    ),
    "audio": ("audio_config", "embd_layer", "thinker_config"),
}
"""Keys of the configurations of models that read each kind of media."""

_REFUSED = {
    "mllama": "its layers attend to the image by cross-attention",
    "florence2": "it is an encoder and a decoder",
    "nemotron_parse": "it is an encoder and a decoder",
    "diffusion_gemma": "it generates by diffusion",
    "falcon_perception": "it returns regions of an image",
    "got": "mlx-vlm runs code of its checkpoints",
    "inkling": "mlx-vlm runs code of its checkpoints",
    "zaya1_vl": "its layers take no other caches than those of mlx-vlm",
}
"""Model types of mlx-vlm that do not generate text token by token from a prompt with media."""


_TOWERS = ("vision_tower", "vision_model", "visual", "vision_embed_tokens")
"""Names of the module that reads images."""


def is_multimodal(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a model which reads media, and which mlx-vlm may load."""
    if not any(config.get(key) for keys in MEDIA_KEYS.values() for key in keys):
        return False
    if not is_installed("vision"):
        return True
    utils = import_extra("vision", "mlx_vlm.utils", purpose="reading images")
    try:
        model_type = utils.get_model_type(dict(config))
    except (AttributeError, TypeError, ValueError):
        # The configuration is malformed.
        return False
    # Other types may be models of mlx-lm, or of mlx-audio.
    return (
        isinstance(model_type, str)
        and model_type.isidentifier()
        and importlib.util.find_spec(f"mlx_vlm.models.{model_type}") is not None
    )


def unsupported(config: Mapping[str, Any]) -> str | None:
    """Return why a multimodal model is not supported; ``None`` if no reason is known."""
    if config.get("model_file") is not None:
        # mlx-vlm would run it.
        return "it requires custom code (model_file), which is not run"
    return _REFUSED.get(str(config.get("model_type")))


def load_multimodal(
    path: str | os.PathLike[str],
    config: Mapping[str, Any],
    *,
    lazy: bool = False,
    revision: str | None = None,
    tokenizer_arguments: Mapping[str, Any] | None = None,
) -> tuple[LanguageModel, TokenizerWrapper, dict[str, Any], MultimodalProcessor]:
    """Load a multimodal model. To be called on the thread that will run it.

    No code of the checkpoint is run, except that of its tokenizer if ``tokenizer_arguments`` has
    ``trust_remote_code``.

    Args:
        path: Directory or Hugging Face repo id.
        config: Its configuration.
        lazy: Whether the weights are read when they are first needed.
        revision: Branch, tag or commit of a repo.
        tokenizer_arguments: Arguments of the tokenizer that replace those of its files.

    Returns:
        The language model, which holds the whole model; its tokenizer, with the processor's chat
        template; its configuration, with the text model's context length; its processor.

    Raises:
        MissingExtraError: mlx-vlm is not installed.
        UnsupportedModelError: It does not generate text token by token from a prompt with media.
        Exception: What mlx-vlm raises for files that it cannot load.
    """
    model_type = str(config.get("model_type"))
    utils = import_extra("vision", "mlx_vlm.utils", purpose=f"a {model_type} model")
    reason = unsupported(config)
    if reason is not None:
        raise UnsupportedModelError(reason)
    directory = utils.get_model_path(os.fspath(path), revision=revision)
    config = utils.load_config(directory)
    model = utils.load_model(directory, lazy=lazy)
    _check(model)
    adapter = LanguageModel(model, config)
    # Some of its classes would run code of the checkpoint.
    processor = utils.load_processor(directory, add_detokenizer=False, trust_remote_code=False)
    image_processor = utils.load_image_processor(directory)
    if image_processor is not None:
        processor.image_processor = image_processor
    tokenizer = _tokenizer(directory, config, processor, tokenizer_arguments or {})
    config = _with_context_length(config, model)
    return (
        adapter,
        tokenizer,
        config,
        MultimodalProcessor(model, processor, tokenizer, adapter.model_type),
    )


def _check(model: Module) -> None:
    """Raise unless the model embeds media and generates text token by token."""
    language_model = getattr(model, "language_model", None)
    if language_model is None or not hasattr(model, "get_input_embeddings"):
        raise UnsupportedModelError("it is not a language model that reads media")
    diffusion = import_extra("vision", "mlx_vlm.generate.diffusion", purpose="reading images")
    if diffusion.is_diffusion_model(model):
        raise UnsupportedModelError("it generates by diffusion")
    dropped = [name for name in _TOWERS if vars(model).get(name, model) is None]
    if dropped:
        # mlx-vlm sets modules without weights to None, for instance those of a text model alone.
        raise UnsupportedModelError(f"the files have no weights of {', '.join(dropped)}")


def whole_model(model: Module) -> Module:
    """Return mlx-vlm's model of a multimodal model, whose parameters have the checkpoint's names.

    Any other model is returned as it is.
    """
    return model.multimodal if isinstance(model, LanguageModel) else model


def _tokenizer(
    directory: Path, config: Mapping[str, Any], processor: Any, arguments: Mapping[str, Any]
) -> TokenizerWrapper:
    """Load the tokenizer, with the chat template of the processor unless one is given."""
    template = _chat_template(processor)
    from_processor = {} if template is None else {"chat_template": template}
    extra = {"trust_remote_code": False, **from_processor, **arguments}
    stop = config.get("eos_token_id")
    if stop is None:
        stop = (config.get("text_config") or {}).get("eos_token_id")
    # mlx-lm also determines the format of tool calls.
    loaded = load_tokenizer(directory, extra, eos_token_ids=stop)
    tokenizer = loaded._tokenizer
    return TokenizerWrapper(
        tokenizer,
        eos_token_ids=loaded.eos_token_ids,
        chat_template=MediaChatTemplate(tokenizer, str(config["model_type"])),
        tool_call_start=loaded.tool_call_start,
        tool_call_end=loaded.tool_call_end,
        tool_parser=loaded.tool_parser,
    )


def _chat_template(processor: Any) -> str | None:
    """Return the chat template of a processor.

    A template that is the default of the processor's class is not the checkpoint's. It is returned
    only if the processor's tokenizer has none.
    """
    template = getattr(processor, "chat_template", None)
    default = inspect.signature(type(processor).__init__).parameters.get("chat_template")
    if default is not None and template == default.default:
        template = getattr(getattr(processor, "tokenizer", None), "chat_template", None) or template
    return template if isinstance(template, str) else None


def _with_context_length(config: Mapping[str, Any], model: Module) -> dict[str, Any]:
    """Return the configuration with the text model's own default where it states no length."""
    key = "max_position_embeddings"
    text = getattr(model.config, "text_config", None)
    stated = config.get(key) or (config.get("text_config") or {}).get(key)
    known = stated or getattr(text, key, None) or getattr(model.config, key, None)
    return {**config, key: known} if isinstance(known, int) else dict(config)
