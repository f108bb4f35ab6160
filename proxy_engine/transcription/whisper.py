"""A Whisper model: mlx-audio's, and its decoder in the form of the engine's loop.

mlx-audio computes the log-mel spectrogram and the encoder, and transcribes without constraints
(:mod:`~proxy_engine.transcription.windows`, with our rules of timestamps). Ours is also the
decoder with mlx-lm's cache layers (:mod:`~proxy_engine.transcription.whisper_decoder`), which the
loop runs for constrained transcripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_audio.stt.models.whisper import audio as whisper_audio
from mlx_audio.stt.models.whisper.decoding import DecodingOptions, DecodingTask
from mlx_audio.stt.models.whisper.tokenizer import TO_LANGUAGE_CODE
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from ..conversation.prompts import EncodedPrompt
from ..errors import InvalidOptionError
from ..media.audio import LoadedAudio
from . import TranscriptionOptions
from .whisper_decoder import WhisperDecoder

SAMPLE_RATE: int = whisper_audio.SAMPLE_RATE
"""Samples per second."""

WINDOW_FRAMES: int = whisper_audio.N_FRAMES
"""Frames of a window, 30 seconds."""

_BLOCK_FRAMES = 30_000
_MARGIN_FRAMES = 2
"""Frames beside a block whose samples overlap with the samples of the block's frames."""

_DYNAMIC_RANGE = 2.0
"""Distance from the maximum at which mlx-audio clips spectrograms: 80 dB in its scale."""


def _call(function: Callable[[], Any]) -> Any:
    return function()


