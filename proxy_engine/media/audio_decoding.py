"""Formats of audio files, and files and arrays as mono samples; WAV files.

A format is recognised by its content. A recording is decoded up to the longest permitted length.

Samples equal those of mlx-audio's ``load_audio``: miniaudio decodes to 16 bits and mixes the
channels, and mlx-audio resamples.
"""

from __future__ import annotations

import io
import math
import shutil
import struct
import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import MediaError
from ..runtime.extras import import_extra

_ID3_HEADER_BYTES = 10
# A program that writes to a pipe cannot complete the header. It states about the largest size.
_MIN_UNKNOWN_SIZE = 0x7FFF0000


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """A format of audio files.

    Attributes:
        name: Its name in messages.
        media_type: Its media type.
        decoder: The name of miniaudio's decoder; ``None`` if only ffmpeg decodes the format.
    """

    name: str
    media_type: str
    decoder: str | None = None


WAV = AudioFormat("WAV", "audio/wav", "wav")
FLAC = AudioFormat("FLAC", "audio/flac", "flac")
MP3 = AudioFormat("MP3", "audio/mpeg", "mp3")
# Vorbis or Opus. stb_vorbis, miniaudio's decoder of Vorbis, aborts the process for damaged files.
OGG = AudioFormat("Ogg", "audio/ogg")
MP4 = AudioFormat("M4A", "audio/mp4")
AAC = AudioFormat("AAC", "audio/aac")
WEBM = AudioFormat("WebM", "audio/webm")
AIFF = AudioFormat("AIFF", "audio/aiff")
CAF = AudioFormat("CAF", "audio/x-caf")

_FORMATS = (WAV, FLAC, MP3, OGG, MP4, AAC, WEBM, AIFF, CAF)

READABLE_FORMATS = (
    f"{', '.join(known.name for known in _FORMATS if known.decoder)}; with ffmpeg also "
    f"{', '.join(known.name for known in _FORMATS if not known.decoder)}"
)
"""The formats by decoder, for messages."""


def audio_format(data: bytes) -> AudioFormat | None:
    """Return the format of a file by its first bytes; ``None`` if no format begins so."""
    head = data[:64]
    if head[:3] == b"ID3" and len(data) >= _ID3_HEADER_BYTES:
        # FLAC and AAC can follow such a tag as well, but are rare.
        return _by_content(data[_tag_size(data) :][:64]) or MP3
    return _by_content(head)


def _by_content(head: bytes) -> AudioFormat | None:
    match head[:4]:
        case b"RIFF" if head[8:12] == b"WAVE":
            return WAV
        case b"fLaC":
            return FLAC
        case b"OggS":
            return OGG
        case b"FORM" if head[8:12] in (b"AIFF", b"AIFC"):
            return AIFF
        case b"\x1a\x45\xdf\xa3":
            return WEBM
        case b"caff":
            return CAF
    if head[4:8] == b"ftyp":
        return MP4
    if len(head) >= 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        # Both have this synchronization word. The layer of AAC is 0.
        return AAC if head[1] & 0x06 == 0 else MP3
    return None


def _tag_size(data: bytes) -> int:
    """Return the size of an ID3v2 tag, whose length is written in bytes of seven bits."""
    size = 0
    for byte in data[6:_ID3_HEADER_BYTES]:
        size = size << 7 | byte & 0x7F
    has_footer = data[5] & 0x10
    return size + _ID3_HEADER_BYTES * (2 if has_footer else 1)


def is_wav_cut_off(data: bytes) -> bool:
    """Whether a WAV file ends before its header says, which decoders do not report."""
    start = 12
    while start + 8 <= len(data):
        (size,) = struct.unpack_from("<I", data, start + 4)
        if data[start : start + 4] == b"data":
            return bool(len(data) - start - 8 < size < _MIN_UNKNOWN_SIZE)
        # Chunks begin at even offsets.
        start += 8 + size + size % 2
    return True


Samples: TypeAlias = npt.NDArray[np.float32]

_MIN_SAMPLE_RATE, _MAX_SAMPLE_RATE = 1_000, 768_000
# The length of the filter is proportional to this ratio, which is 441 from 44,100 to 16,000 Hz.
_MAX_RESAMPLING_RATIO = 20_000
# Encoders of MP3 count the frame of the header or not, and add a frame of delay.
_MP3_SLACK = 2 * 1152
_PCM_SCALE = np.float32(32_768)
_PURPOSE = "reading audio files"


def decode(data: bytes, found: AudioFormat, max_seconds: float, sample_rate: int) -> Samples:
    """Return the samples of a file, shape (samples,), at a sample rate in Hz.

    Raises:
        MediaError: The file is damaged, has no samples, or is longer than ``max_seconds``.
        MissingExtraError: The extra ``audio`` is not installed.
    """
    with_decoder = _with_ffmpeg if found.decoder is None else _with_miniaudio
    samples = with_decoder(data, found, max_seconds, sample_rate)
    if not len(samples):
        raise MediaError(f"the {found.name} audio has no samples")
    return samples


