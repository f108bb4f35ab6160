"""A batch of free texts beside mlx-lm's ``batch_generate``."""

from __future__ import annotations

import re

import pytest
from free_texts import main


def test_times_of_both_engines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--texts", "2", "--tokens", "5", "--repeats", "1", "--samplings", "seeded"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.partition(":")[0] for line in lines] == [
        "seeded, drafts off",
        "seeded, drafts auto",
    ]
    assert all(re.search(r"processor [0-9.]+ .*; wall [0-9.]+ ", line) for line in lines)
