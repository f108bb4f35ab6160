"""The programs in ``examples/`` run as they stand, with the embedded model or a small one."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi.testclient import TestClient
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_whisper import write_tiny_whisper

from proxy_engine.models.loading import LoadedModel

EXAMPLES = Path(__file__).parents[1] / "examples"


def program(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def small_model(
    roomy_model: Any, tiny_tokenizer: TokenizerWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = LoadedModel.of(roomy_model, tiny_tokenizer, name="tiny")
    monkeypatch.setattr("proxy_engine.engine.core.load_model", lambda *_: loaded)


@pytest.mark.usefixtures("small_model")
def test_agent_calls_tools_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    answer = program("agent_loop").main("Are there enough pears for 20 pies?")
    assert len(answer.text) <= 120
    assert answer.text in capsys.readouterr().out


@pytest.mark.usefixtures("small_model")
def test_web_service_answers_and_streams() -> None:
    with TestClient(program("fastapi_app").app) as client:
        for path in ("/people", "/people/stream"):
            reply = client.post(path, json={"text": "Ada is 36 years old."})
            assert reply.status_code == 200
            assert set(json.loads(reply.text)) == {"name", "age"}
        assert client.post("/people", json={"text": ""}).status_code == 422
        refused = client.post("/people", json={"text": "a" * 10_000})
        assert refused.status_code == 422


def test_form_is_filled_in_by_voice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = program("voice_form")
    command = module.main(str(module.RECORDING), str(write_tiny_whisper(tmp_path)))
    assert len(command.digits) == 7
    assert "form: " in capsys.readouterr().out
