"""Transcripts in the response formats of ``/v1/audio``."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from proxy_engine import Transcript, TranscriptSegment, TranscriptWord
from proxy_engine.results.parts import Usage
from proxy_engine.server.endpoints.transcriptions import TranscriptEncoder

SEGMENTS = (
    TranscriptSegment(
        start=0.0,
        end=1.5,
        text=" Hello there.",
        tokens=(50364, 7, 50439),
        temperature=0.2,
        avg_logprob=-0.25,
        compression_ratio=0.9,
        no_speech_prob=0.01,
        words=(TranscriptWord(" Hello", 0.0, 0.5, 0.9), TranscriptWord(" there.", 0.5, 1.5, 0.8)),
    ),
    TranscriptSegment(start=31.0, end=33.0, text=" Zoë & Li", window_start=30.0),
)
TRANSCRIPT = Transcript(
    text=" Hello there. Zoë & Li",
    segments=SEGMENTS,
    language="en",
    duration=34.5,
    parsed=None,
    usage=Usage(7, 5, 0.1, 0.1, audio_tokens=3),
    model="whisper",
)


def encoded(form: Any, granularities: tuple[str, ...] = ("segment",)) -> Any:
    encoder = TranscriptEncoder(form, "transcribe", granularities)
    list(encoder.encode(0, TRANSCRIPT))
    reply = encoder.reply()
    text = bytes(reply.body).decode()
    assert reply.media_type == ("application/json" if "json" in form else "text/plain")
    return json.loads(text) if "json" in form else text


def test_verbose_json_has_openais_fields() -> None:
    verbose = encoded("verbose_json")
    first, second = verbose.pop("segments")
    assert verbose == {
        "task": "transcribe",
        "language": "english",
        "duration": 34.5,
        "text": "Hello there. Zoë & Li",
        "usage": {"type": "duration", "seconds": 34.5},
    }
    assert first == {
        "id": 0,
        "seek": 0,
        "start": 0.0,
        "end": 1.5,
        "text": " Hello there.",
        "tokens": [50364, 7, 50439],
        "temperature": 0.2,
        "avg_logprob": -0.25,
        "compression_ratio": 0.9,
        "no_speech_prob": 0.01,
    }
    assert (second["id"], second["seek"], second["avg_logprob"]) == (1, 3000, None)


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "german"), ("yue", "cantonese"), ("zh", "chinese"), (None, None), ("tlh", "tlh")],
)
def test_verbose_json_names_the_language_in_english(code: str | None, name: str | None) -> None:
    encoder = TranscriptEncoder("verbose_json", "transcribe", ())
    list(encoder.encode(0, replace(TRANSCRIPT, language=code)))
    reply = encoder.reply()
    assert json.loads(bytes(reply.body))["language"] == name


@pytest.mark.parametrize(
    ("granularities", "present"),
    [(("word",), {"words"}), (("segment",), {"segments"}), (("word", "segment"), {"words", "segments"})],
)  # fmt: skip
def test_verbose_json_has_the_requested_granularities(
    granularities: tuple[str, ...], present: set[str]
) -> None:
    verbose = encoded("verbose_json", granularities)
    assert verbose.keys() & {"words", "segments"} == present
    if "words" in present:
        assert verbose["words"] == [
            {"word": "Hello", "start": 0.0, "end": 0.5},
            {"word": "there.", "start": 0.5, "end": 1.5},
        ]
