"""Recordings in windows, compared with mlx-audio's transcripts of whole recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_audio.stt import load
from mlx_audio.stt.models.whisper import decoding
from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram
from recordings import sine
from tiny_whisper import FIRST_SPECIAL, write_tiny_whisper

from proxy_engine import InferenceEngine
from proxy_engine.generation.model_checks import ModelChecks
from proxy_engine.generation.output_layer import OutputLayer
from proxy_engine.runtime.blas import widen_on_cpu
from proxy_engine.transcription import whisper
from proxy_engine.transcription.whisper import Whisper
from proxy_engine.transcription.windows import TimestampRules

NOISE = np.random.default_rng(3).normal(0, 0.1, 16_000 * 12).astype(np.float32)
LONG = np.concatenate([sine(25.0), NOISE, sine(26.0, frequency=700.0)])


@pytest.mark.parametrize(
    ("timestamps", "changes"),
    [
        ("word", {"language": "en"}),
        ("segment", {"language": "de", "condition_on_previous_text": False}),
        ("none", {"language": None, "no_speech_threshold": None, "logprob_threshold": None}),
    ],
)
def test_segments_equal_mlx_audios_with_corrected_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timestamps: Any, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(decoding, "ApplyTimestampRules", TimestampRules)
    write_tiny_whisper(tmp_path, seed=3)
    prompt, duration = "the a in", 63.0
    options = {"temperature": 0.0, **changes}
    # The engine computes in float32 on a CPU.
    model = load(tmp_path, model_type="whisper")
    widen_on_cpu(model, "whisper")
    model.dtype = mx.float32
    expected = model.generate(
        LONG,
        word_timestamps=timestamps == "word",
        return_timestamps=timestamps != "none",
        initial_prompt=prompt,
        fp16=False,
        **options,
    )
    with InferenceEngine(tmp_path, on_progress=None) as engine:
        transcript = engine.transcribe(LONG, timestamps=timestamps, prompt=prompt, **options)
    assert transcript.text == expected.text.strip()
    segments = [one for one in expected.segments if one["text"].strip()]
    assert len(segments) > 1
    assert [(one.text, list(one.tokens)) for one in transcript.segments] == [
        (one["text"], one["tokens"]) for one in segments
    ]
    for own, other in zip(transcript.segments, segments, strict=True):
        assert own.start == pytest.approx(min(other["start"], duration))
        assert own.end == pytest.approx(min(other["end"], duration))
        assert own.window_start == pytest.approx(other["seek"] / 100)
        assert own.avg_logprob == pytest.approx(other["avg_logprob"], rel=1e-3)
        assert own.no_speech_prob == pytest.approx(other["no_speech_prob"], rel=1e-3)
        assert own.compression_ratio == pytest.approx(other["compression_ratio"])
        assert [word.text for word in own.words] == [
            word["word"] for word in other.get("words", ())
        ]
        assert [word.end for word in own.words] == pytest.approx(
            [min(word["end"], duration) for word in other.get("words", ())]
        )


@pytest.mark.parametrize("seconds", [0.5, 10.003])
def test_spectrogram_in_blocks_equals_mlx_audios(
    whisper_directory: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(whisper, "_BLOCK_FRAMES", 300)
    samples = np.concatenate([NOISE * 0.01, sine(3.0), NOISE])[: round(seconds * 16_000)]
    expected = log_mel_spectrogram(samples, n_mels=80, padding=480_000)
    found = whisper.Whisper(load(whisper_directory, model_type="whisper")).spectrogram(samples)
    assert found.shape == expected.shape
    assert mx.allclose(found, expected, atol=1e-5).item()


# Whisper's decoder in the loop, and the rules of timestamps.


FIRST_TIME = FIRST_SPECIAL + 107
END = FIRST_SPECIAL


def model_and_states(directory: Path) -> tuple[Any, Whisper, mx.array]:
    model = load(directory)
    whisper = Whisper(model)
    window = whisper.window(whisper.spectrogram(sine(2.0)), 0, 3000)
    return model, whisper, whisper.encode(window)


def test_logits_equal_mlx_audios_in_passes_of_any_length(whisper_directory: Path) -> None:
    model, whisper, states = model_and_states(whisper_directory)
    tokens = mx.array([[50258, 50259, 50359, 50363, 10, 20, 30, 40]])
    expected = model.decoder(tokens, states)[0]
    cache = whisper.decoder.make_cache()
    whisper.decoder.attend_to(states, cache)
    parts = [whisper.decoder(tokens[:, a:b], cache) for a, b in ((0, 3), (3, 7), (7, 8))]
    found = mx.concatenate(parts, axis=1)
    assert mx.abs(found - expected).max().item() <= 0.01 * mx.abs(expected).max().item()


def test_loop_can_batch_the_decoder_and_split_off_its_output_layer(
    whisper_directory: Path,
) -> None:
    _, whisper, _ = model_and_states(whisper_directory)
    probe = ModelChecks(whisper.decoder)
    assert probe.can_decode()
    assert probe.can_pad()
    assert OutputLayer.of(whisper.decoder) is not None


class _Tokens:
    """The tokens that the rules know."""

    no_timestamps = FIRST_SPECIAL + 106
    timestamp_begin = FIRST_TIME
    eot = END


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), peak=st.floats(0, 8), steps=st.integers(1, 12))
def test_timestamps_come_in_pairs_and_never_decrease(seed: int, peak: float, steps: int) -> None:
    numbers = np.random.default_rng(seed)
    rules = TimestampRules(_Tokens(), 3, 50)
    written: list[int] = []
    for _ in range(steps):
        logits = numbers.normal(0, 1, 51865)
        logits[FIRST_TIME:] += peak
        tokens = mx.array([[1, 2, 3, *written]])
        allowed = np.array(rules.apply(mx.array(logits[None], mx.float32), tokens)[0])
        assert np.isfinite(allowed.max())
        written.append(int(allowed.argmax()))
        if written[-1] == END:
            break
    times = [token - FIRST_TIME for token in written if token >= FIRST_TIME]
    assert times == sorted(times)
    assert times[0] <= 50
    # No segment is empty, and at most two timestamps follow each other.
    is_time = [token >= FIRST_TIME for token in written]
    assert all(
        not (a and b and c) for a, b, c in zip(is_time, is_time[1:], is_time[2:], strict=False)
    )
    for at in range(1, len(written) - 1):
        if not is_time[at] and is_time[at + 1]:
            before = [token for token in written[: at + 1] if token >= FIRST_TIME]
            assert written[at + 1] > before[-1]
