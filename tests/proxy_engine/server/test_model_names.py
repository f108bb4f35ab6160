"""Short names of models."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.server.model_names import models_by_short_name


@dataclass(frozen=True)
class Model:
    name: str


LETTERS = st.text("aAbB-1", min_size=1, max_size=4)
NAMES = st.one_of(LETTERS, st.builds("{}/{}".format, LETTERS, LETTERS))
MODELS = st.lists(NAMES.map(Model), unique=True, max_size=6)


def names(short: str, models: list[Model]) -> list[str]:
    return [model.name for model in models_by_short_name(short, models)]


def test_more_exact_matches_take_precedence() -> None:
    models = [
        Model(name) for name in ("a/Qwen3-4B", "b/qwen3-4b-base", "b/Qwen", "c/qwen", "qwen3")
    ]
    assert names("A/QWEN3-4b", models) == ["a/Qwen3-4B"]
    assert names("qwen3-4b", models) == ["a/Qwen3-4B"]
    assert names("4b", models) == ["a/Qwen3-4B", "b/qwen3-4b-base"]
    assert names("QWEN", models) == ["b/Qwen", "c/qwen"]
    assert names("b/qwen", models) == ["b/Qwen"]
    assert names("qwen3-4b-inst", models) == []
    assert names("", models) == []


@given(MODELS, NAMES)
def test_only_whole_components_match_if_required(models: list[Model], short: str) -> None:
    wanted = short.casefold()
    found = models_by_short_name(short, models, components_only=True)
    assert all(
        wanted in (one.name.casefold(), one.name.casefold().rpartition("/")[2]) for one in found
    )
    assert not found or [one.name for one in found] == names(short, models)


@given(MODELS, st.data())
def test_full_name_in_any_case_matches_only_equal_names(
    models: list[Model], data: st.DataObject
) -> None:
    if not models:
        return
    name = data.draw(st.sampled_from(models)).name
    for written in (name, name.upper(), name.lower()):
        found = names(written, models)
        assert name in found
        assert {other.casefold() for other in found} == {name.casefold()}
