"""Events: frozen, told apart by their type, and themselves again after a trip through JSON."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from proxy_engine.results import events

EVENTS: list[events.Event] = [
    events.PromptProgress(processed=1, total=2),
    events.TextDelta(text="ä", part="answer"),
    events.ReasoningDelta(text="hm"),
    events.ToolCallStarted(index=0, id="a", name="f"),
    events.ToolCallDelta(index=0, id="a", arguments='{"x":'),
    events.ToolCallFinished(index=0, id="a", name="f", arguments={"x": [1, None]}),
    events.PartialValue(value={"a": [1]}),
    events.Finished(result={"text": "x"}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_round_trip_through_json(event: events.Event) -> None:
    assert events.EVENT_ADAPTER.validate_json(event.model_dump_json()) == event


def test_every_event_has_a_type_of_its_own() -> None:
    types: set[Any] = {event.model_dump()["type"] for event in EVENTS}
    assert len(types) == len(EVENTS)


def test_events_do_not_change() -> None:
    with pytest.raises(pydantic.ValidationError):
        EVENTS[1].text = "other"  # type: ignore[attr-defined]
    with pytest.raises(pydantic.ValidationError):
        events.TextDelta(text="x", more=1)  # type: ignore[call-arg]
