"""Formats of image files, recognised by content; images of Pillow as RGB and as PNG."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import MediaError
from ..runtime.extras import import_extra

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """A format of image files.

    Attributes:
        name: Pillow's name.
        media_type: Its registered media type.
    """

    name: str
    media_type: str


PNG = ImageFormat("PNG", "image/png")
JPEG = ImageFormat("JPEG", "image/jpeg")
WEBP = ImageFormat("WEBP", "image/webp")
GIF = ImageFormat("GIF", "image/gif")
BMP = ImageFormat("BMP", "image/bmp")
TIFF = ImageFormat("TIFF", "image/tiff")

READABLE = "PNG, JPEG, WebP, GIF, BMP and TIFF"

# Files that are often mistaken for readable images: brands of ISO base media files and first bytes.
_OTHER_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"hevc", b"mif1", b"msf1"), "HEIC"),
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
}
_OTHER_STARTS = {
    b"%PDF": "PDF",
    b"8BPS": "Photoshop",
    b"\x00\x00\x01\x00": "ICO",
    b"\xff\x0a": "JPEG XL",
    b"\x00\x00\x00\x0cJXL ": "JPEG XL",
    b"\x00\x00\x00\x0cjP  ": "JPEG 2000",
    b"%!PS": "PostScript",
    b"PK\x03\x04": "ZIP",
}


def image_format(data: bytes) -> ImageFormat | None:
    """Return the format of a file by its first bytes; ``None`` if it is not readable."""
    match data[:4]:
        case b"\x89PNG" if data[:8] == b"\x89PNG\r\n\x1a\n":
            return PNG
        case b"GIF8" if data[:6] in (b"GIF87a", b"GIF89a"):
            return GIF
        case b"RIFF" if data[8:12] == b"WEBP":
            return WEBP
        case b"II*\0" | b"MM\0*":
            return TIFF
    if data[:3] == b"\xff\xd8\xff":
        return JPEG
    return BMP if data[:2] == b"BM" else None


def other_format(data: bytes) -> str | None:
    """Return the name of a common format that is not readable; ``None`` if it is none of these."""
    for start, name in _OTHER_STARTS.items():
        if data.startswith(start):
            return name
    if data[4:8] == b"ftyp":
        return _OTHER_BRANDS.get(data[8:12], "video")
    text = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<svg", b"<?xml", b"<!--")) and b"<svg" in data[:4096].lower():
        return "SVG"
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return "HTML"
    return "XML" if text.startswith(b"<?xml") else None


def encode_png(image: Image) -> bytes:
    """Return an image of Pillow as a PNG file, with the pixels that ``load_image`` returns.

    Raises:
        MediaError: The image cannot be read.
    """
    try:
        file = io.BytesIO()
        # A higher level takes several times as long.
        upright_rgb(image).save(file, "PNG", compress_level=1)
    except (OSError, ValueError) as error:
        raise MediaError(f"the image cannot be read: {error}") from error
    return file.getvalue()


def upright_rgb(image: Image) -> Image:
    """Return a new image without metadata, so that no processor turns it once more."""
    operations = import_extra("vision", "PIL.ImageOps", purpose="reading images")
    # Cameras and editors write damaged metadata. The pixels are whole.
    with contextlib.suppress(Exception):
        image = operations.exif_transpose(image)
    upright = _rgb(image)
    upright.info = {}
    return upright


def _rgb(image: Image) -> Image:
    pillow = import_extra("vision", "PIL.Image", purpose="reading images")
    if image.mode.startswith("I"):
        # 16 bits per pixel. Pillow's conversion would clip them to eight.
        return image.convert("I").point(lambda value: value / 256).convert("L").convert("RGB")
    if not image.has_transparency_data:
        # Floats have no direct conversion to colours.
        return (image.convert("L") if image.mode == "F" else image).convert("RGB")
    colours = image if image.mode == "RGBA" else image.convert("RGBA")
    opaque = pillow.new("RGB", image.size, "white")
    opaque.paste(colours, mask=colours)
    return opaque  # type: ignore[no-any-return]
