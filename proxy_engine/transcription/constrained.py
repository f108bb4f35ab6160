"""A recording of one window as a prompt of the engine's loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..conversation.prompts import EncodedPrompt
from ..media.audio import LoadedAudio
from .options import TranscriptionOptions
from .whisper import WINDOW_FRAMES, Whisper, WindowInputs


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
