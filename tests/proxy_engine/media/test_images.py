"""Images: formats, orientation, transparency, limits, damaged files."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from proxy_engine.errors import MediaError
from proxy_engine.media import MediaOptions
from proxy_engine.media.image_formats import encode_png
from proxy_engine.media.images import load_image
from proxy_engine.media.sources import read_source

# Pillow warns of damaged metadata.
pytestmark = pytest.mark.filterwarnings("ignore")

OPTIONS = MediaOptions()


class Source:
    """What ``load_image`` needs of an ``ImageContent``."""

    kind = "image"

    def __init__(self, data: bytes | None = None, url: str | None = None) -> None:
        self.data, self.url = data, url


def gradient(mode: str = "RGB", size: tuple[int, int] = (24, 16)) -> Image.Image:
    width, height = size
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    pixels = np.stack([x * 255 // width, y * 255 // height, (x + y) * 3 % 256], axis=-1)
    return Image.fromarray(pixels.astype(np.uint8)).convert(mode)


def written(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def loaded(data: bytes, **options: Any) -> Image.Image:
    return load_image(Source(data), MediaOptions(**options)).image


def pixels(image: Image.Image) -> np.ndarray[Any, Any]:
    return np.asarray(image).astype(int)


LOSSLESS = [
    ("PNG", {}),
    ("WEBP", {"lossless": True}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
]


@pytest.mark.parametrize(("kind", "options"), LOSSLESS)
def test_lossless_formats_give_the_pixels_that_were_written(kind: str, options: Any) -> None:
    image = loaded(written(gradient(), kind, **options))
    assert image.mode == "RGB"
    assert (pixels(image) == pixels(gradient())).all()


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF"])
def test_lossy_formats_give_similar_pixels(kind: str) -> None:
    image = loaded(written(gradient(), kind))
    assert (image.mode, image.size) == ("RGB", (24, 16))
    assert abs(pixels(image) - pixels(gradient())).mean() < 12


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "F", "I", "I;16"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    grey = np.linspace(0, 255, 24 * 16).reshape(16, 24)
    if mode == "I;16":
        image = Image.fromarray((grey * 256).astype(np.uint16))
    elif mode == "I":
        image = Image.fromarray((grey * 256).astype(np.int32))
    elif mode == "F":
        image = Image.fromarray(grey.astype(np.float32))
    else:
        image = Image.fromarray(grey.astype(np.uint8)).convert(mode)
    assert image.mode == mode
    rgb = pixels(loaded(written(image, "TIFF")))
    assert rgb.shape == (16, 24, 3)
    # A picture of two colours is dithered.
    assert abs(rgb.mean(axis=-1) - grey).mean() < (90 if mode == "1" else 2)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_transparent_areas_are_white(mode: str) -> None:
    image = Image.new("RGBA", (4, 2), (200, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 2, 2))
    kind = "TIFF" if mode == "PA" else "PNG"
    if mode == "PA":
        data = written(image.convert("P"), "PNG", transparency=image.convert("P").getpixel((0, 0)))
    else:
        data = written(image.convert(mode), kind)
    rgb = pixels(loaded(data))
    assert (rgb[:, :2] == 255).all()
    assert (rgb[:, 2:] != 255).any(axis=-1).all()


def test_transparent_colour_of_a_png_is_white() -> None:
    image = Image.new("RGB", (2, 1), (1, 2, 3))
    image.putpixel((1, 0), (9, 9, 9))
    data = written(image, "PNG", transparency=(1, 2, 3))
    assert pixels(loaded(data)).tolist() == [[[255] * 3, [9] * 3]]


@given(st.integers(0, 9), st.sampled_from(["JPEG", "PNG", "WEBP", "TIFF"]))
def test_orientation_is_applied_once(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 100, "lossless": True} if kind == "WEBP" else {"quality": 100}
    data = written(gradient(), kind, exif=exif, **options)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    image = loaded(data)
    assert (pixels(image) == pixels(expected)).all()
    assert image.size == ((16, 24) if 5 <= orientation <= 8 else (24, 16))
    # A processor that applies the orientation finds none.
    assert (pixels(ImageOps.exif_transpose(image)) == pixels(image)).all()


def test_first_frame_of_an_animation_is_read() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        data = written(frames[0], kind, save_all=True, append_images=frames[1:])
        assert loaded(data).getpixel((4, 4)) == pytest.approx((255, 0, 0), abs=4)


def test_equal_files_have_equal_digests() -> None:
    one, other = written(gradient(), "PNG"), written(gradient(), "BMP")
    assert load_image(Source(one), OPTIONS).digest == load_image(Source(one), OPTIONS).digest
    assert load_image(Source(one), OPTIONS).digest != load_image(Source(other), OPTIONS).digest


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "LA", "F", "I;16", "HSV"])
def test_images_of_pillow_become_png_with_the_same_pixels(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000)
    else:
        image = gradient("L" if mode == "F" else "RGB").convert(mode)
    before = image.tobytes()
    again = loaded(encode_png(image))
    expected = written(image, "TIFF") if mode not in ("HSV",) else None
    if expected is not None and mode != "I;16":
        assert (pixels(again) == pixels(loaded(expected))).all()
    assert image.tobytes() == before
    assert image.mode == mode


def test_orientation_of_an_image_of_pillow_is_kept() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = written(gradient(), "PNG", exif=exif)
    image = Image.open(io.BytesIO(data))
    assert (pixels(loaded(encode_png(image))) == pixels(loaded(data))).all()
    assert image.size == (24, 16)


def test_data_urls_are_read() -> None:
    coded = base64.b64encode(written(gradient(), "PNG")).decode()
    for head in ("data:image/png;base64,", "DATA:;base64,", "data:image/png;charset=x;base64,"):
        image = load_image(Source(url=head + coded), OPTIONS).image
        assert image.size == (24, 16)


@given(st.text(max_size=12), st.text("AQgw+/=-_ \n", max_size=12) | st.text(max_size=4))
def test_any_data_url_is_an_error_or_its_bytes(head: str, coded: str) -> None:
    source = Source(url=f"data:{head},{coded}")
    try:
        data = read_source(source, OPTIONS)
    except MediaError:
        return
    assert data == base64.b64decode(coded, validate=True) != b""
    assert head.lower().endswith(";base64")


def test_inks_of_a_jpeg_become_colours() -> None:
    """Values are inverted if an Adobe segment is there."""
    for colour in ((255, 0, 0), (0, 128, 0), (255, 255, 255)):
        image = Image.new("RGB", (16, 16), colour).convert("CMYK")
        rgb = loaded(written(image, "JPEG", quality=100)).getpixel((8, 8))
        assert rgb == pytest.approx(colour, abs=3)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("data:image/png;base64,?", "not base64"),
        ("data:image/png;base64,AAA", "not base64"),
        ("data:image/png;base64,AA\nAA", "not base64"),
        ("data:image/png;base64,", "0 bytes"),
        ("data:image/png,abc", "malformed"),
        ("data:", "malformed"),
        ("file:///etc/passwd", "not a URL that can be read"),
        ("/etc/passwd", "not a URL that can be read"),
        ("image.png", "not a URL that can be read"),
        ("", "not a URL that can be read"),
        ("ftp://example.org/x.png", "not a URL that can be read"),
    ],
)
def test_urls_that_are_refused(url: str, what: str) -> None:
    with pytest.raises(MediaError, match=what):
        load_image(Source(url=url), OPTIONS)


def test_size_of_a_data_url_is_checked_before_it_is_decoded() -> None:
    with pytest.raises(MediaError, match="the maximum is 30") as caught:
        load_image(Source(url="data:;base64," + "?" * 60), MediaOptions(max_image_bytes=30))
    assert caught.value.limit == "max_image_bytes"
    data = written(gradient(), "PNG")
    url = f"data:;base64,{base64.b64encode(data).decode()}"
    load_image(Source(url=url), MediaOptions(max_image_bytes=len(data)))
    with pytest.raises(MediaError, match="maximum"):
        load_image(Source(url=url), MediaOptions(max_image_bytes=len(data) - 1))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<svg/>", "SVG"),
        (b"<!DOCTYPE html><title>404</title>", "HTML"),
        (b"%PDF-1.7", "PDF"),
        (b"8BPS\0\1", "Photoshop"),
        (b"\0\0\1\0\1\0", "ICO"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"\0\0\0\x18ftypavif", "AVIF"),
        (b"\0\0\0\x18ftypmp42", "video"),
        (b"%!PS-Adobe", "PostScript"),
        (b"BZh91", None),
        (b"x", None),
        (b"GIF88a", None),
        (b"RIFF\0\0\0\0WAVE", None),
    ],
)
def test_other_formats_are_named(data: bytes, name: str | None) -> None:
    with pytest.raises(MediaError, match=name or "no known format") as caught:
        load_image(Source(data), OPTIONS)
    assert "PNG, JPEG, WebP" in caught.value.hint


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *more: bytes, rows: int | None = None) -> bytes:
    """A PNG image of black pixels, of one bit each."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    data = zlib.compress(bytes((1 + (width + 7) // 8) * (height if rows is None else rows)), 9)
    parts = [chunk(b"IHDR", head), *more, chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_hundred_megapixels_are_refused_before_decoding() -> None:
    for data in (
        png(10_000, 10_000),
        png(65_000, 65_000, rows=1),
        png(2**31 - 1, 2**31 - 1, rows=0),
    ):
        assert len(data) < 13_000
        with pytest.raises(MediaError, match=r"pixels.* maximum is 50,000,000") as caught:
            load_image(Source(data), OPTIONS)
        assert caught.value.limit == "max_image_pixels"


def test_limit_on_pixels_is_inclusive() -> None:
    data = png(100, 50)
    assert loaded(data, max_image_pixels=5000).size == (100, 50)
    with pytest.raises(MediaError, match="100 x 50 = 5,000 pixels; the maximum is 4,999") as caught:
        loaded(data, max_image_pixels=4999)
    assert caught.value.limit == "max_image_pixels"


def test_files_longer_than_the_limit_are_refused() -> None:
    data = png(10, 10)
    assert loaded(data, max_image_bytes=len(data)).size == (10, 10)
    with pytest.raises(MediaError, match=f"has {len(data)} bytes; the maximum is {len(data) - 1}"):
        loaded(data, max_image_bytes=len(data) - 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_file_cut_off_anywhere_is_an_error_or_the_whole_image(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8)
    data = written(Image.fromarray(noise), kind)
    whole = pixels(loaded(data))
    errors = 0
    for length in range(len(data)):
        try:
            image = loaded(data[:length])
        except MediaError:
            errors += 1
        else:
            assert (pixels(image) == whole).all()
    # Formats end with a few bytes that say nothing about the pixels.
    assert errors >= len(data) - 24


@given(st.data())
def test_damaged_file_is_an_error_or_an_image(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"]))
    file = bytearray(written(gradient(), kind))
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = loaded(bytes(file), max_image_pixels=10_000)
    except MediaError:
        return
    assert image.mode == "RGB"
    assert image.width * image.height <= 10_000


@given(
    st.binary(max_size=200),
    st.sampled_from(
        [
            *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"BM", b"II*\0", b"MM\0*"),
            b"RIFF\0\0\0\0WEBP",
        ]
    ),
)
def test_noise_behind_a_signature_is_an_error(noise: bytes, start: bytes) -> None:
    with pytest.raises(MediaError) as caught:
        loaded(start + noise, max_image_pixels=10_000)
    assert "object at" not in str(caught.value)


def with_segments(jpeg: bytes, *segments: tuple[int, bytes]) -> bytes:
    written = [
        bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data for marker, data in segments
    ]
    return jpeg[:2] + b"".join(written) + jpeg[2:]


@given(
    st.lists(
        st.tuples(st.sampled_from([0xE1, 0xE2, 0xE5, 0xED, 0xF0, 0xFE]), st.binary(max_size=40))
    )
)
def test_metadata_of_a_jpeg_does_not_change_its_pixels(segments: list[tuple[int, bytes]]) -> None:
    jpeg = written(gradient(), "JPEG", progressive=True)
    assert (pixels(loaded(with_segments(jpeg, *segments))) == pixels(loaded(jpeg))).all()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"acTL", b"fcTL", b"abCd"]),
            st.binary(max_size=40),
        )
    )
)
def test_metadata_of_a_png_does_not_change_its_pixels(chunks: list[tuple[bytes, bytes]]) -> None:
    plain, crowded = png(5, 4), png(5, 4, *(chunk(name, data) for name, data in chunks))
    assert (pixels(loaded(crowded)) == pixels(loaded(plain))).all()


