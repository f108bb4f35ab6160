"""Parakeet models, by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt import load
from recordings import sine, speech_file
from tiny_parakeet import CTC_CONFIG, TDT_CONFIG, write_tiny_parakeet

from proxy_engine import InferenceEngine, InvalidOptionError, PromptError
from proxy_engine.media import MediaOptions
from proxy_engine.media.audio import load_audio

SHORT = speech_file()
CONFIGS = pytest.mark.parametrize("config", [CTC_CONFIG, TDT_CONFIG], ids=["ctc", "tdt"])


@CONFIGS
def test_transcript_is_that_of_mlx_audio(tmp_path: Path, config: dict[str, Any]) -> None:
    write_tiny_parakeet(tmp_path, config, seed=7)
    samples = load_audio(SHORT, MediaOptions()).samples
    model = load(tmp_path, model_type="parakeet")
    expected = model.generate(mx.array(samples), dtype=mx.float32)
    with InferenceEngine(tmp_path, on_progress=None) as engine:
        transcript = engine.transcribe(SHORT, timestamps="word")
        plain = engine.transcribe(SHORT, timestamps="none")
    assert expected.text
    assert transcript.text == plain.text == expected.text
    assert [one.text for one in transcript.segments] == [one.text for one in expected.sentences]
    words = [word for one in transcript.segments for word in one.words]
    assert "".join(word.text for word in words).strip() == expected.text
    assert all(0 <= word.start <= word.end <= transcript.duration for word in words)
    assert transcript.usage.completion_tokens == sum(len(one.tokens) for one in expected.sentences)


def test_parakeet_refuses_constraints_and_foreign_options(tmp_path: Path) -> None:
    write_tiny_parakeet(tmp_path, CTC_CONFIG)
    with InferenceEngine(tmp_path, on_progress=None) as engine:
        with pytest.raises(PromptError, match="without constraints"):
            engine.transcribe(SHORT, response_format={"type": "boolean"})
        foreign: list[dict[str, Any]] = [
            {"language": "de"}, {"prompt": "Names"}, {"task": "translate"}
        ]  # fmt: skip
        for options in foreign:
            with pytest.raises(InvalidOptionError) as caught:
                engine.transcribe(SHORT, **options)
            assert caught.value.option in options
        with pytest.raises(PromptError, match="transcribe"):
            engine.generate("Hello")
        assert engine.transcribe(np.zeros(10, np.float32)).duration == 10 / 16_000


def test_long_recording_is_joined_from_parts_and_can_be_cancelled(tmp_path: Path) -> None:
    write_tiny_parakeet(tmp_path, CTC_CONFIG, seed=7)
    spoken = np.tile(load_audio(SHORT, MediaOptions()).samples, 130)
    done: list[tuple[float, float]] = []
    with InferenceEngine(tmp_path, on_progress=None) as engine:
        transcript = engine.transcribe(spoken, on_progress=lambda *seconds: done.append(seconds))
        # The second part begins before 120 seconds.
        assert transcript.segments[-1].end > 121
        assert done[-1] == (transcript.duration, transcript.duration)
        stream = engine.transcribe_stream(spoken)
        stream.cancel()
        assert stream.result().finish_reason == "cancelled"
        assert engine.transcribe(sine(1.0)).finish_reason == "stop"
