"""Prompt caches as methods of the engine."""

from __future__ import annotations

import os
from typing import Any, Unpack

from ..conversation.messages import Prompt
from .core import EngineCore
from .request_arguments import RequestArguments


class PromptCacheEngine:
    """Saving, loading and clearing the cached texts of prompts."""

    _core: EngineCore

    def save_prompt_cache(
        self,
        path: str | os.PathLike[str],
        prompt: Prompt,
        response_format: Any = None,
        **arguments: Unpack[RequestArguments],
    ) -> int:
        """Process a prompt, and save the model's cache of it for :meth:`load_prompt_cache`.

        The file has the format of ``mlx_lm``'s ``save_prompt_cache``.

        Args:
            path: A file name that ends in ``.safetensors``.
            prompt: The prompt; later requests that begin with it reuse its cache.
            response_format: As in these requests.
            arguments: As in these requests.

        Returns:
            The number of the prompt's tokens.

        Raises:
            PromptCacheFileError: The model's cache cannot be saved.
            InvalidOptionError: The file name or an argument is invalid; see :meth:`generate`. Or
                the model is distributed.
            OSError: The file cannot be written.
        """
        request = self._core.prepare(prompt, response_format, arguments)
        return self._core.save_prompt_cache(path, request)

    def load_prompt_cache(self, path: str | os.PathLike[str]) -> int:
        """Load a saved prompt cache. Requests that begin with its prompt reuse it.

        Returns:
            The number of the prompt's tokens.

        Raises:
            PromptCacheFileError: The file is damaged or no prompt cache.
            PromptCacheMismatchError: It belongs to another model, adapter, quantization, or to
                other cache options.
            InvalidOptionError: The model is distributed.
            OSError: The file cannot be read.
        """
        return self._core.load_prompt_cache(path)

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts of earlier requests, and free their memory.

        Running requests keep theirs.
        """
        self._core.clear_prompt_cache()
