"""Formats of audio files, recognised by content, and their decoders."""

from __future__ import annotations

import struct
from dataclasses import dataclass

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
