"""A recording, transcribed by mlx-audio's ``generate``, a window at a time.

``generate`` returns after the whole recording. Here each call transcribes one window, so that
segments are available when their window is transcribed, and a call on the model thread decodes a
window once, at one temperature, so that other requests take turns. The segments are those of one
call for the whole recording, except that the times of words do not depend on the window before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_audio.stt.models.whisper import Model
from mlx_audio.stt.models.whisper.audio import FRAMES_PER_SECOND
from mlx_audio.stt.models.whisper.decoding import (
    ApplyTimestampRules,
    DecodingOptions,
    DecodingResult,
    DecodingTask,
    LogitFilter,
)

from . import TranscriptionOptions
from .results import DecodingCancelledError, TranscriptSegment, TranscriptWord
from .whisper import SAMPLE_RATE, WINDOW_FRAMES, Whisper

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
        decoder_seconds: Time of the decoder, and of the times of words.
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

    def __iter__(self) -> Iterator[list[TranscriptSegment]]:
        """Transcribe; yields the segments of each window.

        Raises:
            DecodingCancelledError: It was cancelled.
        """
        options, whisper = self.options, self.whisper
        self.language = whisper.language_code(options.language, options.task)
        started = time.perf_counter()
        spectrogram = whisper.spectrogram(self.samples, self.run)
        self.encoder_seconds += time.perf_counter() - started
        if options.prompt.strip():
            text = " " + options.prompt.strip()
            self._text_tokens = self.run(lambda: whisper.tokenizer().encode(text))
        total = len(self.samples) * FRAMES_PER_SECOND // SAMPLE_RATE
        duration = len(self.samples) / SAMPLE_RATE
        first = 0
        while first < total:
            if self.is_cancelled():
                raise DecodingCancelledError
            frames = min(WINDOW_FRAMES, total - first)
            found, first = self._window(spectrogram, first, frames)
            self.seconds_done = duration if first >= total else first / FRAMES_PER_SECOND
            yield [_segment(segment, duration) for segment in found if segment["text"]]
        self.is_finished = True

    def _window(
        self, spectrogram: mx.array, first: int, frames: int
    ) -> tuple[list[dict[str, Any]], int]:
        """Return mlx-audio's segments of a window, and the first frame of the next one."""
        whisper = self.whisper
        started = time.perf_counter()
        states = self.run(lambda: whisper.encode(whisper.window(spectrogram, first, frames)))
        if self.language is None:
            self.language = self.run(lambda: whisper.detect_language(states))
        self.encoder_seconds += time.perf_counter() - started
        started = time.perf_counter()
        window = _Window(self, states, spectrogram, first, frames)
        segments = None
        while segments is None:
            segments = self.run(window.segments)
        self.decoder_seconds += time.perf_counter() - started
        rest = segments.pop()["seek"] if window.has_rest else first
        # Each window advances, whatever the model writes.
        following = rest if rest > first else first + frames
        self._text_tokens += [token for segment in segments for token in segment["tokens"]]
        temperature = window.decoded[-1].temperature
        if not self.options.condition_on_previous_text or (
            temperature > _MAX_CONDITIONED_TEMPERATURE
        ):
            self._text_tokens.clear()
        return segments, following


class _EndOfTurnError(Exception):
    """The window has to be decoded again, at another temperature."""


class _Window:
    """The model of one window for ``generate``. Other attributes are those of mlx-audio's model.

    Args:
        loop: The recording.
        states: The encoder's output for the window.
        spectrogram: The spectrogram of the recording.
        first: The first frame of the window.
        frames: Their number.

    Attributes:
        decoded: The transcripts of the window, one for each temperature.
        has_rest: Whether the transcript ends before the window.
    """

    def __init__(
        self, loop: WindowLoop, states: mx.array, spectrogram: mx.array, first: int, frames: int
    ) -> None:
        self._loop = loop
        self._model = loop.whisper.model
        self._states = states
        self._spectrogram = spectrogram
        self._first = first
        self._frames = frames
        self._calls = 0
        self._can_decode = True
        self.decoded: list[DecodingResult] = []
        self.has_rest = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def segments(self) -> list[dict[str, Any]] | None:
        """Transcribe the window on the model thread, in one turn.

        Returns:
            The segments as mlx-audio returns them. If ``has_rest``, the last one begins at the rest
            and has no text. ``None`` if another turn is necessary.

        Raises:
            DecodingCancelledError: It was cancelled.
        """
        options = self._loop.options
        self._calls, self._can_decode = 0, True
        try:
            output = Model.generate(
                self,
                self._spectrogram,
                language=self._loop.language,
                task=options.task,
                temperature=options.temperatures,
                compression_ratio_threshold=options.compression_ratio_threshold,
                logprob_threshold=options.logprob_threshold,
                no_speech_threshold=options.no_speech_threshold,
                return_timestamps=options.timestamps != "none",
                word_timestamps=options.timestamps == "word",
                clip_timestamps=[
                    self._first / FRAMES_PER_SECOND,
                    (self._first + self._frames) / FRAMES_PER_SECOND,
                ],
                fp16=self._states.dtype == mx.float16,
            )
        except _EndOfTurnError:
            return None
        found: list[dict[str, Any]] = output.segments
        return found

    def _prepare_audio(self, audio: mx.array) -> tuple[mx.array, int]:
        """Return a spectrogram, which is computed already, and the number of its frames.

        A private method of mlx-audio (0.6), whose public arguments take samples only. From those of
        one window, ``generate`` would compute another spectrogram, since its scale depends on the
        loudest frame of the recording, and again for each temperature.
        """
        return audio, audio.shape[0] - WINDOW_FRAMES

    def forward_with_cross_qk(self, mel: mx.array, tokens: mx.array) -> tuple[mx.array, Any]:
        """Return the logits and attention of the window, which is encoded already."""
        logits, _, attention = self._model.decoder(tokens, self._states)
        return logits, attention

    def decode(self, mel: mx.array, options: DecodingOptions) -> DecodingResult:
        """Decode the window at the next temperature; its rest is left to the next window."""
        number, self._calls = self._calls, self._calls + 1
        if number and options.temperature == self._loop.options.temperatures[0]:
            self.has_rest = True
            return DecodingResult(None, options.language)
        if number == len(self.decoded):
            if not self._can_decode:
                raise _EndOfTurnError
            self._can_decode = False
            self.decoded.append(self._decode(options, number))
        return self.decoded[number]

    def _decode(self, options: DecodingOptions, number: int) -> DecodingResult:
        loop = self._loop
        options = replace(options, prompt=list(loop._text_tokens) or None)
        task = DecodingTask(self._model, options)
        if not options.without_timestamps:
            rules = task.logit_filters[-1]
            task.logit_filters[-1] = TimestampRules(
                rules.tokenizer, rules.sample_begin, rules.max_initial_timestamp_index
            )
        task.logit_filters.append(_CancellationCheck(loop.is_cancelled))
        # mlx's random state is that of the thread, whose other users give their own keys.
        seed = np.random.SeedSequence((loop.options.seed, self._first, number))
        mx.random.seed(int(seed.generate_state(1)[0]))
        (result,) = task.run(self._states)
        loop.prompt_tokens += task.sample_begin
        loop.completion_tokens += len(result.tokens) + 1
        return result