def test_compressed_metadata_is_not_decompressed() -> None:
    bomb = zlib.compress(bytes(10_000_000), 9)
    more = [chunk(name, b"x\0\0" + bomb) for name in (b"zTXt", b"iCCP") for _ in range(9)]
    assert loaded(png(5, 4, *more)).size == (5, 4)


def test_files_with_too_many_parts_are_refused() -> None:
    jpeg = written(gradient(), "JPEG")
    for data in (
        png(5, 4, chunk(b"abCd", b"") * 100_000),
        png(5, 4, chunk(b"IDAT", b"") * 100_000),
        with_segments(jpeg, *[(0xFE, b"")] * 100_000),
        jpeg[:2] + b"\xff" * 100_000 + jpeg[2:],
        jpeg[:3] + b"x" * 100_000 + jpeg[3:],
    ):
        with pytest.raises(MediaError, match=r"parts|segments"):
            loaded(data)


def test_scans_of_a_jpeg_are_limited() -> None:
    """Each scan takes the time of a whole image, and can be a few bytes long."""
    jpeg = written(gradient(), "JPEG", progressive=True)
    scan = jpeg[jpeg.rindex(b"\xff\xda") : -2]
    loaded(jpeg[:-2] + scan * 50 + jpeg[-2:])
    with pytest.raises(MediaError, match="100 scans"):
        loaded(jpeg[:-2] + scan * 100 + jpeg[-2:])


