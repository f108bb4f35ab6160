from __future__ import annotations

from pathlib import Path

import pytest
from vision_models import (
    AUDIO_ARCHITECTURES,
    sample_recording,
    vision_checkpoint,
)
from vision_reference import reference_prompt, reference_tokens

# Of the feature extractor of gemma4, with the numbers of all its checkpoints.
pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filter has all zero values")


@pytest.mark.parametrize("name", AUDIO_ARCHITECTURES)
def test_answers_of_a_model_that_reads_audio_depend_on_the_recording(
    name: str, tmp_path: Path
) -> None:
    path = vision_checkpoint(name, tmp_path / name)
    prompt = reference_prompt(path, "What is this?", recordings=1)

    answers = [
        reference_tokens(path, prompt, recordings=[sample_recording(seed)]) for seed in range(2)
    ]

    assert answers[0] != answers[1]
