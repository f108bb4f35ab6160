"""An engine whose model several ranks share."""

from __future__ import annotations

import json
from pathlib import Path

import engine_answers
from ranks import run_ranks
from written_models import written_model

from proxy_engine import InferenceEngine


def test_ranks_generate_the_tokens_of_one_process(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    tiny = tiny_model_directory
    directories = [
        written_model(tmp_path / "qwen3", tiny, "qwen3"),
        # Three heads do not divide by two ranks: a pipeline.
        written_model(
            tmp_path / "qwen2", tiny, "qwen2", num_attention_heads=3, num_key_value_heads=3
        ),
    ]
    printed = run_ranks(2, [engine_answers.__file__, *map(str, directories)])[0]
    lines = [line for line in printed.splitlines() if line.startswith("[[")]
    assert len(lines) == len(directories)
    for directory, line in zip(directories, lines, strict=True):
        with InferenceEngine(directory, batch_size=4) as engine:
            expected = engine_answers.answers(engine)
        assert json.loads(line) == json.loads(json.dumps(expected)), directory
