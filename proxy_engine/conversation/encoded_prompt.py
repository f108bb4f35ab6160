"""Prompts as a model reads them: token ids, inputs beside them such as pixels, and raw prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ..checks.texts import as_list, has_surrogate, short_repr
from ..errors import PromptError

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper


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


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """Text or token ids that the model continues.

    Attributes:
        content: Text, which the tokenizer encodes with its begin token unless it begins with that;
            or token ids.
    """

    content: str | Sequence[int] | npt.NDArray[np.integer[Any]]

    def token_ids(
        self,
        tokenizer: TokenizerWrapper,
        vocabulary_size: int,
        encode: Callable[..., Iterable[int]] | None = None,
    ) -> list[int]:
        """Return the token ids. The text may spell control tokens.

        Args:
            tokenizer: The tokenizer.
            vocabulary_size: Ids are below it.
            encode: Encodes the text in place of ``tokenizer.encode``.

        Raises:
            PromptError: The content is empty, or an id is outside the vocabulary.
        """
        content: object = self.content
        if isinstance(content, str):
            if has_surrogate(content):
                raise PromptError("the prompt has a lone surrogate, which UTF-8 cannot encode")
            begin = str(getattr(tokenizer, "bos_token", None) or "")
            # As in `mlx_lm.stream_generate`: a rendered chat template has the begin token already.
            has_begin = bool(begin) and content.startswith(begin)
            found = (encode or tokenizer.encode)(content, add_special_tokens=not has_begin)
            ids = list(map(int, found))
        else:
            items = as_list(content)
            if items is None:
                raise PromptError(
                    f"a raw prompt should be a string or token ids, not {short_repr(content)}"
                )
            ids = [_token_id(token_id, vocabulary_size) for token_id in items]
        if not ids:
            raise PromptError("the prompt is empty")
        return ids


def _token_id(value: object, vocabulary_size: int) -> int:
    # NumPy integers are accepted, Booleans are not.
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or not 0 <= int(value) < vocabulary_size:  # type: ignore[call-overload]
        raise PromptError(f"{short_repr(value)} is no token id below {vocabulary_size}")
    return int(value)  # type: ignore[call-overload,no-any-return]
