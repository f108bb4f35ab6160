"""The bytes of an image or recording: given, in a ``data:`` URL, or at a URL."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Protocol

from ..checks import short_repr
from ..errors import MediaError
from . import MediaOptions
from .fetching import fetch

_DATA_URL = re.compile(r"data:[^,]*;base64,", re.IGNORECASE)


class MediaSource(Protocol):
    """A medium of a prompt: ``ImageContent`` or ``AudioContent``.

    Attributes:
        kind: ``"image"`` or ``"audio"``.
        url: A URL; ``None`` if there is data.
        data: The content of a file.
    """

    @property
    def kind(self) -> str: ...

    @property
    def url(self) -> str | None: ...

    @property
    def data(self) -> bytes | None: ...


def read_source(source: MediaSource, options: MediaOptions) -> bytes:
    """Return the bytes of a medium. Its declared media type is not read: servers often name others.

    Args:
        source: The medium.
        options: The limits, and whether URLs are read.

    Raises:
        MediaError: There are no bytes or too many, or the URL cannot be read.
    """
    limit = "max_image_bytes" if source.kind == "image" else "max_audio_bytes"
    max_bytes: int = getattr(options, limit)
    data = source.data
    if data is None:
        data = _from_url(source.kind, source.url or "", options, max_bytes, limit)
    check_size(source.kind, len(data), max_bytes, limit)
    if not data:
        raise MediaError(f"the {source.kind} is empty: 0 bytes")
    return data


def check_size(kind: str, size: int, max_bytes: int, limit: str) -> None:
    """Raise ``MediaError`` if a medium has more bytes than allowed."""
    if size > max_bytes:
        raise MediaError(
            f"the {kind} has {size:,} bytes; the maximum is {max_bytes:,}",
            limit=limit,
            hint=f"The limit is {limit} of MediaOptions.",
        )


def _from_url(kind: str, url: str, options: MediaOptions, max_bytes: int, limit: str) -> bytes:
    scheme = url.partition(":")[0].lower()
    if scheme == "data":
        return _from_data_url(kind, url, max_bytes, limit)
    if scheme in ("http", "https"):
        if not options.allow_urls:
            raise MediaError(
                f"the {kind} is at a URL, and URLs are not read",
                limit="allow_urls",
                hint="Give a data: URL. allow_urls of MediaOptions allows others.",
            )
        return fetch(url, options, max_bytes, limit)
    raise MediaError(
        f"the {kind} is at {short_repr(url)}, which is not a URL that can be read",
        hint="Give a data: URL, or http or https.",
    )


def _from_data_url(kind: str, url: str, max_bytes: int, limit: str) -> bytes:
    match = _DATA_URL.match(url)
    if match is None:
        raise MediaError(
            f"the data: URL of the {kind} is malformed: {short_repr(url)}",
            hint="It is data:MEDIA/TYPE;base64,DATA.",
        )
    # Four characters encode three bytes. Up to two of the last three are padding.
    check_size(kind, (len(url) - match.end()) // 4 * 3 - 2, max_bytes, limit)
    try:
        return base64.b64decode(url[match.end() :], validate=True)
    except (ValueError, binascii.Error) as error:
        raise MediaError(f"the data: URL of the {kind} is not base64: {error}") from error
