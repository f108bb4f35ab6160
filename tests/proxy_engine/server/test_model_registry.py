"""Models on this computer, and their names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tiny_whisper import write_tiny_whisper

from proxy_engine.server.models import ModelRegistry


def test_registry_finds_models_by_name(models: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    snapshot = hub / "models--org--three" / "snapshots" / "abc"
    shutil.copytree(models / "one", snapshot)
    (hub / "models--org--empty" / "snapshots").mkdir(parents=True)
    registry = ModelRegistry(str(models / "one"), (models,), ("gpt",), hub)
    names = [model.name for model in registry.models()]
    assert names[0] == "one"
    assert {"one", "two", "org/three"} <= set(names)
    assert "broken" not in names
    assert len(names) == len(set(names))
    for name in (None, "", "one", "gpt", "default_model", str(models / "one")):
        found = registry.find(name)
        assert found is not None
        assert found.name == "one"
    three = registry.find("org/three")
    assert three is not None
    assert three.directory == snapshot
    assert three.context_length == 512
    assert three.weights_bytes == (snapshot / "model.safetensors").stat().st_size > 1000
    relative = ModelRegistry(os.path.relpath(models / "one"), hub_cache=hub)
    assert relative.find(str(models / "one")) == relative.default()
    for name in ("../one", str(models / "two"), "org/empty", "no-model"):
        assert registry.find(name) is None


def test_part_of_a_name_is_no_name(models: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    for repo in ("org--Qwen3-4B", "org--Qwen3-4B-Base"):
        shutil.copytree(models / "one", hub / f"models--{repo}" / "snapshots" / "abc")
    registry = ModelRegistry(str(models / "one"), (models,), hub_cache=hub)
    for name in ("ORG/QWEN3-4b", "Qwen3-4B", "qwen", "brok"):
        assert registry.find(name) is None
        assert registry.find_draft(name) is None
    assert registry.similar_names("qwen") == ["org/Qwen3-4B", "org/Qwen3-4B-Base"]
    assert registry.similar_names("broken") == []


def test_wildcard_alias_makes_unknown_names_the_default_model(models: Path) -> None:
    write_tiny_whisper(models / "speech")
    registry = ModelRegistry(str(models / "one"), (models,), ("*",), models)

    def found(name: str, *, transcribes: bool = False) -> str | None:
        model = registry.find(name, transcribes)
        return None if model is None else model.name

    assert found("gpt-4o") == found("wo") == "one"
    assert found("two") == "two"
    assert found("whisper-1", transcribes=True) == "speech"
    assert found("x" * 1001) is None
    assert registry.find_draft("no-model") is None


def test_registry_finds_a_speech_model(models: Path) -> None:
    write_tiny_whisper(models / "speech")

    def found(default: str, *, transcribes: bool) -> str:
        registry = ModelRegistry(str(models / default), (models,), hub_cache=models)
        model = registry.find(None, transcribes)
        assert model is not None
        return model.name

    assert found("one", transcribes=False) == "one"
    assert found("one", transcribes=True) == "speech"
    assert found("speech", transcribes=True) == "speech"
    assert found("speech", transcribes=False) != "speech"
    registry = ModelRegistry(str(models / "one"), (models,), ("gpt-4o", "whisper-1"), models)
    for name in ("whisper-1", "default_model"):
        speech = registry.find(name, transcribes=True)
        assert speech is not None
        assert speech.name == "speech"
    assert registry.find("gpt-4o") == registry.default()
    # The request to the default model says that it is none.
    shutil.rmtree(models / "speech")
    assert found("two", transcribes=True) == "two"


def test_registry_finds_draft_models_by_name(models: Path) -> None:
    registry = ModelRegistry(
        str(models / "one"), (models,), hub_cache=models / "hub", draft=str(models / "two")
    )
    assert registry.default().key == ("one", "two")
    assert registry.default().draft_source == str(models / "two")
    found = registry.find("one")
    assert found is not None
    assert found.key == ("one", "two")
    other = registry.find("two")
    assert other is not None
    assert other.key == ("two",)
    for name in ("default_model", "two", str(models / "two")):
        draft = registry.find_draft(name)
        assert draft is not None
        assert draft.key == ("two",)
    # A model can draft for another one without its own draft model.
    one = registry.find_draft("one")
    assert one is not None
    assert one.key == ("one",)
    for name in ("", "../one", str(models / "one"), "no-model"):
        assert registry.find_draft(name) is None
    assert ModelRegistry(str(models / "one"), (models,)).find_draft("default_model") is None


def test_unreadable_directory_is_not_a_model(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_file = Path.is_file

    def refusing(path: Path) -> bool:
        if path.parent.name == "two":
            raise PermissionError
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    names = {model.name for model in ModelRegistry(None, (models,)).models()}
    assert "one" in names
    assert "two" not in names