def tiff(*entries: tuple[int, int, int, int], more: bytes = b"") -> bytes:
    tags = {256: (3, 1, 10), 257: (3, 1, 10), 258: (3, 1, 8), 259: (3, 1, 8), 262: (3, 1, 1)}
    tags |= {tag: (kind, count, value) for tag, kind, count, value in entries}
    directory = b"".join(struct.pack("<HHII", tag, *tags[tag]) for tag in sorted(tags))
    head = b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + directory + bytes(4)
    return head.ljust(400, b"\0") + more


def test_large_tiles_of_a_tiff_are_refused() -> None:
    """A tile is decoded as a whole, however small the image is."""
    packed = zlib.compress(bytes(1000))
    tile = [(324, 4, 1, 400), (325, 4, 1, len(packed))]
    with pytest.raises(MediaError, match="40,000 x 50,000 pixels") as caught:
        loaded(tiff((322, 4, 1, 40_000), (323, 4, 1, 50_000), *tile, more=packed))
    assert caught.value.limit == "max_image_pixels"
    for width, length in (((2, 9, 400), (4, 1, 10**9)), ((5, 1, 400), (4, 1, 9))):
        with pytest.raises(MediaError, match="no number"):
            loaded(tiff((322, *width), (323, *length), *tile, more=packed))
    # Sizes beyond the image do not matter for strips.
    strip = [(273, 4, 1, 400), (278, 4, 1, 2**31), (279, 4, 1, len(packed))]
    with pytest.raises(MediaError):
        loaded(tiff(*strip, more=packed))


