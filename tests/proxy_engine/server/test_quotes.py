"""Verbatim quotes in chats, responses and completions."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

DOCUMENT = "Zebra crossing, twelve chairs."


def quoted(source: str) -> dict[str, Any]:
    return {"type": "string", "x-substring-of": source, "maxLength": 14}


def json_schema(source: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "quote", "schema": quoted(source)}}


def chat(client: openai.OpenAI, source: str, **extra: Any) -> Any:
    return client.chat.completions.create(
        model=client.models.list().data[0].id,
        messages=[{"role": "user", "content": DOCUMENT}],
        response_format=json_schema(source),  # type: ignore[call-overload]
        max_tokens=60,
        seed=1,
        extra_body=extra,
    )


@pytest.mark.parametrize(("source", "extra"), [("d", {"sources": {"d": DOCUMENT}}), ("prompt", {})])
def test_chat_quotes_its_source(client: openai.OpenAI, source: str, extra: dict[str, Any]) -> None:
    (choice,) = chat(client, source, **extra).choices
    text = json.loads(choice.message.content)
    (quote,) = choice.model_extra["proxy_engine"]["quotes"]
    assert (quote["pointer"], quote["source"]) == ("", source)
    assert DOCUMENT[quote["start"] : quote["end"]] == text


def test_missing_source_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="the source 'd' of a quote is not given"):
        chat(client, "d", sources={"e": DOCUMENT})


def test_response_quotes_its_source(client: openai.OpenAI) -> None:
    response = client.responses.create(
        model=client.models.list().data[0].id,
        input="x",
        text={"format": {"type": "json_schema", "name": "quote", "schema": quoted("d")}},
        max_output_tokens=60,
        extra_body={"sources": {"d": DOCUMENT}, "seed": 1},
    )
    (quote,) = response.model_extra["proxy_engine"]["quotes"]  # type: ignore[index]
    assert DOCUMENT[quote["start"] : quote["end"]] == json.loads(response.output_text)
