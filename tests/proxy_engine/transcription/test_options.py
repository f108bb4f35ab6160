"""Options of transcriptions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from proxy_engine import InvalidOptionError
from proxy_engine.transcription.options import TranscriptionOptions, TranscriptionOverrides


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