class _CancellationCheck(LogitFilter):  # type: ignore[misc]
    """Changes no logits; stops decoding when it is cancelled."""

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled = is_cancelled

    def apply(self, logits: mx.array, tokens: mx.array) -> mx.array:
        if self._is_cancelled():
            raise DecodingCancelledError
        return logits


def _segment(found: dict[str, Any], duration: float) -> TranscriptSegment:
    """Return a segment of mlx-audio.

    A model may write times beyond the end of the recording, in the silence that fills its window.
    """
    return TranscriptSegment(
        start=min(found["start"], duration),
        end=min(found["end"], duration),
        text=found["text"],
        tokens=tuple(found["tokens"]),
        window_start=found["seek"] / FRAMES_PER_SECOND,
        temperature=found["temperature"],
        avg_logprob=_finite(found["avg_logprob"]),
        compression_ratio=found["compression_ratio"],
        no_speech_prob=_finite(found["no_speech_prob"]),
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


class TimestampRules(ApplyTimestampRules):  # type: ignore[misc]
    """The rules of OpenAI's decoder: timestamps come in pairs and never decrease.

    In OpenAI's ``whisper/decoding.py``, probabilities are compared after the rules have excluded
    tokens, and a timestamp is never smaller than the last one. mlx-audio 0.6.2 compares before,
    which can exclude all tokens, so that it writes token 0 (``!``), and it compares timestamps with
    the index of the last one.
    """

    def apply(self, logits: mx.array, tokens: mx.array) -> mx.array:
        """Exclude tokens.

        Args:
            logits: Shape (1, vocabulary).
            tokens: The tokens so far, shape (1, tokens).

        Returns:
            The logits, ``-inf`` for excluded tokens.
        """
        first = self.tokenizer.timestamp_begin
        written = cast(list[int], tokens[0, self.sample_begin :].tolist())
        allowed = np.zeros(logits.shape[-1], np.float32)
        allowed[self._excluded(written, len(allowed))] = -np.inf
        logits = logits + mx.array(allowed)
        of_text = logits[:, :first].max(axis=-1, keepdims=True)
        of_times = mx.logsumexp(logits[:, first:], axis=-1, keepdims=True)
        # The probability of all timestamps together decides between text and a timestamp.
        text = mx.where(of_times > of_text, -mx.inf, logits[:, :first])
        return mx.concatenate([text, logits[:, first:]], axis=-1)

    def _excluded(self, written: Sequence[int], width: int) -> npt.NDArray[np.bool_]:
        """Return the mask of the tokens that must not come next, shape (vocabulary,)."""
        first = self.tokenizer.timestamp_begin
        excluded = np.zeros(width, np.bool_)
        if self.tokenizer.no_timestamps is not None:
            excluded[self.tokenizer.no_timestamps] = True
        if not written:
            excluded[:first] = True
            if self.max_initial_timestamp_index is not None:
                excluded[first + self.max_initial_timestamp_index + 1 :] = True
            return excluded
        opens = written[-1] >= first and (len(written) < 2 or written[-2] >= first)
        closes = written[-1] >= first and not opens
        if opens:
            excluded[first:] = True
        if closes:
            excluded[: self.tokenizer.eot] = True
        times = [token for token in written if token >= first]
        # A segment that is not empty takes some time.
        smallest = times[-1] if closes else times[-1] + 1
        excluded[first:smallest] = True
        return excluded
