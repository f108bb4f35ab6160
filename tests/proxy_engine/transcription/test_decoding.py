"""Whisper's decoder in the loop, and the rules of timestamps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_audio.stt import load
from recordings import sine
from tiny_whisper import FIRST_SPECIAL

from proxy_engine.generation.model_checks import ModelChecks
from proxy_engine.generation.output_layer import OutputLayer
from proxy_engine.transcription.whisper import Whisper
from proxy_engine.transcription.windows import TimestampRules

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
