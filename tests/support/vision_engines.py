"""Engines with small multimodal models, and conversations with images for them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image
from vision_families import FAMILIES
from vision_reference import reference_prompt, reference_steps

from proxy_engine import CacheOptions, ImageContent, InferenceEngine, Interaction, TextContent

__all__ = ["Turn", "VisionEngine", "user"]

Part: TypeAlias = str | Image.Image
Logprobs: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a conversation."""

    role: str
    parts: tuple[Part, ...]

    @property
    def images(self) -> list[Image.Image]:
        """Its images, in order."""
        return [part for part in self.parts if isinstance(part, Image.Image)]


def user(*parts: Part) -> Turn:
    """Return a message of the user."""
    return Turn("user", parts)


@dataclass
class VisionEngine:
    """An engine of one of the small multimodal models, with mlx-vlm's answers to compare with.

    Attributes:
        name: The architecture.
        path: Directory of the checkpoint.
        engine: The engine.
        uncached: Another one, without prompt caching.
    """

    name: str
    path: Path
    engine: InferenceEngine
    uncached: InferenceEngine
    _references: dict[Any, list[tuple[int, Logprobs]]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def open(cls, name: str, path: Path) -> Iterator[VisionEngine]:
        """Open engines for the checkpoint in a directory."""
        engine = partial(InferenceEngine, path, on_progress=None, cache_vocabulary=False)
        with engine() as cached, engine(cache=CacheOptions(max_bytes=0)) as uncached:
            yield cls(name, path, cached, uncached)

    @property
    def max_images(self) -> int:
        """Number of images that a conversation can have."""
        return FAMILIES[self.name].max_images

    @property
    def reuses_prompts(self) -> bool:
        """Whether the keys and values of a prompt can be reused for another one."""
        return FAMILIES[self.name].reuses_prompts

    def prompt(self, *turns: Turn) -> list[Interaction]:
        """Return a conversation as the engine takes it."""
        return [Interaction(turn.role, [_content(part) for part in turn.parts]) for turn in turns]

    def reference(self, *turns: Turn, max_tokens: int = 8) -> list[int]:
        """Return the first tokens of mlx-vlm's greedy answer to a conversation."""
        return [token for token, _ in self.steps(*turns, max_tokens=max_tokens)]

    def steps(self, *turns: Turn, max_tokens: int = 8) -> list[tuple[int, Logprobs]]:
        """Return these tokens with the logarithms of all tokens' probabilities."""
        images = [image for turn in turns for image in turn.images]
        key = tuple(_key(part) for turn in turns for part in (turn.role, *turn.parts))
        if len(self._references.get(key, ())) < max_tokens:
            rendered = reference_prompt(self.path, [_message(turn) for turn in turns], len(images))
            self._references[key] = reference_steps(self.path, rendered, images, max_tokens)
        return self._references[key][:max_tokens]


def _content(part: Part) -> TextContent | ImageContent:
    if isinstance(part, str):
        return TextContent(part)
    return ImageContent(data=_png(part), media_type="image/png")


def _png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def _message(turn: Turn) -> Mapping[str, Any]:
    """Return a message as mlx-vlm takes it."""
    if not turn.images:
        return {"role": turn.role, "content": "".join(map(str, turn.parts))}
    content: Sequence[Any] = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
        for part in turn.parts
    ]
    return {"role": turn.role, "content": content}


def _key(part: Part) -> Any:
    return part if isinstance(part, str) else (part.size, part.tobytes())
