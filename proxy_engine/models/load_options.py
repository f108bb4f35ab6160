"""Options of loading a model. Names and meanings are those of ``mlx_lm.load``."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypedDict, cast

from jinja2 import TemplateSyntaxError
from pydantic import Field, ValidationInfo, field_validator

from ..checks import OptionModel, directory_path
from ..options.generation import GenerationOptions

_OF_REQUESTS = "It is an option of requests: give it with the prompt, or as GenerationOptions."
_OF_THE_MODEL = "Convert the model with mlx_lm.convert, which quantizes it and chooses its dtype."
_ADAPTER_NAMES = ("adapters", "lora", "lora_path", "lora_request", "peft_model_id")
_HINTS = {
    # The names of other libraries, which are too far for a spelling distance.
    "path_or_hf_repo": "It is the first argument, model.",
    **dict.fromkeys(_ADAPTER_NAMES, "Did you mean 'adapter_path'?"),
    "model_kwargs": "Did you mean 'model_config'?",
    "tokenizer_kwargs": "Did you mean 'tokenizer_config'?",
    **dict.fromkeys(("token", "hf_token"), "Sign in with `hf auth login`."),
    **dict.fromkeys(("dtype", "torch_dtype", "quantization", "load_in_4bit"), _OF_THE_MODEL),
    **dict.fromkeys(GenerationOptions.model_fields, _OF_REQUESTS),
}
_NOT_OF_TOKENIZERS = ("trust_remote_code", "revision")


class LoadArguments(TypedDict, total=False):
    """The arguments of :class:`LoadOptions`, which describes them."""

    adapter_path: str | os.PathLike[str] | None
    revision: str | None
    trust_remote_code: bool
    tokenizer_config: Mapping[str, Any] | None
    model_config: Mapping[str, Any] | None
    lazy: bool
    chat_template: str | os.PathLike[str] | None
    distributed: bool
    wired_memory: bool


class LoadOptions(OptionModel):
    """How a model is loaded. Immutable.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    name_hints: ClassVar[Mapping[str, str]] = _HINTS

    adapter_path: Path | None = None
    """Directory of an adapter, as `mlx_lm.lora` writes it: `adapter_config.json` and
    `adapters.safetensors` with LoRA or DoRA weights, or those of a full fine-tune."""
    revision: str | None = Field(default=None, min_length=1)
    """Branch, tag or commit of a Hugging Face repo."""
    trust_remote_code: bool = False
    """Whether code of the checkpoint may be run: its model file, and classes of its tokenizer."""
    tokenizer_config: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the tokenizer that replace those of its files, such as `eos_token`, an
    end token beside those of `config.json`."""
    # Pydantic reserves the name `model_config`.
    config_overrides: Mapping[str, Any] = Field(default_factory=dict, alias="model_config")
    """Entries that replace those of `config.json`."""
    lazy: bool = False
    """Whether weights are read by the first forward pass that uses them, not when the model is
    loaded."""
    chat_template: str | None = None
    """A chat template in Jinja, or the name of its file, in place of the tokenizer's. A text
    without braces is a name."""

    distributed: bool = False
    """Whether the ranks of a process group share the model."""
    wired_memory: bool = True
    """Whether macOS keeps the memory of the device resident while models run. `False` applies to
    all models of the process, as `PROXY_ENGINE_WIRED_MEMORY=0` does."""

    @classmethod
    def of(cls, arguments: LoadArguments) -> LoadOptions:
        """Return the options that keyword arguments state.

        Raises:
            InvalidOptionError: An option is unknown or its value is invalid.
        """
        return cls(**cast("dict[str, Any]", arguments))

    _as_path = field_validator("adapter_path", mode="before")(directory_path)

    @field_validator("tokenizer_config", "config_overrides", mode="before")
    @classmethod
    def _copy(cls, value: object) -> object:
        return {} if value is None else copy.deepcopy(value)

    @field_validator("tokenizer_config")
    @classmethod
    def _check_tokenizer_config(cls, config: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in _NOT_OF_TOKENIZERS:
            if name in config:
                raise ValueError(f"should not have {name}, which is an option of its own")
        return config

    @field_validator("chat_template", mode="before")
    @classmethod
    def _read_template(cls, value: object) -> object:
        """Return the text of a template; read it if ``value`` names a file."""
        is_text = isinstance(value, str) and "{" in value
        if is_text or not isinstance(value, str | os.PathLike):
            return value
        try:
            return Path(value).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ValueError(
                f"should be a template in Jinja or the name of its file ({error})"
            ) from error

    @field_validator("chat_template")
    @classmethod
    def _check_template(cls, template: str | None, info: ValidationInfo) -> str | None:
        if template is None:
            return None
        if "chat_template" in info.data.get("tokenizer_config", ()):
            raise ValueError("should not be given together with that of tokenizer_config")
        # Deferred: its tags are those of transformers.
        from transformers.utils.chat_template_utils import (  # noqa: PLC0415
            _compile_jinja_template,
        )

        try:
            _compile_jinja_template(template)
        except TemplateSyntaxError as error:
            raise ValueError(
                f"should be a template in Jinja (line {error.lineno}: {error})"
            ) from error
        return template

    def changed_names(self) -> list[str]:
        """Return the names of the options that differ from their defaults, as arguments."""
        return [
            field.alias or name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.get_default(call_default_factory=True)
        ]

    def tokenizer_arguments(self) -> dict[str, Any]:
        """Return the arguments of ``AutoTokenizer.from_pretrained``, in a new dict.

        Without an explicit ``trust_remote_code``, transformers would ask on standard input.
        """
        arguments = copy.deepcopy(dict(self.tokenizer_config))
        arguments["trust_remote_code"] = self.trust_remote_code
        if self.chat_template is not None:
            # A template in code, which a checkpoint can name, would take precedence.
            arguments |= {"chat_template": self.chat_template, "chat_template_type": None}
        return arguments
