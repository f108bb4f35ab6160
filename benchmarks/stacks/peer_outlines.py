"""outlines on mlx-lm, with its default engine for JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from time import perf_counter
from typing import Any

import mlx.core as mx
import outlines
from outlines.types import JsonSchema
from outlines_core.kernels import mlx as kernels

from stacks.base import RefusedRequestError, Request, Setting, Written
from stacks.bits import apply_bits
from stacks.streaming import first_of, sampler_of

__all__ = ["make_stack"]


class _Outlines:
    def __init__(self, setting: Setting) -> None:
        self.version = version("outlines")
        self._tokenizer = setting.tokenizer
        self._model = outlines.from_mlxlm(setting.model, setting.tokenizer)
        self._generators: dict[str | None, Any] = {}
        if not mx.metal.is_available():
            # Looked up at each token; without this outlines does not run at all.
            kernels.apply_token_bitmask = apply_bits

    def write(self, request: Request) -> Written:
        started = perf_counter()
        first = 0.0
        texts = []
        for text in self._stream(request):
            first = first or perf_counter()
            texts.append(text)
        ended = perf_counter()
        mx.synchronize()
        # There is a piece for each token, an empty one for the token that ends the text.
        return Written("".join(texts), len(texts), ended - started, first - started)

    def first_token(self, request: Request) -> float:
        started = perf_counter()
        return first_of(self._stream(request), started)

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        # To find out takes as long as the measurement; what it cannot write is told there.
        return True

    def forget(self) -> None:
        self._generators.clear()

    def close(self) -> None:
        self.forget()

    def _stream(self, request: Request) -> Iterator[str]:
        generator = self._generators.get(request.schema)
        if generator is None:
            try:
                form = None if request.schema is None else JsonSchema(request.schema)
                generator = outlines.Generator(self._model, form)
            except Exception as error:
                # Refusals have no type of their own.
                raise RefusedRequestError(str(error)) from error
            self._generators[request.schema] = generator
        pieces: Iterator[str] = generator.stream(
            request.prompt, max_tokens=request.max_tokens, sampler=sampler_of(request.sampling)
        )
        return pieces


def make_stack(setting: Setting) -> _Outlines:
    """Set up the stack."""
    return _Outlines(setting)
