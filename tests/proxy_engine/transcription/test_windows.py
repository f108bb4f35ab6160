"""Recordings in windows, compared with mlx-audio's transcripts of whole recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt import load
from mlx_audio.stt.models.whisper import decoding
from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram
from recordings import sine
from tiny_whisper import write_tiny_whisper

from proxy_engine import InferenceEngine
from proxy_engine.runtime.blas import widen_on_cpu
from proxy_engine.transcription import whisper
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