class Whisper:
    """A Whisper model. To be used on the thread that runs the model, where nothing else is stated.

    Args:
        model: ``mlx_audio.stt.models.whisper.Model`` with its processor.

    Attributes:
        model: mlx-audio's model.
        decoder: The decoder as a language model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.decoder = WhisperDecoder(model)

    @property
    def context_length(self) -> int:
        """Maximum number of tokens of prompt and transcript. For any thread."""
        return int(self.model.dims.n_text_ctx)

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that can be chosen; empty for an English model. For any thread."""
        if not self.model.is_multilingual:
            return ()
        return tuple(self.model.get_tokenizer().all_language_codes)

    def language_code(self, language: str | None, task: str) -> str | None:
        """Return the code of a language; ``None`` if it has to be detected. For any thread.

        Raises:
            InvalidOptionError: The model does not know the language, or does not translate.
        """
        languages = self.languages
        if task == "translate" and not languages:
            raise InvalidOptionError("the model knows English only", option="task")
        if language is None:
            return None if languages else "en"
        code = language.strip().lower()
        code = str(TO_LANGUAGE_CODE.get(code, code))
        if code not in (languages or ("en",)):
            raise InvalidOptionError(
                f"the model does not know the language {language!r}",
                option="language",
                hint=f"Known are {', '.join(languages or ('en',))}.",
            )
        return code

    def tokenizer(self, language: str | None = None, task: str = "transcribe") -> Any:
        """Return mlx-audio's tokenizer."""
        return self.model.get_tokenizer(language=language, task=task)

    @cached_property
    def engine_tokenizer(self) -> TokenizerWrapper:
        """A copy of the tokenizer for masks, in which all tokens but text are special."""
        return TokenizerWrapper(_without_timestamps(self.model._processor.tokenizer))

    def spectrogram(
        self, samples: npt.NDArray[np.float32], run: Callable[[Callable[[], Any]], Any] = _call
    ) -> mx.array:
        """Return the log-mel spectrogram of a recording, followed by a window of silence.

        It is computed in blocks, since the Fourier transform takes ten times its memory.

        Args:
            samples: Shape (samples,), at ``SAMPLE_RATE``.
            run: Runs a call on the model thread, one for each block, so that other requests take
                turns. By default, this is the model thread.

        Returns:
            Shape (frames, mel bands).
        """
        padded = np.pad(samples, (0, whisper_audio.N_SAMPLES))
        starts = range(0, len(padded), _BLOCK_FRAMES * whisper_audio.HOP_LENGTH)
        blocks = [run(partial(self._block, padded, start)) for start in starts]

        def joined() -> mx.array:
            frames = mx.concatenate(blocks)
            # Each block is clipped at a distance from its maximum, which is at most that of all.
            frames = mx.maximum(frames, frames.max() - _DYNAMIC_RANGE)
            mx.eval(frames)
            return frames

        frames: mx.array = run(joined)
        return frames

    def _block(self, samples: npt.NDArray[np.float32], start: int) -> mx.array:
        """Return the frames of one block of samples."""
        hop = whisper_audio.HOP_LENGTH
        margin = min(start, _MARGIN_FRAMES * hop)
        end = start + (_BLOCK_FRAMES + _MARGIN_FRAMES) * hop
        frames: mx.array = whisper_audio.log_mel_spectrogram(
            samples[start - margin : end], n_mels=self.model.dims.n_mels
        )
        first = margin // hop
        block = frames[first : first + _BLOCK_FRAMES]
        mx.eval(block)
        return block

    def window(self, spectrogram: mx.array, first: int, frames: int) -> mx.array:
        """Return a part of a spectrogram, padded to a window, shape (frames, mel bands)."""
        part = spectrogram[first : first + frames]
        padded = whisper_audio.pad_or_trim(part, WINDOW_FRAMES, axis=-2)
        window: mx.array = padded.astype(self.model.encoder.conv1.weight.dtype)
        return window

    @staticmethod
    def positions(samples: npt.NDArray[np.float32]) -> int:
        """Return how many positions of the encoder a recording takes, 50 a second."""
        return -(-len(samples) // int(whisper_audio.N_SAMPLES_PER_TOKEN))

    def encode(self, window: mx.array) -> mx.array:
        """Return the encoder's output of a window, shape (1, positions, width)."""
        states: mx.array = self.model.encoder(window[None])
        mx.eval(states)
        return states

    def detect_language(self, states: mx.array) -> str:
        """Return the code of the most probable language."""
        _, probabilities = self.model.detect_language(states)
        of_language: Mapping[str, float] = probabilities[0]
        return max(of_language, key=lambda code: of_language[code])

    def no_speech_prob(self, states: mx.array, tokens: Sequence[int]) -> float | None:
        """Return the probability that a window has no speech; ``None`` if no token states it.

        Args:
            states: The encoder's output.
            tokens: The prompt of the decoder.
        """
        tokenizer = self.tokenizer()
        if tokenizer.no_speech is None:
            return None
        start = list(tokens[: list(tokens).index(tokenizer.sot) + 1])
        cache = self.decoder.make_cache()
        self.decoder.attend_to(states, cache)
        logits = self.decoder(mx.array([start]), cache)[0, -1].astype(mx.float32)
        return float(np.array(mx.softmax(logits))[tokenizer.no_speech])

    def prompt_tokens(self, language: str, task: str, prompt: str) -> list[int]:
        """Return the tokens before a transcript without timestamps."""
        options = DecodingOptions(
            task=task, language=language, prompt=prompt or None, without_timestamps=True
        )
        return list(DecodingTask(self.model, options).initial_tokens)


class WindowInputs:
    """The encoder's output as an input of a prompt (``PromptInputs``).

    Args:
        decoder: The decoder.
        states: The encoder's output.
    """

    media_end = 0
    single_pass_end = 0
    rope_delta = 0

    def __init__(self, decoder: WhisperDecoder, states: mx.array) -> None:
        self._decoder = decoder
        self._states = states

    def prepare(self, cache: list[Any], cached_tokens: int) -> None:
        """Store the keys and values of the encoder's output, unless a cached prefix has them."""
        if not cached_tokens:
            self._decoder.attend_to(self._states, cache)

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        """Return no arguments: all inputs are in the cache."""
        return {}

    def release(self) -> None:
        """Keep the encoder's output, which is small, for another prefill."""


def _without_timestamps(tokenizer: Any) -> PreTrainedTokenizerFast:
    """Return a copy of a tokenizer without the text form of timestamps.

    Added tokens that are not special are text, so that a grammar of any text would allow
    timestamps. The post-processor would add the tokens of a prompt.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content["post_processor"] = None
    for token in content["added_tokens"]:
        token["special"] = True
    backend = Tokenizer.from_str(json.dumps(content))
    make: Callable[..., PreTrainedTokenizerFast] = PreTrainedTokenizerFast
    return make(tokenizer_object=backend, eos_token=tokenizer.eos_token)


@dataclass(frozen=True, slots=True)
class EncodedRecording:
    """A recording that is encoded.

    Attributes:
        prompt: The prompt, whose inputs are the encoder's output.
        language: Code of the spoken language.
        no_speech_prob: Probability that it has no speech; ``None`` if no token states it.
    """

    prompt: EncodedPrompt
    language: str
    no_speech_prob: float | None


def encode_recording(
    whisper: Whisper, recording: LoadedAudio, language: str | None, options: TranscriptionOptions
) -> EncodedRecording:
    """Run the encoder on the first window of a recording. On the model thread.

    Args:
        whisper: The model.
        recording: The recording.
        language: Code of the spoken language; ``None``: it is detected.
        options: The options.
    """
    spectrogram = whisper.spectrogram(recording.samples)
    states = whisper.encode(whisper.window(spectrogram, 0, WINDOW_FRAMES))
    language = language or whisper.detect_language(states)
    token_ids = whisper.prompt_tokens(language, options.task, options.prompt)
    key = np.array(token_ids, np.int64)
    # All keys and values depend on the recording. A negative number is no token id.
    key[0] = -1 - (int.from_bytes(recording.digest[:8], "big") >> 1)
    return EncodedRecording(
        EncodedPrompt(token_ids, key, WindowInputs(whisper.decoder, states)),
        language,
        whisper.no_speech_prob(states, token_ids),
    )
