"""The embedded model over HTTP."""

from __future__ import annotations

import pytest
from live_server import serving_engine
from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=130)


@pytest.mark.model
def test_embedded_model_extracts_over_http(embedded_engine: InferenceEngine) -> None:
    with serving_engine(embedded_engine) as live:
        completion = live.client().chat.completions.parse(
            model="SmolLM2-135M-Instruct",
            messages=[
                {"role": "system", "content": "Extract name and age as JSON."},
                {"role": "user", "content": "Ada is 36 years old."},
            ],
            response_format=Person,
            temperature=0,
        )
    person = completion.choices[0].message.parsed
    assert person is not None
    assert (person.name, person.age) == ("Ada", 36)
    assert completion.usage is not None
    assert completion.usage.completion_tokens > 5
