"""outlines on mlx-lm, with its default engine for JSON Schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
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

# What compiling one schema may take.
_SECONDS = 20
_BYTES = 3 << 30


class _Outlines:
    def __init__(self, setting: Setting) -> None:
        self.version = version("outlines")
        self._tokenizer = setting.tokenizer
        self._model = outlines.from_mlxlm(setting.model, setting.tokenizer)
        self._generators: dict[str | None, Any] = {}
        self._refusals: dict[str | None, str] = {None: ""}
        self._tokens: dict[str, list[int]] = {}
        if not mx.metal.is_available():
            # Looked up at each token; without this outlines does not run at all.
            kernels.apply_token_bitmask = apply_bits

    def write(self, request: Request) -> Written:
        self._check(request)
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
        self._check(request)
        started = perf_counter()
        return first_of(self._stream(request), started)

    def can_write(self, request: Request, token_ids: Sequence[int]) -> bool:
        # A check takes as long as the measurement, which reports documents that were not written.
        return True

    def forget(self) -> None:
        self._generators.clear()

    def close(self) -> None:
        self.forget()

    def _check(self, request: Request) -> None:
        """Raise for a schema that does not compile within bounds; each is tried once."""
        if request.schema not in self._refusals:
            self._refusals[request.schema] = self._refusal(request.schema)
        if self._refusals[request.schema]:
            raise RefusedRequestError(self._refusals[request.schema])

    def _refusal(self, schema: str | None) -> str:
        asked = {
            "schema": schema,
            "end_id": self._tokenizer.eos_token_id,
            "tokens": self._token_texts(),
            "bytes": _BYTES,
        }
        command = [sys.executable, str(Path(__file__).with_name("outlines_probe.py"))]
        try:
            subprocess.run(
                command,
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=True,
            )
        except subprocess.TimeoutExpired:
            return f"does not compile within {_SECONDS} s"
        except subprocess.CalledProcessError as error:
            said = error.stderr.strip().splitlines()
            return f"does not compile within {_BYTES >> 30} GiB: {' '.join(said[-2:])}"
        return ""

    def _token_texts(self) -> dict[str, list[int]]:
        """Return the ids of the tokens by their texts, as outlines itself collects them."""
        if not self._tokens:
            for token, token_id in self._tokenizer.get_vocab().items():
                if token_id != self._tokenizer.eos_token_id:
                    text = self._tokenizer.convert_tokens_to_string([token])
                    self._tokens.setdefault(text, []).append(token_id)
        return self._tokens

    def _stream(self, request: Request) -> Iterator[str]:
        generator = self._generators.get(request.schema)
        if generator is None:
            try:
                form = None if request.schema is None else JsonSchema(request.schema)
                generator = outlines.Generator(self._model, form)
            except Exception as error:
                # Refusals have no distinct exception type.
                raise RefusedRequestError(str(error)) from error
            self._generators[request.schema] = generator
        pieces: Iterator[str] = generator.stream(
            request.prompt, max_tokens=request.max_tokens, sampler=sampler_of(request.sampling)
        )
        return pieces


def make_stack(setting: Setting) -> _Outlines:
    """Set up the stack."""
    return _Outlines(setting)