def check_sample_rate(rate: int) -> None:
    """Raise ``MediaError`` for a sample rate, in Hz, at which no audio is recorded."""
    if not _MIN_SAMPLE_RATE <= rate <= _MAX_SAMPLE_RATE:
        limits = f"{_MIN_SAMPLE_RATE:,} to {_MAX_SAMPLE_RATE:,} Hz"
        raise MediaError(f"the sample rate should be {limits}, not {rate:,} Hz")


def check_duration(seconds: float, max_seconds: float) -> None:
    """Raise ``MediaError`` for a recording that is longer than ``max_seconds``."""
    if seconds > max_seconds:
        raise _too_long(max_seconds)


def resampled(samples: Samples, rate: int, sample_rate: int) -> Samples:
    """Return samples of shape (samples,) at another rate; both rates are in Hz."""
    if rate == sample_rate:
        return samples
    if _is_ratio_too_large(rate, sample_rate):
        miniaudio = import_extra("audio", "miniaudio", purpose="resampling audio")
        form = miniaudio.SampleFormat.FLOAT32
        pcm = miniaudio.convert_frames(form, 1, rate, samples.tobytes(), form, 1, sample_rate)
        return np.frombuffer(pcm, np.float32)
    resample = import_extra("audio", "mlx_audio.resample", purpose="resampling audio")
    converted: Samples = resample.resample_audio_array(samples, rate, sample_rate)
    return converted


def _is_ratio_too_large(rate: int, sample_rate: int) -> bool:
    """Whether mlx-audio's filter would be too long; then miniaudio resamples, by interpolation."""
    return max(rate, sample_rate) // math.gcd(rate, sample_rate) > _MAX_RESAMPLING_RATIO


def _too_long(max_seconds: float) -> MediaError:
    return MediaError(
        f"the audio is longer than {max_seconds:,g} seconds",
        limit="max_audio_seconds",
        hint="The limit is max_audio_seconds of MediaOptions.",
    )


def _damaged(found: AudioFormat) -> MediaError:
    return MediaError(f"the {found.name} audio is damaged and cannot be decoded")


def _with_miniaudio(
    data: bytes, found: AudioFormat, max_seconds: float, sample_rate: int
) -> Samples:
    miniaudio = import_extra("audio", "miniaudio", purpose=_PURPOSE)
    resample = import_extra("audio", "mlx_audio.resample", purpose=_PURPOSE)
    try:
        # Reads headers only; of an MP3 file those of all frames.
        info = getattr(miniaudio, f"{found.decoder}_get_info")(data)
        check_sample_rate(info.sample_rate)
        check_duration(info.num_frames / info.sample_rate, max_seconds)
        rate = info.sample_rate
        if _is_ratio_too_large(rate, sample_rate):
            rate = sample_rate
        stream = miniaudio.stream_memory(data, nchannels=1, sample_rate=rate, frames_to_read=rate)
        pcm = _Pcm(stream, math.floor(max_seconds * rate), max_seconds)
        # A FLAC file written to a pipe has no length in its header.
        frames = info.num_frames * rate // info.sample_rate or pcm.max_frames
        samples = resample.resample_audio_chunks(pcm, rate, sample_rate, frames)
    except (miniaudio.MiniaudioError, ArithmeticError) as error:
        raise _damaged(found) from error
    slack = _MP3_SLACK if found is MP3 else 1
    if (pcm.frames + slack) / rate < info.num_frames / info.sample_rate:
        raise MediaError(
            f"the {found.name} audio is cut off: {pcm.frames / rate:.2f} of "
            f"{info.num_frames / info.sample_rate:.2f} seconds can be decoded"
        )
    # Otherwise the array stays part of one that is as long as the longest recording.
    return np.array(samples, np.float32)


class _Pcm:
    """The chunks of a decoder as floats, each of shape (frames,).

    Iteration raises ``MediaError`` after more than ``max_frames``. ``frames`` counts those so far.
    """

    def __init__(self, chunks: Iterable[Any], max_frames: int, max_seconds: float) -> None:
        self._chunks = chunks
        self._max_seconds = max_seconds
        self.max_frames = max_frames
        self.frames = 0

    def __iter__(self) -> Iterator[Samples]:
        """Yield the chunks."""
        for chunk in self._chunks:
            self.frames += len(chunk)
            if self.frames > self.max_frames:
                raise _too_long(self._max_seconds)
            yield np.asarray(chunk, np.float32) / _PCM_SCALE


def _with_ffmpeg(data: bytes, found: AudioFormat, max_seconds: float, sample_rate: int) -> Samples:
    audio_io = import_extra("audio", "mlx_audio.audio_io", purpose=_PURPOSE)
    if shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None:
        raise MediaError(
            f"decoding {found.name} audio requires ffmpeg, which is not installed",
            hint="Install ffmpeg, or convert the audio to WAV, FLAC or MP3.",
        )
    try:
        # ffmpeg stops one sample behind the limit.
        samples, _ = audio_io.read(
            io.BytesIO(data),
            dtype="float32",
            sample_rate=sample_rate,
            nchannels=1,
            duration=max_seconds + 1 / sample_rate,
        )
    except (RuntimeError, ValueError) as error:
        # ffmpeg's messages name temporary files and addresses.
        raise _damaged(found) from error
    check_duration(len(samples) / sample_rate, max_seconds)
    return np.ascontiguousarray(samples, np.float32)


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
