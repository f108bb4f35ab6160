"""Audio recordings as samples, within limits on size and length."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import MediaError
from . import MediaOptions
from .audio_decoding import (
    READABLE_FORMATS,
    WAV,
    AudioFormat,
    Samples,
    audio_format,
    decode,
    is_wav_cut_off,
    mono_samples,
    resampled,
)
from .sources import MediaSource, check_size, read_source

AudioSource: TypeAlias = (
    bytes
    | bytearray
    | memoryview
    | str
    | os.PathLike[str]
    | MediaSource
    | tuple[npt.ArrayLike, int]
)
"""The content of an audio file, its path, a part of a message such as ``AudioContent``, or an array
with its sample rate in Hz."""

_LIMIT = "max_audio_bytes"


@dataclass(frozen=True, slots=True)
class LoadedAudio:
    """A recording as a model reads it.

    Attributes:
        samples: Shape (samples,), float32, mono, between -1 and 1.
        sample_rate: Samples per second.
        digest: Identifies samples and sample rate.
    """

    samples: Samples = field(repr=False)
    sample_rate: int
    digest: bytes = field(repr=False)

    @property
    def duration(self) -> float:
        """The length in seconds."""
        return len(self.samples) / self.sample_rate


def load_audio(
    source: AudioSource,
    options: MediaOptions,
    sample_rate: int = 16_000,
) -> LoadedAudio:
    """Return a recording as mono samples at a sample rate.

    Args:
        source: The recording. An array has shape (samples,) or (samples, channels). Floats are
            between -1 and 1; integers use the range of their type.
        options: The limits.
        sample_rate: The sample rate of the result, in Hz.

    Raises:
        MediaError: The source cannot be read, is no audio file, is damaged, or exceeds a limit.
        MissingExtraError: The extra ``audio`` is not installed.
    """
    if isinstance(source, tuple):
        samples = _from_array(source, options, sample_rate)
    else:
        data = _read(source, options)
        found = _recognised(data)
        samples = decode(data, found, options.max_audio_seconds, sample_rate)
    digest = hashlib.blake2b(samples.data, digest_size=16, salt=sample_rate.to_bytes(8, "big"))
    return LoadedAudio(samples, sample_rate, digest.digest())


def _read(source: Any, options: MediaOptions) -> bytes:
    """Return the bytes of a source, whose number is checked first."""
    if isinstance(source, bytes | bytearray | memoryview):
        check_size("audio", memoryview(source).nbytes, options.max_audio_bytes, _LIMIT)
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        return _read_file(os.fspath(source), options.max_audio_bytes)
    if getattr(source, "kind", None) == "audio":
        return read_source(source, options)
    raise MediaError(
        f"audio should be bytes, a path, AudioContent or (array, sample_rate), "
        f"not {type(source).__name__}"
    )


def _read_file(path: str, max_bytes: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            check_size("audio", os.fstat(file.fileno()).st_size, max_bytes, _LIMIT)
            # A pipe has no size.
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, MediaError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise MediaError(f"cannot read the audio file {path!r}: {reason}") from error
    check_size("audio", len(data), max_bytes, _LIMIT)
    return data


def _recognised(data: bytes) -> AudioFormat:
    if not data:
        raise MediaError("the audio is empty: 0 bytes")
    found = audio_format(data)
    if found is None:
        raise MediaError("the audio is of no known format", hint=f"Formats are {READABLE_FORMATS}.")
    if found is WAV and is_wav_cut_off(data):
        raise MediaError(f"the WAV audio is cut off after {len(data):,} bytes")
    return found


def _from_array(
    source: tuple[npt.ArrayLike, int], options: MediaOptions, sample_rate: int
) -> Samples:
    mono, rate = mono_samples(source, options.max_audio_seconds)
    return np.ascontiguousarray(resampled(mono, rate, sample_rate), np.float32)
