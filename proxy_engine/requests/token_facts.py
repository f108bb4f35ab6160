"""Facts about the tokens of an answer that its result keeps: origins and lengths."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from state_machines import Vocabulary

from ..generation import Token
from ..results.generation import ScoredChoice


def token_origin(token: Token) -> str:
    """Return the letter of ``GenerationResult.token_origins``, for an answer without choices."""
    return "f" if token.is_forced else "d" if token.is_drafted else "s"


def with_choices(
    origins: Sequence[str], lengths: Sequence[int], choices: Iterable[ScoredChoice]
) -> str:
    """Return the letters of the tokens; ``c`` for those that write a part of a drawn option.

    Args:
        origins: The letter of each token without choices.
        lengths: Bytes that each token wrote.
        choices: The choices that were drawn exactly, in the order of the output.
    """
    letters = list(origins)
    starts = [0, *itertools.accumulate(lengths)]
    for choice in choices:
        stop = choice.offset + len(choice.chosen.text.encode())
        first = bisect_right(starts, choice.offset) - 1
        # The last option of a cancelled answer may be cut off.
        for index in range(first, min(bisect_left(starts, stop), len(letters))):
            letters[index] = "c" if lengths[index] else letters[index]
    return "".join(letters)


def written_lengths(
    token_ids: Sequence[int],
    vocabulary: Vocabulary,
    *,
    is_constrained: bool,
    stop_ids: Collection[int],
) -> tuple[int, ...]:
    """Return how many bytes each token wrote to the parts of an answer.

    Args:
        token_ids: The tokens.
        vocabulary: Their bytes.
        is_constrained: Whether the answer has a grammar, which may name special tokens. In
            unconstrained text they are not part of the answer.
        stop_ids: Further tokens that write nothing.
    """
    forms, ends = vocabulary.token_bytes, vocabulary.end_token_ids
    silent = ends if is_constrained else {*ends, *stop_ids}
    lengths = []
    for token_id in token_ids:
        form = forms[token_id] or b""
        length = len(form)
        if form.startswith(Vocabulary.SPECIAL_MARK):
            length = length - 1 if is_constrained else 0
        lengths.append(0 if token_id in silent else length)
    return tuple(lengths)
