"""Samples as WAV files."""

from __future__ import annotations

import io
import wave

import numpy as np
import numpy.typing as npt

from .samples import mono_samples


def encode_wav(samples: npt.ArrayLike, sample_rate: int) -> bytes:
    """Return samples as a WAV file of one channel and 16 bits.

    Args:
        samples: Shape (samples,) or (samples, channels). Floats are between -1 and 1; integers use
            the range of their type.
        sample_rate: Samples per second.

    Raises:
        MediaError: The samples are malformed.
    """
    # Limits apply where the file is read.
    mono, _ = mono_samples((samples, sample_rate))
    pcm = np.clip(np.round(mono * 32_768), -32_768, 32_767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(pcm.tobytes())
    return file.getvalue()
