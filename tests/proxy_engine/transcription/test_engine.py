"""``engine.transcribe`` end to end, with a tiny random Whisper."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt import load
from pydantic import BaseModel
from recordings import sine, speech_file

from proxy_engine import (
    AudioContent,
    EngineClosedError,
    GenerationOptions,
    InferenceEngine,
    InvalidOptionError,
    InvalidResponseFormatError,
    MediaError,
    PromptError,
    RawPrompt,
    Transcript,
)
from proxy_engine.media import MediaOptions
from proxy_engine.media.audio import load_audio
from proxy_engine.transcription.whisper import Whisper
from state_machines import RegexStateMachine
from state_machines.root import Marker, Series, Structured

SHORT = speech_file()
LONG = np.concatenate([sine(20.0), np.zeros(160_000, np.float32), sine(2.0, frequency=900.0)])


LETTERS = RegexStateMachine("[a-z0-9]{20}")


class Command(BaseModel):
    action: str
    room: int


def plain(transcript: Transcript[Any]) -> Transcript[Any]:
    """Without its times."""
    usage = replace(transcript.usage, prompt_seconds=0.0, completion_seconds=0.0)
    return replace(transcript, usage=usage)


def spoken(engine: InferenceEngine, audio: Any) -> str:
    return engine.transcribe(audio, response_format=LETTERS).text


def test_file_is_transcribed_with_times(whisper_engine: InferenceEngine) -> None:
    transcript = whisper_engine.transcribe(SHORT)
    assert transcript.text
    assert transcript.duration == pytest.approx(1.0, abs=0.1)
    assert transcript.finish_reason == "stop"
    assert transcript.parsed is None
    times = [time for one in transcript.segments for time in (one.start, one.end)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= transcript.duration
    assert transcript.text == "".join(one.text for one in transcript.segments).strip()
    assert transcript.to_srt().count("-->") == len(transcript.segments)
    assert transcript.usage.completion_tokens > len(transcript.segments)


def test_sources_of_the_same_recording_have_the_same_transcript(
    whisper_engine: InferenceEngine,
) -> None:
    samples = sine(1.0)
    stereo = np.stack([samples, samples], axis=1)
    sources: list[Any] = [samples, (samples, 16_000), stereo, (samples.astype(np.float64), 16_000)]
    assert len({spoken(whisper_engine, source) for source in sources}) == 1
    content = AudioContent(data=SHORT.read_bytes(), media_type="audio/wav")
    files: list[Any] = [SHORT, str(SHORT), SHORT.read_bytes(), content]
    assert len({spoken(whisper_engine, file) for file in files}) == 1


@pytest.mark.parametrize(
    "audio",
    [
        b"",
        b"no audio at all",
        "no_such_file.wav",
        np.zeros(0, np.float32),
        np.full(1600, np.nan, np.float32),
        np.zeros((4, 16_000, 2), np.float32),
        (np.zeros(1600, np.float32), 0),
        (np.zeros(1600, np.float32), -16_000),
        None,
        7,
    ],
)
@pytest.mark.parametrize("response_format", [None, {"type": "boolean"}])
def test_unreadable_recording_is_refused(
    whisper_engine: InferenceEngine, audio: Any, response_format: Any
) -> None:
    with pytest.raises(MediaError):
        whisper_engine.transcribe(audio, response_format=response_format)


@pytest.mark.parametrize("samples", [1, 161])
@pytest.mark.parametrize("timestamps", ["segment", "word"])
def test_recording_of_a_few_samples_is_transcribed(
    whisper_engine: InferenceEngine, samples: int, timestamps: Any
) -> None:
    transcript = whisper_engine.transcribe(
        sine(1.0)[:samples], timestamps=timestamps, temperature=0.0
    )
    assert transcript.duration == samples / 16_000
    assert all(one.end <= transcript.duration for one in transcript.segments)


def test_constrained_transcript_is_parsed(whisper_engine: InferenceEngine) -> None:
    transcript = whisper_engine.transcribe(SHORT, response_format=Command)
    assert isinstance(transcript.parsed, Command)
    assert Command.model_validate_json(transcript.text) == transcript.parsed
    (segment,) = transcript.segments
    assert (segment.start, segment.end) == (0.0, transcript.duration)
    assert segment.no_speech_prob is not None
    assert 0 <= segment.no_speech_prob <= 1


def test_no_timestamp_is_written_as_text(whisper_engine: InferenceEngine) -> None:
    pattern = RegexStateMachine(r"[^a]{20,40}")
    tokens = whisper_engine.transcribe(SHORT, response_format=pattern).segments[0].tokens
    assert all(token < 50257 for token in tokens[:-1])


def test_masked_tokens_are_the_best_allowed_ones_of_mlx_audios_decoder(
    whisper_directory: Path,
) -> None:
    machine = RegexStateMachine("[a-m]{3}-[n-z0-4]{4}|[0-9 ]{6,9}!")
    options = GenerationOptions(fast_forward=False)
    with InferenceEngine(whisper_directory, options=options, on_progress=None) as engine:
        transcript = engine.transcribe(SHORT, response_format=machine, language="de")
        matcher = machine.matcher(engine.vocabulary)
    model = load(whisper_directory)
    whisper = Whisper(model)
    samples = load_audio(SHORT, MediaOptions()).samples
    states = whisper.encode(whisper.window(whisper.spectrogram(samples), 0, 3000))
    tokens = whisper.prompt_tokens("de", "transcribe", "")
    for token in transcript.segments[0].tokens:
        logits = np.array(model.decoder(mx.array([tokens]), states)[0][0, -1].astype(mx.float32))
        allowed = np.array(matcher.allowed_tokens())
        best = logits[allowed].max()
        assert allowed[token]
        assert logits[token] >= best - 0.02 * abs(best)
        matcher.advance(token)
        tokens.append(token)
    assert matcher.is_finished


def test_recording_is_encoded_into_the_prompt_cache_once(whisper_directory: Path) -> None:
    with InferenceEngine(whisper_directory, on_progress=None) as engine:
        first = engine.transcribe(SHORT, response_format={"type": "boolean"})
        again = engine.transcribe(SHORT, response_format={"type": "boolean"})
        other = engine.transcribe(sine(1.0), response_format={"type": "boolean"}, language="en")
    assert first.usage.cached_tokens == 0
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
    assert other.usage.cached_tokens == 0
    assert again.text == first.text


def test_constrained_recording_has_one_window(whisper_engine: InferenceEngine) -> None:
    with pytest.raises(MediaError, match="30"):
        whisper_engine.transcribe(np.zeros(16_000 * 31), response_format={"type": "boolean"})


def test_invalid_format_or_option_is_refused_by_the_call(whisper_engine: InferenceEngine) -> None:
    with pytest.raises(InvalidResponseFormatError):
        whisper_engine.transcribe_stream(SHORT, response_format={"type": "nothing"})
    with pytest.raises(InvalidOptionError) as caught:
        whisper_engine.transcribe_stream(SHORT, language="klingon")
    assert caught.value.option == "language"
    with pytest.raises(InvalidOptionError, match="words"):
        whisper_engine.transcribe(SHORT, timestamps="word", response_format={"type": "boolean"})
    with pytest.raises(InvalidOptionError, match="beams"):
        whisper_engine.transcribe(SHORT, beams=5)  # type: ignore[call-arg]
    formats: list[Any] = [None, {"type": "text"}, Structured("digits", grammar=LETTERS)]
    for response_format in formats:
        with pytest.raises(InvalidOptionError) as caught:
            whisper_engine.transcribe_stream(SHORT, response_format, lead_in="please")
        assert caught.value.option == "lead_in"


def test_composition_of_parts_follows_a_space(whisper_engine: InferenceEngine) -> None:
    digits = RegexStateMachine("[0-9]{3}")
    parts = Series(Structured("first", grammar=digits), Marker("dash", "-"))
    transcript = whisper_engine.transcribe(SHORT, parts, language="en")
    assert digits.matches(transcript.text)
    assert transcript.parsed == transcript.text


@pytest.mark.parametrize("language", ["de", " GERMAN "])
def test_language_is_a_code_or_a_name(whisper_engine: InferenceEngine, language: str) -> None:
    assert whisper_engine.transcribe(SHORT, language=language, temperature=0.0).language == "de"


def test_long_recording_is_transcribed_in_windows(whisper_engine: InferenceEngine) -> None:
    done: list[tuple[float, float]] = []
    transcript = whisper_engine.transcribe(
        LONG, temperature=0.0, on_progress=lambda *seconds: done.append(seconds)
    )
    assert [one for one, _ in done] == sorted({one for one, _ in done})
    assert done[-1] == (32.0, 32.0)
    starts = [one.start for one in transcript.segments]
    assert starts == sorted(starts)
    assert len({one.window_start for one in transcript.segments}) > 1


def test_windows_without_speech_are_left_out(whisper_engine: InferenceEngine) -> None:
    transcript = whisper_engine.transcribe(
        LONG, temperature=0.0, no_speech_threshold=0.0, logprob_threshold=None
    )
    assert (transcript.text, transcript.segments) == ("", ())
    assert transcript.duration == 32.0


def test_repetitive_text_is_decoded_again_at_higher_temperatures(
    whisper_engine: InferenceEngine,
) -> None:
    bounds = {"compression_ratio_threshold": 0.01, "no_speech_threshold": None}
    transcript = whisper_engine.transcribe(SHORT, temperature=(0.0, 0.7), **bounds)  # type: ignore[arg-type]
    assert {one.temperature for one in transcript.segments} <= {0.7}
    # The prompt of a window has three tokens.
    usage = transcript.usage
    assert (usage.prompt_tokens - usage.audio_tokens) % 6 == 0


def test_words_lie_within_the_recording(whisper_engine: InferenceEngine) -> None:
    transcript = whisper_engine.transcribe(SHORT, timestamps="word", temperature=0.0)
    words = [word for one in transcript.segments for word in one.words]
    assert words
    assert all(0 <= word.start <= word.end <= transcript.duration for word in words)
    assert all(0 <= word.probability <= 1 for word in words)
    spoken = "".join(word.text for word in words)
    assert spoken == "".join(one.text for one in transcript.segments)


def test_transcript_without_timestamps_has_a_segment_for_each_window(
    whisper_engine: InferenceEngine,
) -> None:
    transcript = whisper_engine.transcribe(LONG, timestamps="none", temperature=0.0)
    assert [one.window_start for one in transcript.segments] == [0.0, 30.0]


def test_samples_depend_on_the_seed_alone(whisper_engine: InferenceEngine) -> None:
    draws = [whisper_engine.transcribe(SHORT, temperature=1.0, seed=seed) for seed in (1, 2, 1)]
    assert draws[0].segments == draws[2].segments != draws[1].segments


def test_simultaneous_transcriptions_equal_single_ones(whisper_engine: InferenceEngine) -> None:
    calls: list[dict[str, Any]] = [
        {"audio": SHORT, "temperature": (0.0, 1.0)},
        {"audio": SHORT, "response_format": Command},
        {"audio": sine(3.0), "response_format": Command, "language": "en"},
    ]
    single = [plain(whisper_engine.transcribe(**call)) for call in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        together = list(threads.map(lambda call: whisper_engine.transcribe(**call), calls))
    for one, other in zip(single, together, strict=True):
        assert (other.text, other.language) == (one.text, one.language)
        assert other.segments == one.segments


def test_constrained_requests_of_a_batch_hear_their_own_recordings(
    whisper_directory: Path,
) -> None:
    recordings = [SHORT, np.random.default_rng(2).normal(0, 0.3, 400_000), sine(28.0)]
    options = GenerationOptions(logprobs=0)

    def logprob(audio: Any) -> float:
        transcript = engine.transcribe(audio, response_format=LETTERS, language="en")
        assert transcript.segments[0].avg_logprob is not None
        return transcript.segments[0].avg_logprob

    with InferenceEngine(whisper_directory, options=options, on_progress=None) as engine:
        single = [logprob(audio) for audio in recordings]
        with ThreadPoolExecutor(3) as threads:
            together = list(threads.map(logprob, recordings))
    assert together == pytest.approx(single, rel=0.01)
    assert all(abs(a - b) > 0.05 * abs(a) for a, b in combinations(single, 2))


def test_cancelled_stream_keeps_what_was_transcribed(whisper_engine: InferenceEngine) -> None:
    stream = whisper_engine.transcribe_stream(LONG, temperature=0.0)
    first = next(stream)
    stream.cancel()
    transcript = stream.result()
    assert transcript.finish_reason == "cancelled"
    assert transcript.segments[0] == first
    assert transcript.segments[-1].end < 32.0
    # The engine is free for the next one.
    assert whisper_engine.transcribe(SHORT, temperature=0.0).finish_reason == "stop"


def test_closed_stream_has_no_transcript(whisper_engine: InferenceEngine) -> None:
    stream = whisper_engine.transcribe_stream(LONG)
    stream.close()
    assert list(stream) == []
    with pytest.raises(RuntimeError):
        stream.result()


def test_cancelled_task_stops_the_transcription(whisper_engine: InferenceEngine) -> None:
    begun = threading.Event()

    async def run() -> None:
        task = asyncio.create_task(
            whisper_engine.atranscribe(
                np.tile(LONG, 10), temperature=0.0, on_progress=lambda *_: begun.set()
            )
        )
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await whisper_engine.atranscribe(SHORT, temperature=0.0)).finish_reason == "stop"

    asyncio.run(run())


def test_closing_the_engine_ends_a_transcription(whisper_directory: Path) -> None:
    begun = threading.Event()
    engine = InferenceEngine(whisper_directory, on_progress=None)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(
            engine.transcribe,
            np.tile(LONG, 20),
            temperature=0.0,
            on_progress=lambda *_: begun.set(),
        )
        assert begun.wait(60)
        engine.close()
        with pytest.raises(EngineClosedError):
            running.result(60)


def test_speech_model_answers_no_prompts(whisper_engine: InferenceEngine) -> None:
    for prompt in ("Hello", RawPrompt("Hello")):
        with pytest.raises(PromptError, match="transcribe"):
            whisper_engine.generate(prompt)


def test_text_model_transcribes_nothing(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(PromptError, match="speech model"):
        tiny_engine.transcribe(SHORT)
