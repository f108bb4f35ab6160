"""An engine whose answers to one prompt fail after a few tokens."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from proxy_engine import InferenceEngine
from proxy_engine.results.events import TokenGenerated

__all__ = ["FAILING_PROMPT", "FailingEngine"]

FAILING_PROMPT = "Fail after three tokens."
_TOKENS = 3


class FailingEngine(InferenceEngine):
    """Fails with a ``RuntimeError`` in answers to ``FAILING_PROMPT``, as a defect would."""

    async def astream(self, prompt: Any, **arguments: Any) -> Any:  # type: ignore[override]
        """Return the stream, or one that fails."""
        stream = await super().astream(prompt, **arguments)
        return _FailingStream(stream) if FAILING_PROMPT in _text(prompt) else stream


class _FailingStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._left = _TOKENS
        self.cancel = stream.cancel
        self.aclose = stream.aclose

    def __await__(self) -> Generator[Any, None, _FailingStream]:
        yield from self._stream.__await__()
        return self

    def __aiter__(self) -> _FailingStream:
        return self

    async def __anext__(self) -> Any:
        event = await anext(self._stream)
        if isinstance(event, TokenGenerated):
            self._left -= 1
            if self._left < 0:
                raise RuntimeError("the compatibility check asked for this failure")
        return event


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else json.dumps(prompt, default=str)
