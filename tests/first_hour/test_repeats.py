"""Tools and lists in a newcomer's first hour, with the embedded model.

Before: the tool recipe printed the same call 16 times, and a list of tags repeated one tag until the
tokens ran out.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from proxy_engine import InferenceEngine
from proxy_engine.results.parts import CutShort


class Person(BaseModel):
    name: str
    tags: list[str]


def test_no_call_and_no_item_comes_again_and_again(embedded_engine: InferenceEngine) -> None:
    made = []

    def weather(city: Literal["Lima", "Oslo"]) -> str:
        """Return the weather."""
        made.append(city)
        return f"sun in {city}"

    run = embedded_engine.run_tools(
        "Will it rain in Oslo?", [weather], tool_choice="required", max_rounds=2, max_tokens=40
    )
    assert len(run.conversation[1].tool_calls) == 1
    assert len(made) == len(set(made)) > 0

    tagged = embedded_engine.generate(
        "Tags for Ada, Ada, Ada, Ada, Ada:", response_format=Person, temperature=0
    )
    assert tagged.cut_short == CutShort("/tags", "repetition")
    assert tagged.finish_reason == "stop"
    assert 3 < len(tagged.parsed.tags) < 20
