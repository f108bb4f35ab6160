"""The properties of an engine."""

from __future__ import annotations

from typing import Literal

from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary

from .core import EngineCore


class EngineProperties:
    """What an engine tells about its model and its requests."""

    _core: EngineCore

    @property
    def model_name(self) -> str:
        """The model's path, its Hugging Face repo id, or the name of the embedded model."""
        return self._core.loaded.name

    @property
    def model_type(self) -> str:
        """The model's architecture, from its configuration."""
        return self._core.loaded.model_type

    @property
    def input_modalities(self) -> frozenset[Literal["text", "image", "audio"]]:
        """The kinds of content that the model reads in prompts."""
        loaded = self._core.loaded
        if loaded.speech is not None:
            return frozenset({"audio"})
        return frozenset(
            {"text"} if loaded.processor is None else {"text", *loaded.processor.reads}
        )

    @property
    def draft_model_name(self) -> str | None:
        """The draft model's path, its Hugging Face repo id, or ``None`` without a draft model."""
        draft_model = self._core.draft_model
        return None if draft_model is None else draft_model.name

    @property
    def tokenizer(self) -> TokenizerWrapper:
        """The model's tokenizer."""
        return self._core.loaded.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary, padded to the width of the model's logits."""
        return self._core.vocabulary

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and answer together; ``None``: no limit."""
        return self._core.loaded.context_length

    @property
    def num_layers(self) -> int | None:
        """The model's number of layers; ``None`` if unknown."""
        return self._core.loaded.num_layers

    @property
    def hidden_size(self) -> int | None:
        """The width of the model's hidden states; ``None`` if unknown."""
        return self._core.loaded.hidden_size

    @property
    def batch_size(self) -> int:
        """Maximum number of requests that run together."""
        return self._core.scheduler.batch_size

    @property
    def queued_requests(self) -> int:
        """Number of requests in the queue."""
        return self._core.scheduler.waiting

    @property
    def running_requests(self) -> int:
        """Number of requests that have begun and not finished."""
        return self._core.scheduler.running
