"""The example program that constrains mlx-lm's loop."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "examples" / "logits_processor_mlx_lm.py"


def test_example_writes_a_person(
    tiny_model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specification = importlib.util.spec_from_file_location("logits_processor_mlx_lm", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    person = module.main(str(tiny_model_directory))
    assert module.Person.model_validate_json(capsys.readouterr().out) == person
