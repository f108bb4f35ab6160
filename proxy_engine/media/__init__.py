"""Images and audio recordings of prompts, from bytes to pixels and samples, within limits.

Reading order: :class:`MediaOptions` (the limits), ``fetching`` (URLs), ``sources`` (the bytes of a
medium), ``image_formats`` and ``images``, ``audio_decoding`` and ``audio``.
"""

from __future__ import annotations

from pydantic import Field

from ..checks import OptionModel

_MAX_PIXELS = 178_956_970
"""Pillow decodes no larger image: twice the default of ``PIL.Image.MAX_IMAGE_PIXELS``."""


class MediaOptions(OptionModel):
    """Limits on the images and audio recordings of prompts, and on the URLs that are read.

    Immutable. Media that exceed a limit are refused before they are decoded.

    Raises:
        InvalidOptionError: An option is unknown or its value is invalid.
    """

    max_images: int = Field(default=20, ge=0)
    """Maximum number of images of a prompt."""
    max_image_bytes: int = Field(default=20 << 20, ge=1)
    """Maximum size of an image file, in bytes."""
    max_image_pixels: int = Field(default=50_000_000, ge=1, le=_MAX_PIXELS)
    """Maximum width times height of an image, read from the file's header."""
    max_audio_bytes: int = Field(default=100 << 20, ge=1)
    """Maximum size of an audio file, in bytes."""
    max_audio_seconds: float = Field(default=10_800, gt=0)
    """Maximum length of a recording, in seconds."""
    allow_urls: bool = True
    """Whether `http` and `https` URLs are read."""
    allow_private_addresses: bool = False
    """Whether URLs may lead to addresses that are not public, such as those of this computer and
    of the local network."""
    url_timeout: float = Field(default=10.0, gt=0)
    """Time limit for reading a URL, in seconds, with redirects and all of its content."""
