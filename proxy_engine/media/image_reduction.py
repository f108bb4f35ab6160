"""Image files reduced to the parts on which their pixels depend.

Decoders read metadata in Python, byte by byte or segment by segment. A file of 20 MB that consists
of metadata would keep all other threads waiting for ten seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import MediaError
from .image_formats import JPEG, PNG, ImageFormat

_MAX_PARTS = 100_000
_MAX_FILLER_BYTES = 1 << 16

# PNG, third edition, section 11. The orientation is in eXIf.
_PNG_SIGNATURE_BYTES = 8
_PNG_CHUNKS = frozenset((b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND"))

# ITU-T T.81, table B.1. Colour spaces are in the segments APP0 and APP14.
_APP0, _APP1, _APP14 = 0xE0, 0xE1, 0xEE
_START_OF_SCAN = 0xDA
_JPEG_SEGMENTS = frozenset((*range(0xC0, 0xD0), 0xDB, 0xDD, _APP0, _APP1, _APP14)) - {0xC8}
# Markers without a segment: TEM, the restart markers, SOI, EOI; and 0xFF00, which is no marker.
_LONE_MARKERS = frozenset((0x00, 0x01, *range(0xD0, 0xDA)))
_FILL_BYTES = re.compile(rb"\xff+")


def reduced(data: bytes, found: ImageFormat) -> bytes:
    """Return a file without metadata but the orientation. Only PNG and JPEG files change.

    Raises:
        MediaError: The file has too many parts, or a JPEG file has no scan.
    """
    if found is PNG:
        return data[:_PNG_SIGNATURE_BYTES] + b"".join(_png_chunks(data))
    return b"\xff\xd8" + b"".join(_jpeg_parts(data)) if found is JPEG else data


def _png_chunks(data: bytes) -> Iterator[bytes]:
    position = _PNG_SIGNATURE_BYTES
    for _ in range(_MAX_PARTS):
        if position >= len(data):
            return
        # Length, name, content, checksum.
        end = position + 12 + int.from_bytes(data[position : position + 4], "big")
        if data[position + 4 : position + 8] in _PNG_CHUNKS:
            yield data[position:end]
        position = end
    raise _too_many_parts("PNG")


def _jpeg_parts(data: bytes) -> Iterator[bytes]:
    """Yield the segments before the first scan, then all that follows."""
    position, filler = 2, 0
    for _ in range(_MAX_PARTS):
        fill = _FILL_BYTES.search(data, position)
        if fill is None or fill.end() >= len(data):
            raise MediaError("the JPEG image is damaged or cut off: it has no scan")
        filler += fill.end() - position - 1
        if filler > _MAX_FILLER_BYTES:
            raise MediaError("the JPEG image is damaged: segments are missing")
        start, marker = fill.end() - 1, data[fill.end()]
        if marker == _START_OF_SCAN:
            yield data[start:]
            return
        position = start + 2
        if marker in _LONE_MARKERS:
            continue
        position += int.from_bytes(data[position : position + 2], "big")
        is_exif = data[start + 4 : start + 10] == b"Exif\0\0"
        if marker in _JPEG_SEGMENTS and (marker != _APP1 or is_exif):
            yield data[start:position]
    raise _too_many_parts("JPEG")


def _too_many_parts(name: str) -> MediaError:
    return MediaError(f"the {name} image has more than {_MAX_PARTS:,} parts")
