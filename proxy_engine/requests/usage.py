"""Token counts and times of a request."""

from __future__ import annotations

from ..generation import SequenceState
from ..results.generation import Usage
from .request import Request


def measured_usage(
    request: Request,
    sequence: SequenceState,
    *,
    completion_tokens: int,
    cached_tokens: int,
    fast_forwarded_tokens: int,
) -> Usage:
    """Return the usage of a request up to this moment.

    Args:
        request: The request.
        sequence: The sequence that answers it.
        completion_tokens: Tokens of the output.
        cached_tokens: Tokens of the prompt whose KV cache was reused.
        fast_forwarded_tokens: Tokens of the output that the grammar forced.
    """
    timings, drafting = sequence.timings, sequence.drafting
    return Usage(
        prompt_tokens=len(request.prompt_ids),
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
        fast_forwarded_tokens=fast_forwarded_tokens,
        prompt_seconds=timings.prompt,
        completion_seconds=timings.completion,
        mask_seconds=timings.of("mask", "advance"),
        draft_seconds=timings.of("draft"),
        sample_seconds=timings.of("sample"),
        forward_seconds=timings.of("dispatch", "wait"),
        preparation_seconds=request.preparation_seconds,
        queue_seconds=timings.started - request.created,
        drafted_tokens=0 if drafting is None else drafting.drafted_tokens,
        accepted_tokens=0 if drafting is None else drafting.accepted_tokens,
        forward_passes=sequence.forward_passes,
        image_tokens=request.prompt.image_tokens,
        audio_tokens=request.prompt.audio_tokens,
        inexact_choice_tokens=sequence.inexact_choice_tokens,
    )
