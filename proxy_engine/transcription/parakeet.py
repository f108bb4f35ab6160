"""A Parakeet model: NVIDIA's FastConformer with a CTC, RNN-T or TDT decoder, by mlx-audio.

Its decoder aligns tokens with the recording and is no language model, so that mlx-audio transcribes
on its own, and nothing can be constrained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import KVCache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from ..errors import InvalidOptionError
from . import TranscriptionOptions
from .results import TranscriptSegment, TranscriptWord

_CHUNK_SECONDS = 120.0
"""Length of the parts of a recording that are computed at once."""

_OVERLAP_SECONDS = 15.0
"""Overlap of parts, in which mlx-audio joins their tokens."""


class Parakeet:
    """A Parakeet model. To be used on the thread that runs the model.

    Args:
        model: A model of ``mlx_audio.stt.models.parakeet``.

    Attributes:
        decoder: Stands in for a language model, which the engine's loop requires.
        engine_tokenizer: Its tokenizer.
    """

    context_length = None

    def __init__(self, model: Any) -> None:
        self._model = model
        self.decoder = _NoLanguageModel(model)
        make: Callable[..., PreTrainedTokenizerFast] = PreTrainedTokenizerFast
        backend = Tokenizer(models.WordLevel({"</s>": 0, " ": 1}, unk_token=" "))
        backend.decoder = decoders.Fuse()
        self.engine_tokenizer = TokenizerWrapper(make(tokenizer_object=backend, eos_token="</s>"))

    @property
    def sample_rate(self) -> int:
        """Samples per second of recordings. For any thread."""
        return int(self._model.preprocessor_config.sample_rate)

    def positions(self, samples: npt.NDArray[np.float32]) -> int:
        """Return how many positions of the encoder a recording takes. For any thread."""
        hop = int(self._model.preprocessor_config.hop_length)
        return -(-len(samples) // (hop * int(self._model.encoder_config.subsampling_factor)))

    def check(self, options: TranscriptionOptions) -> None:
        """Raise ``InvalidOptionError`` for options that the model ignores. For any thread."""
        for name in ("language", "prompt"):
            if getattr(options, name):
                raise InvalidOptionError(f"a Parakeet model takes no {name}", option=name)
        if options.task != "transcribe":
            raise InvalidOptionError("a Parakeet model does not translate", option="task")

    def transcribe(
        self,
        samples: npt.NDArray[np.float32],
        timestamps: str,
        on_samples: Callable[[int, int], None],
    ) -> list[TranscriptSegment]:
        """Transcribe a recording.

        Args:
            samples: Shape (samples,), at ``sample_rate``.
            timestamps: As in ``TranscriptionOptions``.
            on_samples: Called before each part with its end and the length of the recording. What
                it raises ends the transcription.
        """
        # The encoder reduces the frames of a shorter one to nothing.
        padding = max(0, self.sample_rate - len(samples))
        result = self._model.generate(
            mx.array(np.pad(samples, (0, padding))),
            dtype=mx.float32,
            chunk_duration=_CHUNK_SECONDS,
            overlap_duration=_OVERLAP_SECONDS,
            chunk_callback=on_samples,
        )
        duration = len(samples) / self.sample_rate
        if timestamps == "none":
            return [TranscriptSegment(0.0, duration, result.text)] if result.text else []
        return [
            TranscriptSegment(
                min(float(one.start), duration),
                min(float(one.end), duration),
                one.text,
                tokens=tuple(int(token.id) for token in one.tokens),
                words=tuple(_words(one.tokens, duration)) if timestamps == "word" else (),
            )
            for one in result.sentences
            if one.text.strip()
        ]


def _words(tokens: Sequence[Any], duration: float) -> Iterable[TranscriptWord]:
    """Join the tokens of a sentence to words, which begin with a space."""
    words: list[list[Any]] = []
    for token in tokens:
        if not words or token.text.startswith(" "):
            words.append([])
        words[-1].append(token)
    for word in words:
        text = "".join(token.text for token in word)
        start, end = float(word[0].start), float(word[-1].end)
        yield TranscriptWord(text, min(start, duration), min(end, duration), None)


class _NoLanguageModel(Module):
    """The form of a language model, with logits of zero. No request runs it."""

    def __init__(self, model: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parakeet = model

    def __call__(self, tokens: mx.array, cache: Sequence[Any] | None = None) -> mx.array:
        return mx.zeros((*tokens.shape, 2))

    def make_cache(self) -> list[Any]:
        return [KVCache()]
