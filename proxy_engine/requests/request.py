"""A request that has passed every check."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from state_machines.completion import Guard

from ..answers.compiler import Answer
from ..conversation.encoded_prompt import EncodedPrompt
from ..generation import SamplingHooks
from ..options.generation import GenerationOptions
from ..prompt_cache.store import TokenIds, token_array
from ..tools import Tool


@dataclass(slots=True)
class Request:
    """A prepared request.

    Attributes:
        prompt: The prompt.
        answer: The compiled form of the answer.
        options: The options.
        max_tokens: Maximum number of generated tokens: ``options.max_tokens``, or fewer if the
            context has less room.
        guard: Keeps a constrained answer completable within ``max_tokens``; in its initial state.
        tools: The tools that may be called, by name.
        hooks: The caller's functions for sampling.
        has_messages: Whether the prompt is a conversation, which the chat template rendered.
        watches: Emit events for tokens and partial values.
        boundaries: Prompt lengths at which other prompts may diverge, see ``message_boundaries``.
        cancelled: Stops the request at its next token.
        created: When it was queued, by the clock of ``time.perf_counter``.
        preparation_seconds: Time that its preparation took.
        counts_waiting: ``max_seconds`` includes preparation and queue, otherwise it counts from
            the first pass.
    """

    prompt: EncodedPrompt
    answer: Answer
    options: GenerationOptions
    max_tokens: int
    guard: Guard | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict)
    hooks: SamplingHooks = field(default_factory=SamplingHooks)
    has_messages: bool = True
    watches: bool = False
    boundaries: tuple[int, ...] = ()
    cancelled: threading.Event = field(default_factory=threading.Event)
    created: float = field(default_factory=time.perf_counter)
    preparation_seconds: float = 0.0
    counts_waiting: bool = True

    @property
    def prompt_ids(self) -> list[int]:
        """The prompt's token ids."""
        return self.prompt.token_ids

    def cache_key(self, token_ids: Sequence[int] | None = None) -> TokenIds:
        """Return the identity of a text in prompt caches.

        Args:
            token_ids: The text: a prefix of the prompt, or the prompt and generated tokens.
                ``None``: the prompt.
        """
        key = token_array(self.prompt_ids if token_ids is None else token_ids)
        own = self.prompt.cache_key
        if own is not None:
            length = min(len(own), len(key))
            key[:length] = own[:length]
        return key

    @property
    def sequences(self) -> int:
        """Sequences that run together for this request, each a row of the batch."""
        options = self.options
        return options.particles if options.particles > 1 else options.n
