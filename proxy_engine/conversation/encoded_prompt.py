"""A prompt as a model reads it: token ids, and inputs beside them such as pixels of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class PromptInputs(Protocol):
    """Inputs of one prompt beside its token ids, such as the pixels of its images.

    Created on any thread, used on the thread that runs the model.

    Attributes:
        media_end: Tokens from this one on are text: the model needs nothing beside them but their
            positions. Less than the length of the prompt.
        single_pass_end: The model processes the tokens before this one in one pass from the first
            token on, for instance because tokens of an image attend to later ones; 0 if passes
            may begin and end anywhere.
        rope_delta: Position of each token from ``media_end`` on minus its index, for models with
            multimodal rotary position embeddings; 0 for others. Known after :meth:`prepare`.
    """

    @property
    def media_end(self) -> int: ...

    @property
    def single_pass_end(self) -> int: ...

    @property
    def rope_delta(self) -> int: ...

    def prepare(self, cache: list[Any], cached_tokens: int) -> None:
        """Begin a prefill, before its first pass.

        Args:
            cache: The sequence's cache, one entry per layer; changed in place.
            cached_tokens: Leading tokens of the prompt that the cache holds.
        """

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        """Return the keyword arguments of the model's call over the prompt's tokens [start, end).

        Called for passes that begin before ``media_end``.
        """

    def release(self) -> None:
        """Drop the arrays of the prefill, which has ended. It may be prepared again."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPrompt:
    """Token ids and the other inputs of the model.

    Attributes:
        token_ids: Token ids. Each medium is a run of placeholder tokens, whose embeddings are
            computed from the medium.
        cache_key: The identity of each token in prompt caches, shape (tokens,): the token id, or a
            negative number that is derived from the content of the medium. ``None``: the token ids.
        inputs: The other inputs of the model; ``None`` for text.
        media_spans: Start and end of each run of placeholder tokens, in ascending order.
        image_tokens: Placeholder tokens of images.
        audio_tokens: Placeholder tokens of audio recordings.
        media_bytes: Memory of ``inputs`` before the prefill, in bytes.
    """

    token_ids: list[int]
    cache_key: npt.NDArray[np.int64] | None = None
    inputs: PromptInputs | None = None
    media_spans: tuple[tuple[int, int], ...] = ()
    image_tokens: int = 0
    audio_tokens: int = 0
    media_bytes: int = 0
