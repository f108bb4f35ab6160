"""Recordings for tests: spoken numbers, tones, and files with chosen headers."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

_DATA = Path(__file__).parents[1] / "data"


def speech_file(name: str = "speech.wav") -> Path:
    """Return a file in which a synthetic voice speaks, at 16 kHz.

    ``speech`` says "one two three" in a second, ``number.wav`` "eight six seven, five three oh
    nine" and ``command.wav`` "next song".
    """
    return _DATA / name


def sine(seconds: float, rate: int = 16_000, frequency: float = 440.0) -> npt.NDArray[np.float32]:
    """Return a tone of half the amplitude."""
    times = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * frequency * times)).astype(np.float32)


def wav(
    samples: npt.NDArray[np.float32],
    rate: int = 16_000,
    *,
    channels: int | None = None,
    bits: int = 16,
    encoding: int = 1,
    size: int | None = None,
) -> bytes:
    """Return a WAV file with 16 bits a sample, whatever its header says.

    Args:
        samples: Shape (samples,) or (samples, channels).
        rate: The sample rate.
        channels: The number of channels in the header.
        bits: The bits of a sample in the header.
        encoding: The encoding in the header; 1 is PCM.
        size: The number of bytes of samples in the header.
    """
    data = np.rint(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
    if channels is None:
        channels = 1 if samples.ndim == 1 else samples.shape[1]
    frame = channels * bits // 8
    form = (encoding, channels, rate, rate * frame & 0xFFFFFFFF, frame & 0xFFFF, bits)
    header = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, *form)
    return header + struct.pack("<4sI", b"data", len(data) if size is None else size) + data


def mp3_of_silence(seconds: float) -> bytes:
    """Return an MP3 file of 1,000 bytes per second: MPEG 2.5, 8 kHz, mono."""
    frame = bytes([0xFF, 0xE3, 0x18, 0xC0]) + bytes(68)
    return frame * round(seconds * 8_000 / 576)
