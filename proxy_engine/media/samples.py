"""Arrays of samples, and samples as WAV files."""

from __future__ import annotations

import io
import math
import wave

import numpy as np
import numpy.typing as npt

from ..errors import MediaError
from .audio_decoding import Samples, check_duration, check_sample_rate

_MAX_CHANNELS = 32


def mono_samples(
    source: tuple[npt.ArrayLike, int], max_seconds: float = math.inf
) -> tuple[Samples, int]:
    """Return the samples of an array, float32, shape (samples,), and the sample rate.

    Args:
        source: The array, of shape (samples,) or (samples, channels), and its sample rate in Hz.
            Floats are between -1 and 1; integers use the range of their type.
        max_seconds: Maximum length.

    Raises:
        MediaError: The array is malformed, or too long.
    """
    if len(source) != 2 or not isinstance(source[1], int | np.integer):
        raise MediaError("an array of audio should be given as (array, sample_rate)")
    rate = int(source[1])
    check_sample_rate(rate)
    try:
        array = np.asarray(source[0])
    except (TypeError, ValueError) as error:
        raise MediaError(f"the audio is no array: {error}") from error
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] > _MAX_CHANNELS):
        raise MediaError(
            f"audio should have shape (samples,) or (samples, channels), not {array.shape}"
        )
    if not array.size:
        raise MediaError("the audio has no samples")
    check_duration(len(array) / rate, max_seconds)
    samples = _as_floats(array)
    mono = samples if samples.ndim == 1 else samples.mean(axis=1)
    if not np.isfinite(mono).all():
        raise MediaError("the audio has samples that are NaN or infinite")
    return mono.astype(np.float32, copy=False), rate


def _as_floats(array: npt.NDArray[np.generic]) -> Samples:
    """Return a copy of the samples between -1 and 1."""
    kind = array.dtype.kind
    if kind == "f":
        return array.astype(np.float32)
    if kind not in "iu":
        raise MediaError(f"audio samples should be floats or integers, not {array.dtype}")
    half = 2.0 ** (8 * array.dtype.itemsize - 1)
    centred = array.astype(np.float64) - (half if kind == "u" else 0.0)
    return (centred / half).astype(np.float32)


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
