"""The prompts of requests as token ids."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from state_machines import Vocabulary

from ..conversation.message_boundaries import message_boundaries
from ..conversation.prompts import Prompt, PromptStyle, template_messages
from ..conversation.raw_prompt import RawPrompt
from ..encoded_prompt import EncodedPrompt
from ..models.loading import LoadedModel
from ..prompt_cache import PromptCaches


class PromptEncoder:
    """Encodes the prompts of one model. Safe to use from several threads.

    Args:
        loaded: The model.
        vocabulary: Its vocabulary.
        tokenizer_lock: Held while the tokenizer is used.
        caches: Determine whether a prompt needs message boundaries.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        vocabulary: Vocabulary,
        tokenizer_lock: threading.Lock,
        caches: PromptCaches,
    ) -> None:
        self._loaded = loaded
        self._vocabulary = vocabulary
        self._tokenizer_lock = tokenizer_lock
        self._caches = caches

    def encode(
        self, prompt: Prompt | EncodedPrompt, style: PromptStyle, max_tokens: int
    ) -> tuple[EncodedPrompt, tuple[int, ...]]:
        """Return an encoded prompt, and the lengths at which other prompts may diverge from it.

        Args:
            prompt: The prompt.
            style: How messages are rendered.
            max_tokens: Longest possible answer.

        Raises:
            PromptError: The prompt is invalid.
        """
        if isinstance(prompt, EncodedPrompt):
            return prompt, ()
        if isinstance(prompt, RawPrompt):
            with self._tokenizer_lock:
                ids = prompt.token_ids(self._loaded.tokenizer, self._vocabulary.size)
            return EncodedPrompt(ids), ()
        messages = template_messages(prompt).messages
        with self._tokenizer_lock:
            ids = style.encode(messages, self._loaded.tokenizer)
            return EncodedPrompt(ids), self._boundaries(messages, ids, style, max_tokens)

    def _boundaries(
        self,
        messages: Sequence[Mapping[str, Any]],
        prompt_ids: Sequence[int],
        style: PromptStyle,
        max_tokens: int,
    ) -> tuple[int, ...]:
        if not self._caches.needs_checkpoints(len(prompt_ids) + max_tokens):
            return ()

        def encode(others: Sequence[Mapping[str, Any]]) -> list[int]:
            return style.encode(template_messages(list(others)).messages, self._loaded.tokenizer)

        return message_boundaries(messages, prompt_ids, encode)
