"""The first hour with speech: the embedded speech model on recordings of a synthetic voice."""

from __future__ import annotations

from pathlib import Path

from recordings import speech_file

from proxy_engine import InferenceEngine
from state_machines import ChoiceStateMachine, RegexStateMachine

CALL = Path(__file__).parents[2] / "examples" / "call.wav"
PHONE = RegexStateMachine(r"\d{3}-\d{4}")
COMMANDS = ["lights on", "lights off", "volume up", "play music", "stop", "next song", "hang up"]


def test_number_is_heard(speech_engine: InferenceEngine) -> None:
    # Without the space that Whisper begins with, it was 800-8675.
    transcript = speech_engine.transcribe(speech_file("number.wav"), PHONE)
    assert (transcript.text, transcript.parsed) == ("867-5309", "867-5309")
    assert transcript.segments[0].text == "867-5309"
    usage = transcript.usage
    assert usage.audio_tokens == 101
    assert usage.prompt_tokens == usage.audio_tokens + 2


def test_command_is_heard(speech_engine: InferenceEngine) -> None:
    # It was "lights on".
    commands = ChoiceStateMachine(COMMANDS)
    assert speech_engine.transcribe(speech_file("command.wav"), commands).text == "next song"


def test_words_before_a_number_are_left_out(speech_engine: InferenceEngine) -> None:
    with speech_engine.transcribe_stream(CALL, PHONE, lead_in=r"\D*") as stream:
        (segment,) = stream
        transcript = stream.result()
    assert (transcript.lead_in, transcript.text) == ("Please call", "555-1234")
    assert segment.text == transcript.parsed == "555-1234"
