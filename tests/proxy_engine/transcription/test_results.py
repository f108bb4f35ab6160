"""Transcripts as subtitles."""

from __future__ import annotations

import math
from typing import Any

import pytest

from proxy_engine import InvalidOptionError
from proxy_engine.results.parts import Usage
from proxy_engine.transcription import TranscriptionOptions, TranscriptionOverrides
from proxy_engine.transcription.results import Transcript, TranscriptSegment


def transcript(*segments: TranscriptSegment) -> Transcript[None]:
    text = "".join(one.text for one in segments)
    return Transcript(text, segments, "en", 4.0, None, Usage(1, 1, 0.0, 0.0), "whisper")


SPOKEN = transcript(
    TranscriptSegment(0.0, 1.5, " Hello."), TranscriptSegment(3599.9996, 3725.04, " A & B <i>")
)


def test_srt_numbers_the_cues_and_uses_commas() -> None:
    assert SPOKEN.to_srt() == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello.\n\n2\n01:00:00,000 --> 01:02:05,040\nA & B <i>\n"
    )


def test_vtt_escapes_markup() -> None:
    assert SPOKEN.to_vtt() == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello.\n\n"
        "01:00:00.000 --> 01:02:05.040\nA &amp; B &lt;i&gt;\n"
    )


@pytest.mark.parametrize("text", ["a\n\nb", "a\r\nb", " a b "])
def test_line_breaks_do_not_end_a_cue(text: str) -> None:
    lines = transcript(TranscriptSegment(0, 1, text)).to_srt().splitlines()
    assert lines == ["1", "00:00:00,000 --> 00:00:01,000", "a b"]


def test_arrows_in_the_text_do_not_look_like_times() -> None:
    one = transcript(TranscriptSegment(0, 1, "a --> b"))
    assert one.to_srt().count("-->") == one.to_vtt().count("-->") == 1


def test_segments_without_text_are_left_out() -> None:
    silent = transcript(TranscriptSegment(0, 1, " "))
    assert silent.to_srt() == ""
    assert silent.to_vtt() == "WEBVTT\n"


# Options of transcriptions.


def test_keyword_arguments_are_those_of_the_model() -> None:
    assert TranscriptionOverrides.__optional_keys__ == set(TranscriptionOptions.model_fields)
    assert all(field.description for field in TranscriptionOptions.model_fields.values())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", -0.1),
        ("temperature", ()),
        ("temperature", (0.0, math.nan)),
        ("language", "e"),
        ("task", "summarize"),
        ("timestamps", True),
        ("no_speech_threshold", 1.5),
        ("seed", -1),
        ("beam_size", 5),
    ],
)
def test_wrong_value_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        TranscriptionOptions(**{option: value})
    assert caught.value.option == option


def test_one_temperature_disables_the_fallback() -> None:
    assert TranscriptionOptions(temperature=0.3).temperatures == (0.3,)
    assert len(TranscriptionOptions().temperatures) == 6