def test_tags_that_share_data_take_no_memory() -> None:
    many = [(1000 + index, 1, 90_000, 0) for index in range(5000)]
    data = tiff(*many, (273, 4, 1, 0), (259, 3, 1, 1), (279, 4, 1, 100), more=bytes(40_000))
    assert loaded(data).size == (10, 10)


def test_frame_larger_than_its_animation_is_refused() -> None:
    screen = struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6)
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 9000, 9000, 0) + b"\2\2\x4c\1\0;"
    with pytest.raises(MediaError, match="9,000 x 9,000"):
        loaded(b"GIF89a" + screen + frame)


def test_frames_behind_the_first_are_not_read() -> None:
    data = written(Image.new("P", (8, 8)), "GIF")
    frame = data[data.index(b"\x2c") : -1]
    assert loaded(data[:-1] + frame * 50_000 + b";").size == (8, 8)
    # A cut-off second frame is not read either.
    assert loaded(data[:-1] + frame[:5]).size == (8, 8)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_file_that_is_also_another_file_is_the_image(kind: str) -> None:
    data = written(gradient(), kind)
    for tail in (b"PK\x03\x04 zip", b"<script>alert(1)</script>", b"%PDF-1.7", png(4, 4)):
        assert (pixels(loaded(data + tail)) == pixels(loaded(data))).all()
    for head in (b"<html>", b"PK\x03\x04"):
        with pytest.raises(MediaError):
            loaded(head + data)
