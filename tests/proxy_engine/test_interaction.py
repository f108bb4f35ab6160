"""Interactions: typed, immutable, and themselves again after a trip through JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine import Interaction, JsonContent, PromptError, Role, TextContent

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
contents = st.builds(TextContent, st.text()) | st.builds(JsonContent, json_values)
interactions = st.builds(
    Interaction,
    st.sampled_from(Role),
    st.text() | contents | st.lists(contents, max_size=3),
    metadata=st.dictionaries(st.text(), json_values, max_size=3),
    id=st.none() | st.text(min_size=1),
    created_at=st.none() | st.datetimes(timezones=st.just(UTC)),
)


@given(interactions)
def test_round_trip_through_json(interaction: Interaction) -> None:
    written = json.loads(json.dumps(interaction.to_dict()))
    assert Interaction.from_dict(written) == interaction


@given(interactions)
def test_message_has_the_text_of_all_parts(interaction: Interaction) -> None:
    assert interaction.to_message() == {"role": str(interaction.role), "content": interaction.text}
    assert interaction.text == "".join(part.to_text() for part in interaction.content)


def test_identity_and_time_are_given() -> None:
    first, second = Interaction("user", "x"), Interaction("user", "x")
    assert first.id != second.id
    assert first.created_at.tzinfo is not None


def test_metadata_is_a_copy_and_read_only() -> None:
    metadata = {"a": 1}
    interaction = Interaction("user", "x", metadata=metadata)
    metadata["a"] = 2
    assert interaction.metadata == {"a": 1}
    with pytest.raises(TypeError):
        interaction.metadata["a"] = 3  # type: ignore[index]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"role": "user"},
        {"role": "nobody", "content": "x"},
        {"role": "user", "content": [{"type": "image"}]},
        {"role": "user", "content": [{"type": "text", "text": 1}]},
        {"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]},
        {"role": "user", "content": "x", "created_at": "yesterday"},
        {"role": "user", "content": "x", "created_at": "2026-01-01T00:00:00"},
        {"role": "user", "content": "x", "name": "x"},
    ],
)
def test_malformed_dicts_are_refused(value: dict[str, Any]) -> None:
    with pytest.raises(PromptError):
        Interaction.from_dict(value)


def test_malformed_parts_are_refused() -> None:
    with pytest.raises(PromptError):
        Interaction("user", [1])  # type: ignore[list-item]
    with pytest.raises(PromptError):
        Interaction("user", "x", created_at=datetime(2026, 1, 1))
