"""Recordings as samples: formats, conversions and damaged files."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_audio import audio_io
from recordings import mp3_of_silence, sine, speech_file, wav

from proxy_engine.errors import MediaError
from proxy_engine.media import MediaOptions
from proxy_engine.media.audio import load_audio
from proxy_engine.media.audio_decoding import audio_format

LIMITS = MediaOptions()
SPEECH = ["speech.wav", "speech.flac", "speech.mp3"]
WITHOUT_FFMPEG = {
    "Ogg": speech_file("speech.ogg").read_bytes(),
    "M4A": b"\0\0\0\x1cftypM4A " + bytes(100),
    "WebM": b"\x1a\x45\xdf\xa3" + bytes(100),
    "AIFF": b"FORM\0\0\0\x10AIFF" + bytes(100),
    "CAF": b"caff\0\1\0\0" + bytes(100),
    "AAC": b"\xff\xf1\x50\x80" + bytes(100),
}


@pytest.mark.parametrize("name", SPEECH)
@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050])
def test_files_of_all_formats_have_the_same_sound(name: str, rate: int) -> None:
    expected = load_audio(speech_file("speech.wav"), LIMITS, rate).samples
    loaded = load_audio(speech_file(name), LIMITS, rate)
    assert loaded.samples.dtype == np.float32
    assert abs(len(loaded.samples) - len(expected)) <= 1
    assert loaded.duration == pytest.approx(len(expected) / rate, abs=0.01)
    length = min(len(expected), len(loaded.samples))
    correlation = np.corrcoef(loaded.samples[:length], expected[:length])[0, 1]
    assert correlation > 0.97


@pytest.mark.parametrize("name", SPEECH)
@pytest.mark.parametrize("rate", [16_000, 24_000])
def test_samples_equal_those_of_mlx_audio(name: str, rate: int) -> None:
    expected, _ = audio_io.read(speech_file(name), dtype="float32", sample_rate=rate, nchannels=1)
    np.testing.assert_array_equal(load_audio(speech_file(name), LIMITS, rate).samples, expected)


def test_path_bytes_and_memory_view_are_one_recording() -> None:
    path = speech_file("speech.wav")
    content = path.read_bytes()
    digests = {
        load_audio(source, LIMITS).digest
        for source in (path, str(path), content, bytearray(content), memoryview(content))
    }
    assert len(digests) == 1


def test_digest_depends_on_samples_and_rate() -> None:
    tone = sine(0.1)
    digests = [
        load_audio((tone, 16_000), LIMITS).digest,
        load_audio((-tone, 16_000), LIMITS).digest,
        load_audio((tone, 8_000), LIMITS, 8_000).digest,
    ]
    assert len(set(digests)) == 3


@given(st.lists(st.integers(-32767, 32767), min_size=1, max_size=300))
@settings(max_examples=60, deadline=None)
def test_samples_of_16_bits_are_exact(values: list[int]) -> None:
    array = np.array(values, np.int16)
    expected = array.astype(np.float32) / 32768
    for source in (wav(array / 32767), (array, 16_000)):
        np.testing.assert_array_equal(load_audio(source, LIMITS).samples, expected)


def test_channels_are_mixed() -> None:
    tone = sine(0.1)
    stereo = np.stack([tone, np.zeros_like(tone)], axis=1)
    for source in (wav(stereo), (stereo, 16_000)):
        np.testing.assert_allclose(load_audio(source, LIMITS).samples, tone / 2, atol=1e-4)


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 48_000, 44_101])
def test_resampling_keeps_length_and_pitch(rate: int) -> None:
    tone = sine(0.5, rate)
    for source in ((tone, rate), wav(tone, rate)):
        samples = load_audio(source, LIMITS).samples
        assert len(samples) == pytest.approx(8_000, abs=2)
        spectrum = np.abs(np.fft.rfft(samples[:8_000]))
        assert spectrum.argmax() == 220


@pytest.mark.parametrize("kind", ["int16", "int32", "uint8", "float64", "float32"])
def test_arrays_of_integers_use_the_range_of_their_type(kind: str) -> None:
    tone = sine(0.1)
    if kind.startswith("float"):
        array = tone.astype(kind)
    else:
        info = np.iinfo(kind)
        middle = (info.max + info.min + 1) // 2
        array = (np.rint(tone.astype(np.float64) * (info.max - middle)) + middle).astype(kind)
    tolerance = 0.02 if kind == "uint8" else 1e-3
    np.testing.assert_allclose(load_audio((array, 16_000), LIMITS).samples, tone, atol=tolerance)


@pytest.mark.parametrize(
    ("array", "rate", "reason"),
    [
        (np.zeros(100), 0, "sample rate"),
        (np.zeros(100), -16_000, "sample rate"),
        (np.zeros(100), 10**9, "sample rate"),
        (np.zeros(100), 16_000.0, "given as"),
        (np.zeros(0), 16_000, "no samples"),
        (np.full(100, np.nan), 16_000, "NaN"),
        (np.array([0.0, np.inf]), 16_000, "infinite"),
        (np.zeros((2, 16_000)), 16_000, "shape"),
        (np.zeros((4, 4, 4)), 16_000, "shape"),
        (np.zeros(()), 16_000, "shape"),
        (np.array(["a"]), 16_000, "floats or integers"),
        (np.zeros(100, np.complex64), 16_000, "floats or integers"),
        ([[1.0], [1.0, 2.0]], 16_000, "array"),
    ],
)
def test_invalid_array_is_refused(array: Any, rate: Any, reason: str) -> None:
    with pytest.raises(MediaError, match=reason):
        load_audio((array, rate), LIMITS)


def test_array_without_its_rate_is_refused() -> None:
    with pytest.raises(MediaError, match="sample_rate"):
        load_audio(np.zeros(100), LIMITS)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [b"", b"a", b"RIFF", b"not a recording" * 10, bytes(1000)])
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(MediaError, match=r"no known format|0 bytes"):
        load_audio(content, LIMITS)


@pytest.mark.parametrize("name", SPEECH)
def test_truncated_file_is_refused(name: str) -> None:
    content = speech_file(name).read_bytes()
    # The last bytes of an MP3 file may be those of a frame of padding.
    for end in range(0, len(content) - 1_000, 100):
        with pytest.raises(MediaError):
            load_audio(content[:end], LIMITS)


@pytest.mark.parametrize("name", SPEECH)
def test_damaged_file_loads_or_is_refused(name: str) -> None:
    content = speech_file(name).read_bytes()
    source = random.Random(1)
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(source.randrange(1, 10)):
            damaged[source.randrange(min(len(damaged), 400))] = source.randrange(256)
        try:
            loaded = load_audio(bytes(damaged), LIMITS)
        except MediaError:
            continue
        assert len(loaded.samples)


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": 0},
        {"rate": 1},
        {"rate": 2**32 - 1},
        {"channels": 0},
        {"channels": 2**16 - 1},
        {"bits": 0},
        {"bits": 7},
        {"bits": 64},
        {"encoding": 2},
        {"encoding": 17},
        {"encoding": 0xFFFE},
        {"size": 0},
        {"size": 10_000},
        {"size": 2**31 - 2**17},
    ],
)
def test_hostile_wav_header_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(MediaError):
        load_audio(wav(sine(0.1), **fields), LIMITS)


def test_wav_file_of_unknown_length_is_read_to_its_end() -> None:
    tone = sine(0.1)
    loaded = load_audio(wav(tone, size=2**32 - 1), LIMITS)
    np.testing.assert_allclose(loaded.samples, tone, atol=1e-3)


def test_flac_file_of_unknown_length_is_read_to_its_end() -> None:
    content = bytearray(speech_file("speech.flac").read_bytes())
    expected = load_audio(bytes(content), LIMITS).samples
    # The number of samples is in the last 36 bits before the MD5 digest of STREAMINFO.
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    np.testing.assert_array_equal(load_audio(bytes(content), LIMITS).samples, expected)
    with pytest.raises(MediaError, match=r"longer than 0\.5 seconds"):
        load_audio(bytes(content), MediaOptions(max_audio_seconds=0.5))


@pytest.mark.parametrize("limit", [0.5, 1.0])
@pytest.mark.parametrize("name", SPEECH)
def test_longer_recording_is_refused(name: str, limit: float) -> None:
    with pytest.raises(MediaError, match=rf"longer than {limit:g} seconds"):
        load_audio(speech_file(name), MediaOptions(max_audio_seconds=limit))


def test_recording_of_the_maximum_length_is_read() -> None:
    limits = MediaOptions(max_audio_seconds=0.5)
    assert load_audio(wav(sine(0.5)), limits).duration == 0.5
    assert load_audio((sine(0.5), 16_000), limits).duration == 0.5
    with pytest.raises(MediaError, match="longer"):
        load_audio((sine(0.51), 16_000), limits)


def test_small_file_of_hours_is_refused_before_it_is_decoded() -> None:
    day = mp3_of_silence(24 * 3600)
    assert len(day) < LIMITS.max_audio_bytes
    with pytest.raises(MediaError, match="longer than 10,800 seconds"):
        load_audio(day, LIMITS)


def test_larger_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.wav"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(MediaError, match="1,000,000,000,000 bytes; the maximum is 100"):
        load_audio(path, MediaOptions(max_audio_bytes=100))
    with pytest.raises(MediaError, match="101 bytes"):
        load_audio(bytes(101), MediaOptions(max_audio_bytes=100))


@pytest.mark.parametrize("path", ["absent.wav", ".", "a\0b", "/dev/null"])
def test_unreadable_path_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(MediaError):
        load_audio(tmp_path / path, LIMITS)


@pytest.mark.parametrize("name", WITHOUT_FFMPEG)
def test_other_formats_require_ffmpeg(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(MediaError, match=f"decoding {name} audio requires ffmpeg"):
        load_audio(WITHOUT_FFMPEG[name], LIMITS)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_ffmpeg_decodes_ogg_up_to_the_limit() -> None:
    expected = load_audio(speech_file("speech.wav"), LIMITS)
    loaded = load_audio(speech_file("speech.ogg"), LIMITS)
    assert loaded.duration == pytest.approx(expected.duration, abs=0.05)
    with pytest.raises(MediaError, match=r"longer than 0\.5 seconds"):
        load_audio(speech_file("speech.ogg"), MediaOptions(max_audio_seconds=0.5))
    with pytest.raises(MediaError, match="the M4A audio is damaged"):
        load_audio(WITHOUT_FFMPEG["M4A"], LIMITS)


def test_tag_before_the_content_is_skipped() -> None:
    tag = b"ID3\4\0\0" + bytes([0, 0, 1, 0]) + bytes(128)
    assert audio_format(tag + speech_file("speech.mp3").read_bytes()[:100]).name == "MP3"  # type: ignore[union-attr]
    assert audio_format(tag + b"\xff\xf1\x50\x80" + bytes(9)).name == "AAC"  # type: ignore[union-attr]
    loaded = load_audio(tag + speech_file("speech.mp3").read_bytes(), LIMITS)
    expected = load_audio(speech_file("speech.mp3"), LIMITS)
    np.testing.assert_array_equal(loaded.samples, expected.samples)
