"""Schemas of a newcomer's first hour, with the embedded model.

Before: an object with one listed property got 2,000 tokens of invented members, also with
``"strict": true``, and a list that ran into ``max_tokens`` had the finish reason ``stop``.
"""

from __future__ import annotations

import pytest
from live_server import serving_engine
from pydantic import BaseModel

from proxy_engine import CutShort, InferenceEngine

SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"], "type": "object"}
QUESTION = "Give the city of this sentence as JSON: It rains in Oslo."


class Tags(BaseModel):
    tags: list[str]


@pytest.mark.model
def test_objects_have_the_listed_properties(embedded_engine: InferenceEngine) -> None:
    result = embedded_engine.generate(QUESTION, SCHEMA, temperature=0, max_tokens=24)
    assert result.parsed.keys() == {"city"}
    assert (result.finish_reason, result.cut_short) == ("stop", None)


@pytest.mark.model
def test_answer_that_a_limit_ended_says_so(embedded_engine: InferenceEngine) -> None:
    prompt = "List tags: Ada Ada Ada Ada Ada Ada Ada Ada"
    result = embedded_engine.generate(prompt, Tags, temperature=0, max_tokens=12)
    assert result.finish_reason == "length"
    assert result.cut_short == CutShort("/tags", "max_tokens")
    with serving_engine(embedded_engine) as live:
        client = live.client()
        completion = client.chat.completions.parse(
            model="",
            messages=[{"role": "user", "content": prompt}],
            response_format=Tags,
            temperature=0,
            max_tokens=12,
        )
    # OpenAI's client would discard the complete answer for the finish reason "length".
    choice = completion.choices[0]
    assert (choice.finish_reason, choice.message.parsed) == ("stop", result.parsed)
    extension = (choice.model_extra or {})["proxy_engine"]
    assert extension["cut_short"] == {"reason": "max_tokens", "pointer": "/tags"}
