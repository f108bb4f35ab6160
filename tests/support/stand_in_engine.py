"""An engine without a model, for what happens around it: ``python stand_in_engine.py extract …``.

It answers ``{"n": length of the prompt, "text": its end}``; a prompt that ends in ``refuse``, ``crash``
or ``close`` fails in that way. ``STAND_IN_SECONDS`` is how long each answer takes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from types import ModuleType
from typing import Any, NamedTuple, Self

from proxy_engine.errors import EngineClosedError, PromptError
from proxy_engine.options.generation import GenerationOptions
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.parts import Usage

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}, "text": {"type": "string"}},
    "required": ["n", "text"],
    "additionalProperties": False,
}


class Item(NamedTuple):
    """As ``proxy_engine.BatchItem``, whose module loads mlx."""

    index: int
    result: GenerationResult[Any] | None = None
    error: Exception | None = None


REQUESTS_AHEAD = 4
"""As ``proxy_engine.requests.streams.REQUESTS_AHEAD``, whose module loads mlx."""


class StandInEngine:
    """The part of ``InferenceEngine`` that the command line uses."""

    model_name = "none"
    input_modalities = frozenset({"text"})
    options = GenerationOptions()

    def __init__(
        self,
        model: str | None = None,
        *,
        on_progress: Callable[[str], None] | None = None,
        batch_size: int = 8,
    ) -> None:
        self.batch_size = batch_size
        self.prompts: list[str] = []
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    def count_tokens(self, prompt: str, response_format: Any, **_: Any) -> int:
        return len(prompt)

    def iter_batch(
        self, requests: Iterable[str], *, response_format: Any, ordered: bool, **_: Any
    ) -> Generator[Item]:
        assert ordered
        assert response_format == SCHEMA
        seconds = float(os.environ.get("STAND_IN_SECONDS", "0"))
        ahead: deque[str] = deque()
        source = iter(requests)
        index = 0
        is_ended = False
        while ahead or not is_ended:
            while not is_ended and len(ahead) < REQUESTS_AHEAD * self.batch_size:
                prompt = next(source, None)
                if prompt is None:
                    is_ended = True
                else:
                    ahead.append(prompt)
                    self.prompts.append(prompt)
            if ahead:
                time.sleep(seconds)
                yield self._item(index, ahead.popleft())
                index += 1

    def _item(self, index: int, prompt: str) -> Item:
        if prompt.endswith("refuse"):
            return Item(index, error=PromptError("refused"))
        if prompt.endswith("crash"):
            return Item(index, error=RuntimeError("out of memory"))
        if prompt.endswith("close"):
            return Item(index, error=EngineClosedError("the engine was closed"))
        value = {"n": len(prompt), "text": prompt[-20:]}
        return Item(
            index,
            GenerationResult(
                text=json.dumps(value, ensure_ascii=False),
                parsed=value,
                finish_reason="stop",
                usage=Usage(10, 5, 0.1, 0.1),
                token_ids=(),
                model="none",
            ),
        )


def main() -> int:
    module = ModuleType("proxy_engine.engine.inference_engine")
    module.InferenceEngine = StandInEngine  # type: ignore[attr-defined]
    sys.modules["proxy_engine.engine.inference_engine"] = module
    from proxy_engine.cli.main import main as run  # noqa: PLC0415

    return run()


if __name__ == "__main__":
    sys.exit(main())
