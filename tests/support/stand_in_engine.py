"""An engine without a model, for what happens around it: ``python stand_in_engine.py extract …``.

It answers ``{"n": length of the prompt, "text": its end}``; a prompt that ends in ``refuse``, ``crash``
or ``close`` fails in that way. ``max_tokens`` cuts the answer to a prompt that ends in ``cut`` or
``cut twice`` short, the first one only once. A validator rejects the answer to ``rejected cut`` then. ``STAND_IN_SECONDS`` is how long each answer takes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple, Self

from object_schemas import closed_object

from proxy_engine.errors import EngineClosedError, OutputValidationError, PromptError
from proxy_engine.options.generation import GenerationOptions
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.parts import CutShort, RejectedAnswer, Usage

SCHEMA = closed_object(n={"type": "integer", "minimum": 0}, text={"type": "string"})


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
    context_length = None
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
        self,
        requests: Iterable[Any],
        *,
        response_format: Any,
        ordered: bool,
        max_tokens: int | None = GenerationOptions().max_tokens,
        **_: Any,
    ) -> Generator[Item]:
        assert ordered
        assert response_format == SCHEMA
        seconds = float(os.environ.get("STAND_IN_SECONDS", "0"))
        ahead: deque[Any] = deque()
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
                    self.prompts.append(getattr(prompt, "prompt", prompt))
            if ahead:
                time.sleep(seconds)
                request = ahead.popleft()
                prompt = getattr(request, "prompt", request)
                options = getattr(request, "options", {})
                limit = options.get("max_tokens", max_tokens)
                yield _cut(self.item(index, prompt), prompt, is_twice=limit != max_tokens)
                index += 1

    def item(self, index: int, prompt: str) -> Item:
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


def _cut(item: Item, prompt: Any, *, is_twice: bool) -> Item:
    """Return the item as a limit changes it."""
    cut = CutShort("/text", "max_tokens")
    # Those with images are no strings.
    prompt = prompt if isinstance(prompt, str) else ""
    if item.result is None or not (
        prompt.endswith("cut twice") or (prompt.endswith("cut") and not is_twice)
    ):
        return item
    result = replace(item.result, finish_reason="length", cut_short=cut)
    if not prompt.endswith("rejected cut"):
        return item._replace(result=result)
    rejected = RejectedAnswer(result.text, "wrong", result.usage, cut_short=cut)
    error = OutputValidationError("wrong", text=result.text, attempts=[rejected])
    return item._replace(result=None, error=error)


def main() -> int:
    module = ModuleType("proxy_engine.engine.inference_engine")
    module.InferenceEngine = StandInEngine  # type: ignore[attr-defined]
    sys.modules["proxy_engine.engine.inference_engine"] = module
    from proxy_engine.cli.main import main as run  # noqa: PLC0415

    return run()


if __name__ == "__main__":
    sys.exit(main())
