"""Loading of multimodal models with mlx-vlm."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from ..models import text_loading
from ..models.kinds import ModelParts, UnsupportedModelError, check_applicable, unsupported
from ..models.load_options import LoadOptions
from ..runtime.extras import import_extra, is_installed
from .chat_template import MediaChatTemplate
from .language_model import LanguageModel
from .processor import MultimodalProcessor

_log = logging.getLogger(__name__)

_TOWERS = ("vision_tower", "vision_model", "visual", "vision_embed_tokens")
"""Names of the module that reads images."""


_NOT_OF_MULTIMODAL = {"model_config"}
"""mlx-vlm takes no entries in place of those of ``config.json``."""


def load_parts(path: str, config: Mapping[str, Any], name: str, options: LoadOptions) -> ModelParts:
    """Load a multimodal model; a ``PartsLoader``.

    mlx-lm loads the text model of a multimodal model that mlx-vlm cannot load.
    """
    if is_installed("vision"):
        check_applicable(options, _NOT_OF_MULTIMODAL, name, "a multimodal model")
    try:
        return ModelParts(
            *load_multimodal(
                path,
                config,
                lazy=options.lazy,
                revision=options.revision,
                tokenizer_arguments=options.tokenizer_arguments(),
            )
        )
    except Exception as error:
        try:
            loaded = text_loading.load_parts(path, config, name, options)
        except Exception:
            raise error from None
        _log.warning("%r reads text only: %s", name, error)
        return loaded


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


def _tokenizer(
    directory: Path, config: Mapping[str, Any], processor: Any, arguments: Mapping[str, Any]
) -> TokenizerWrapper:
    """Load the tokenizer, with the given chat template or else the processor's."""
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
