"""Images as RGB pixels: decoding within limits, orientation, transparency."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import MediaError
from ..runtime.extras import import_extra
from . import MediaOptions
from .image_formats import (
    JPEG,
    PNG,
    READABLE,
    TIFF,
    ImageFormat,
    image_format,
    other_format,
    upright_rgb,
)
from .sources import MediaSource, read_source

if TYPE_CHECKING:
    from PIL.Image import Image

_TILE_WIDTH, _TILE_LENGTH = 322, 323
# Encoders write about ten. Each costs the time of decoding the whole image, however short it is.
_MAX_JPEG_SCANS = 100
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
_PIXELS_HINT = "Scale it down, or raise max_image_pixels of MediaOptions."


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An image as a model reads it.

    Attributes:
        image: Pillow's image, of mode RGB, upright. Transparent areas are white.
        digest: Identifies the image: equal files have equal digests, different ones do not.
    """

    image: Image = field(repr=False)
    digest: bytes = field(repr=False)


def load_image(source: MediaSource, options: MediaOptions) -> LoadedImage:
    """Decode an image. Of an animation, the first frame is decoded.

    The format is recognised by content. Size and number of pixels are checked before the pixels
    are decoded.

    Args:
        source: The image, such as an ``ImageContent``.
        options: The limits.

    Raises:
        MediaError: The image cannot be read, is damaged, of a format that is not supported, or
            exceeds a limit.
        MissingExtraError: The extra ``vision`` is not installed.
    """
    data = read_source(source, options)
    found = _recognised(data)
    image = _decode(data, found, options)
    return LoadedImage(image, hashlib.sha256(data).digest())


def _recognised(data: bytes) -> ImageFormat:
    found = image_format(data)
    if found is None:
        other = other_format(data)
        what = f"a format that is not supported: {other}" if other else "no known format"
        raise MediaError(f"the image is of {what}", hint=f"Formats are {READABLE}.")
    return found


def _decode(data: bytes, found: ImageFormat, options: MediaOptions) -> Image:
    pillow = import_extra("vision", "PIL.Image", purpose="reading images")
    file = _reduced(data, found)
    if found is JPEG and file.count(bytes((0xFF, _START_OF_SCAN))) > _MAX_JPEG_SCANS:
        raise MediaError(f"the JPEG image has more than {_MAX_JPEG_SCANS} scans")
    try:
        image = pillow.open(io.BytesIO(file), formats=(found.name,))
        _check_pixels(image, options)
        if found is TIFF:
            _check_tiles(image, options)
        image.load()
        # A frame of a GIF can be larger than its header says.
        _check_pixels(image, options)
        return upright_rgb(image)
    except MediaError:
        raise
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        # Pillow's own limit, which is above that of MediaOptions.
        raise MediaError(
            f"the {found.name} image has too many pixels; the maximum is "
            f"{options.max_image_pixels:,}",
            limit="max_image_pixels",
            hint=_PIXELS_HINT,
        ) from error
    except pillow.UnidentifiedImageError as error:
        raise MediaError(f"the {found.name} image is damaged: it has no valid header") from error
    except MemoryError as error:
        raise MediaError(f"there is no memory for the {found.name} image") from error
    except Exception as error:
        # Decoders raise anything for damaged files: OSError, SyntaxError, struct.error, KeyError.
        raise MediaError(
            f"the {found.name} image is damaged or cut off: {str(error)[:200]}"
        ) from error


def _check_pixels(image: Image, options: MediaOptions) -> None:
    pixels = image.width * image.height
    if pixels > options.max_image_pixels:
        raise MediaError(
            f"the image has {image.width:,} x {image.height:,} = {pixels:,} pixels; the maximum "
            f"is {options.max_image_pixels:,}",
            limit="max_image_pixels",
            hint=_PIXELS_HINT,
        )


def _check_tiles(image: Any, options: MediaOptions) -> None:
    """Refuse tiles that are larger than the limit: each is decoded as a whole."""
    width, length = (image.tag_v2.get(tag, 1) for tag in (_TILE_WIDTH, _TILE_LENGTH))
    if not isinstance(width, int) or not isinstance(length, int):
        raise MediaError("the TIFF image is damaged: the size of its tiles is no number")
    if width * length > options.max_image_pixels:
        raise MediaError(
            f"the TIFF image has tiles of {width:,} x {length:,} pixels",
            limit="max_image_pixels",
        )


def _reduced(data: bytes, found: ImageFormat) -> bytes:
    """Return a file without metadata but the orientation. Only PNG and JPEG files change.

    Decoders read metadata in Python, byte by byte or segment by segment: a file of 20 MB that
    consists of metadata would keep all other threads waiting for ten seconds.

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
