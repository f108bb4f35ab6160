"""Pixels of Pillow's images: orientation, transparency, and PNG files."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from ..errors import MediaError
from ..runtime.extras import import_extra

if TYPE_CHECKING:
    from PIL.Image import Image


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
