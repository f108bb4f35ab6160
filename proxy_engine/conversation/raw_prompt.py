"""Prompts that bypass the chat template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..checks.texts import as_list, has_surrogate, short_repr
from ..errors import PromptError

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper


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
