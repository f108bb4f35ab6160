"""Answers to questions about images, by this engine and by mlx-vlm's own ``stream_generate``."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import mlx_vlm
import numpy as np
from mlx_vlm.apc import APCManager
from mlx_vlm.generate import PromptCacheState, stream_generate

from proxy_engine import ImageContent, InferenceEngine, Interaction, Role, TextContent
from proxy_engine.results.events import Finished, TokenGenerated
from proxy_engine.results.parts import Span

__all__ = ["PEERS", "Answered", "MlxVlm", "Ours", "VisionStack", "processor_seconds"]

PEERS: dict[str, Callable[[], dict[str, Any]]] = {
    "mlx-vlm": dict,
    "mlx-vlm, prompt_cache_state": lambda: {"prompt_cache_state": PromptCacheState()},
    "mlx-vlm, apc_manager": lambda: {"apc_manager": APCManager()},
}
"""Arguments of mlx-vlm's ``stream_generate`` that keep the caches of one image's questions."""


@dataclass(frozen=True)
class Answered:
    """An answer and its times.

    Attributes:
        first_seconds: From the call to the first token.
        seconds: From the call to the end.
        processor_seconds: Of all threads of the process, from the call to the first token.
        further_processor_seconds: The same after the first token.
        tokens: Tokens of the answer.
        mask_seconds: Median time of a step's mask and matcher.
    """

    first_seconds: float
    seconds: float
    processor_seconds: float
    further_processor_seconds: float
    tokens: int
    mask_seconds: float = 0.0

    @property
    def token_seconds(self) -> float:
        """Time of each token after the first."""
        return (self.seconds - self.first_seconds) / max(1, self.tokens - 1)

    @property
    def token_processor_seconds(self) -> float:
        """Processor time of each token after the first."""
        return self.further_processor_seconds / max(1, self.tokens - 1)


class VisionStack(Protocol):
    """A way to answer questions about images."""

    def forget(self) -> None:
        """Drop all caches of prompts."""

    def answer(self, question: str, images: Sequence[Path], max_tokens: int) -> Answered:
        """Answer greedily in free text."""


class Ours:
    """The engine. Files are read and decoded in each call, as mlx-vlm does."""

    def __init__(self, directory: Path) -> None:
        self.engine = InferenceEngine(directory, on_progress=None)

    def forget(self) -> None:
        """Do nothing: each repeat has an image of its own."""

    def close(self) -> None:
        """Release the model."""
        self.engine.close()

    def answer(
        self,
        question: str,
        images: Sequence[Path],
        max_tokens: int,
        response_format: Any = None,
    ) -> Answered:
        """Answer greedily, in free text or in a format."""
        started, processor = time.perf_counter(), processor_seconds()
        first = first_processor = 0.0
        for event in self.engine.stream(
            self.prompt(question, images),
            response_format=response_format,
            max_tokens=max_tokens,
            temperature=0.0,
            speculation="off",
            trace=response_format is not None,
        ):
            if isinstance(event, TokenGenerated) and not first:
                first = time.perf_counter() - started
                first_processor = processor_seconds() - processor
            if isinstance(event, Finished):
                result = event.result
        seconds = time.perf_counter() - started
        return Answered(
            first,
            seconds,
            first_processor,
            processor_seconds() - processor - first_processor,
            result.usage.completion_tokens,
            _mask_seconds(result.trace),
        )

    def prompt(self, question: str, images: Sequence[Path]) -> list[Interaction]:
        """Return the message with images and a question."""
        parts = [
            *(ImageContent(path=image) for image in images),
            TextContent(question),
        ]
        return [Interaction(Role.USER, parts)]


class MlxVlm:
    """mlx-vlm's own loop, with one of its caches or none."""

    def __init__(self, directory: Path, caches: Callable[[], dict[str, Any]]) -> None:
        self._model, self._processor = mlx_vlm.load(str(directory))
        self._make_caches = caches
        self._caches = caches()

    def forget(self) -> None:
        """Begin with new caches."""
        self._caches = self._make_caches()

    def answer(self, question: str, images: Sequence[Path], max_tokens: int) -> Answered:
        """Answer greedily in free text."""
        started, processor = time.perf_counter(), processor_seconds()
        first = first_processor = 0.0
        tokens = 0
        for response in stream_generate(
            self._model,
            self._processor,
            self._prompt(question, len(images)),
            image=[str(image) for image in images],
            max_tokens=max_tokens,
            temperature=0.0,
            **self._caches,
        ):
            if not first:
                first = time.perf_counter() - started
                first_processor = processor_seconds() - processor
            tokens = response.generation_tokens
        seconds = time.perf_counter() - started
        further = processor_seconds() - processor - first_processor
        return Answered(first, seconds, first_processor, further, tokens)

    def _prompt(self, question: str, images: int) -> str:
        parts = [*({"type": "image"},) * images, {"type": "text", "text": question}]
        text: str = self._processor.tokenizer.apply_chat_template(
            [{"role": "user", "content": parts}], add_generation_prompt=True, tokenize=False
        )
        return text


def _mask_seconds(trace: Sequence[Span]) -> float:
    """Return the median of the steps: on a shared machine, other processes delay some of them."""
    steps: dict[int, float] = defaultdict(float)
    for span in trace:
        if span.name in ("mask", "advance"):
            steps[span.step] += span.ended - span.started
    return float(np.median(list(steps.values()))) if steps else 0.0


def processor_seconds() -> float:
    """Return the processor time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
