"""A request that has passed every check."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from state_machines.completion import Guard

from ..answers.compiler import Answer
from ..options import GenerationOptions
from ..tools import Tool

__all__ = ["Request"]


@dataclass(slots=True)
class Request:
    """A request that can be run.

    ``max_tokens`` is what the context leaves of ``options.max_tokens``. ``guard`` keeps a
    constrained answer within them; it is at the answer's beginning. ``tools`` are those that
    may be called. ``watches``: events tell of tokens, and of structured values while they are
    written. ``boundaries`` are lengths of the prompt up to which others may be the same. Setting
    ``cancelled`` makes a running request stop at its next token. ``made`` is when the request was
    made, or rather queued, by the clock of ``time.perf_counter``; ``counts_waiting``: its time runs
    from then, and not only from when it is begun.
    """

    prompt_ids: list[int]
    answer: Answer
    options: GenerationOptions
    max_tokens: int
    guard: Guard | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict)
    watches: bool = False
    boundaries: tuple[int, ...] = ()
    cancelled: threading.Event = field(default_factory=threading.Event)
    made: float = field(default_factory=time.perf_counter)
    counts_waiting: bool = True
