"""A recording, transcribed window by window.

The rules are those of Whisper's ``transcribe`` (Radford et al. 2023, section 4.5), as mlx-audio has
them: a window whose text is repetitive or improbable is decoded again at a higher temperature, one
without speech is left out, and the next window begins at the last complete segment. Each pass is
one call on the model thread, so that other requests take turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from .errors import DecodingCancelledError
from .options import TranscriptionOptions
from .results import TranscriptSegment, TranscriptWord
from .segments import FRAMES_PER_SECOND, Span, WindowSpans, split_window
from .whisper import (
    SAMPLE_RATE,
    WINDOW_FRAMES,
    DecodedWindow,
    Whisper,
)

_MAX_CONDITIONED_TEMPERATURE = 0.5
"""The text of a window with a higher temperature is no prompt for the next one."""


@dataclass(slots=True)
class WindowLoop:
    """Transcribes a recording without constraints.

    Args:
        whisper: The model.
        samples: The recording, shape (samples,), at ``SAMPLE_RATE``.
        options: The options.
        run: Runs a call on the model thread and returns its result.
        is_cancelled: Asked before each token.

    Attributes:
        language: Code of the spoken language; ``None`` until it is detected.
        seconds_done: Seconds that are transcribed.
        is_finished: Whether all windows are transcribed.
        prompt_tokens: Tokens of the prompts of all windows, once for each temperature.
        completion_tokens: Tokens that were decoded.
        encoder_seconds: Time of spectrograms and the encoder.
        decoder_seconds: Time of the decoder.
    """

    whisper: Whisper
    samples: npt.NDArray[np.float32]
    options: TranscriptionOptions
    run: Callable[[Callable[[], Any]], Any]
    is_cancelled: Callable[[], bool]
    language: str | None = None
    seconds_done: float = 0.0
    is_finished: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    encoder_seconds: float = 0.0
    decoder_seconds: float = 0.0
    _text_tokens: list[int] = field(default_factory=list)
    _last_speech: float = 0.0

    def __iter__(self) -> Iterator[list[TranscriptSegment]]:
        """Transcribe; yields the segments of each window.

        Raises:
            DecodingCancelledError: It was cancelled.
        """
        options = self.options
        self.language = self.whisper.language_code(options.language, options.task)
        started = time.perf_counter()
        spectrogram = self.whisper.spectrogram(self.samples, self.run)
        self.encoder_seconds += time.perf_counter() - started
        tokenizer = self.run(self.whisper.tokenizer)
        if options.prompt.strip():
            text = " " + options.prompt.strip()
            self._text_tokens = self.run(lambda: tokenizer.encode(text))
        total = len(self.samples) * FRAMES_PER_SECOND // SAMPLE_RATE
        first = 0
        while first < total:
            if self.is_cancelled():
                raise DecodingCancelledError
            frames = min(WINDOW_FRAMES, total - first)
            segments, advanced = self._window(spectrogram, tokenizer, first, frames)
            first += advanced
            is_last = first >= total
            self.seconds_done = (
                len(self.samples) / SAMPLE_RATE if is_last else first / FRAMES_PER_SECOND
            )
            yield segments
        self.is_finished = True

    def _window(
        self, spectrogram: mx.array, tokenizer: Any, first: int, frames: int
    ) -> tuple[list[TranscriptSegment], int]:
        """Transcribe a window; returns its segments, and its transcribed frames."""
        whisper, options = self.whisper, self.options
        started = time.perf_counter()
        states = self.run(lambda: whisper.encode(whisper.window(spectrogram, first, frames)))
        if self.language is None:
            self.language = self.run(lambda: whisper.detect_language(states))
        self.encoder_seconds += time.perf_counter() - started
        decoded = self._decode(states, first)
        if self._is_silent(decoded):
            return [], frames
        if options.timestamps == "none":
            division = WindowSpans((Span(0, frames, decoded.tokens),), frames, is_complete=True)
        else:
            division = split_window(decoded.tokens, whisper.first_timestamp, frames)
        found = [
            {
                "seek": first,
                "start": (first + span.start) / FRAMES_PER_SECOND,
                "end": (first + span.end) / FRAMES_PER_SECOND,
                "tokens": list(span.tokens),
            }
            for span in division.spans
        ]
        advanced = division.frames
        if options.timestamps == "word":
            advanced = self._add_words(found, states, first, frames, division)
        duration = len(self.samples) / SAMPLE_RATE
        segments = self.run(lambda: [_segment(one, decoded, tokenizer, duration) for one in found])
        segments = [one for one in segments if one is not None]
        self._remember(segments, decoded)
        return segments, advanced

    def _decode(self, states: mx.array, first: int) -> DecodedWindow:
        """Decode a window at one temperature after the other, until its text is accepted."""
        options = self.options
        for number, temperature in enumerate(options.temperatures):
            seed = np.random.SeedSequence((options.seed, first, number)).generate_state(1)
            started = time.perf_counter()
            decode = partial(
                self.whisper.decode,
                states,
                language=self.language or "en",
                task=options.task,
                prompt=self._text_tokens,
                temperature=temperature,
                timestamps=options.timestamps != "none",
                seed=int(seed[0]),
                is_cancelled=self.is_cancelled,
            )
            decoded: DecodedWindow = self.run(decode)
            self.decoder_seconds += time.perf_counter() - started
            self.prompt_tokens += decoded.prompt_tokens
            self.completion_tokens += len(decoded.tokens) + 1
            if not self._is_bad(decoded):
                break
        return decoded

    def _is_bad(self, decoded: DecodedWindow) -> bool:
        options = self.options
        if self._is_improbable(decoded):
            limit = options.no_speech_threshold
            # Silence: there is no better text.
            return limit is None or not decoded.no_speech_prob > limit
        ratio = options.compression_ratio_threshold
        return ratio is not None and decoded.compression_ratio > ratio

    def _is_improbable(self, decoded: DecodedWindow) -> bool:
        limit = self.options.logprob_threshold
        return limit is not None and not decoded.avg_logprob >= limit

    def _is_silent(self, decoded: DecodedWindow) -> bool:
        options = self.options
        limit = options.no_speech_threshold
        if limit is None or not decoded.no_speech_prob > limit:
            return False
        return options.logprob_threshold is None or self._is_improbable(decoded)

    def _add_words(
        self,
        found: list[dict[str, Any]],
        states: mx.array,
        first: int,
        frames: int,
        division: WindowSpans,
    ) -> int:
        """Add words to segments; returns where the next window begins, behind the last word."""
        self.run(
            lambda: self.whisper.add_words(
                found,
                states,
                frames,
                language=self.language or "en",
                task=self.options.task,
                last_speech=self._last_speech,
            )
        )
        ends = [word["end"] for one in found for word in one.get("words", ())]
        last_end = ends[-1] if ends else found[-1]["end"]
        self._last_speech = last_end
        if division.is_complete:
            return division.frames
        behind = round(last_end * FRAMES_PER_SECOND) - first
        return min(behind, frames) if behind > 0 else division.frames

    def _remember(self, segments: Sequence[TranscriptSegment], decoded: DecodedWindow) -> None:
        """Keep the text as the prompt of the next window."""
        options = self.options
        self._text_tokens += [token for one in segments for token in one.tokens]
        if not options.condition_on_previous_text or (
            decoded.temperature > _MAX_CONDITIONED_TEMPERATURE
        ):
            self._text_tokens.clear()


def _segment(
    found: dict[str, Any], decoded: DecodedWindow, tokenizer: Any, duration: float
) -> TranscriptSegment | None:
    """Return a segment; ``None`` if it has no text or takes no time.

    A model may write times beyond the end of the recording, in the silence that fills its window.
    """
    text = tokenizer.decode([token for token in found["tokens"] if token < tokenizer.eot])
    if not text.strip() or found["start"] == found["end"]:
        return None
    return TranscriptSegment(
        start=min(found["start"], duration),
        end=min(found["end"], duration),
        text=text,
        tokens=tuple(found["tokens"]),
        window_start=found["seek"] / FRAMES_PER_SECOND,
        temperature=decoded.temperature,
        avg_logprob=_finite(decoded.avg_logprob),
        compression_ratio=decoded.compression_ratio,
        no_speech_prob=_finite(decoded.no_speech_prob),
        words=tuple(
            TranscriptWord(
                one["word"],
                min(one["start"], duration),
                min(one["end"], duration),
                one["probability"],
            )
            for one in found.get("words", ())
        ),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
