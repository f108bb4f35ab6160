"""Verbatim quotes: sources of requests, results, extraction."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
import pytest

from proxy_engine import InferenceEngine, InvalidOptionError, Quotation, QuoteFrom
from proxy_engine.answers.response_format import ResponseFormatCompiler
from proxy_engine.errors import OutputValidationError, ToolSchemaError
from state_machines import (
    JsonSchemaStateMachine,
    MissingSourceError,
    SchemaError,
    UnsatisfiableSchemaError,
)

DOCUMENT = 'Invoice 4711.\nThe customer, "Müller & Söhne", ordered chairs.'


class Evidence(pydantic.BaseModel):
    kind: bool
    quote: Annotated[str, QuoteFrom("document")] = pydantic.Field(max_length=20)
    letters: Annotated[str, QuoteFrom("document", unit="chars")] = pydantic.Field(max_length=3)


def quoted(source: str, **keywords: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": 12, "x-substring-of": source, **keywords}


@pytest.mark.parametrize("seed", range(4))
def test_answer_quotes_its_source(tiny_engine: InferenceEngine, seed: int) -> None:
    result = tiny_engine.generate(
        "x", response_format=Evidence, sources={"document": DOCUMENT}, temperature=1.0, seed=seed
    )
    assert result.parsed.quote in DOCUMENT
    assert [one.pointer for one in result.quotes] == ["/quote", "/letters"]
    for one, text in zip(result.quotes, (result.parsed.quote, result.parsed.letters), strict=True):
        assert DOCUMENT[one.start : one.end] == text
        assert one.occurrences >= 1


def test_streams_and_batches_quote(tiny_engine: InferenceEngine) -> None:
    schema = quoted("document")
    arguments: dict[str, Any] = {"response_format": schema, "sources": {"document": DOCUMENT}}
    with tiny_engine.stream("x", **arguments, seed=1) as stream:
        *_, finished = stream
    assert finished.result.quotes[0].pointer == ""
    for item in tiny_engine.generate_batch(["x", "y"], **arguments, seed=2):
        assert item.parsed in DOCUMENT
        assert item.quotes


def test_prompt_is_a_source(tiny_engine: InferenceEngine) -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "second"},
        {"role": "user", "content": [{"type": "text", "text": "zebra crossing"}]},
    ]
    result = tiny_engine.generate(messages, response_format=quoted("prompt"), seed=1)
    assert result.parsed in "zebra crossing"
    own = tiny_engine.generate(
        messages, response_format=quoted("prompt"), sources={"prompt": "own"}, seed=1
    )
    assert own.parsed == "own"


def test_missing_source_is_refused_before_the_model_runs(tiny_engine: InferenceEngine) -> None:
    schema = {"type": "object", "properties": {"a": quoted("document")}}
    with pytest.raises(MissingSourceError) as caught:
        tiny_engine.generate("x", response_format=schema, sources={"other": "-"})
    assert caught.value.pointer == "/properties/a/x-substring-of"
    assert caught.value.known == ("other", "prompt")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"document": DOCUMENT, "more": "-"}, "quotes nothing from the source 'more'"),
        (["document"], "mapping from names to texts"),
        ({"document": 3}, "mapping from names to texts"),
        ({"document": "\ud800"}, "lone surrogates"),
    ],
)
def test_unusable_sources_are_refused(
    tiny_engine: InferenceEngine, sources: Any, message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        tiny_engine.generate("x", response_format=quoted("document"), sources=sources)


def test_source_without_a_quote_is_unsatisfiable(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        tiny_engine.generate("x", response_format=quoted("document"), sources={"document": ""})


def test_extraction_quotes_each_record(tiny_engine: InferenceEngine) -> None:
    class Line(pydantic.BaseModel):
        quote: Annotated[str, QuoteFrom("input")] = pydantic.Field(max_length=10)

    texts = ["Invoice 4711 of May", "twelve chairs"]
    results = tiny_engine.extract(texts, Line, seed=3, temperature=1.0, progress=False)
    for text, record in zip(texts, results, strict=True):
        assert record.value is not None
        assert record.value.quote in text
        (one,) = record.quotes
        assert text[one.start : one.end] == record.value.quote


def test_final_validation_checks_the_quotes() -> None:
    machine = JsonSchemaStateMachine(
        {"type": "array", "items": {"x-substring-of": "d"}}, sources={"d": "a/b a"}
    )
    response = ResponseFormatCompiler().compile(machine)
    assert response.quotes is not None
    assert response.quotes('["a", 1, "b a"]') == (
        Quotation("/0", "d", 0, 1, 2),
        Quotation("/2", "d", 2, 5, 1),
    )
    for text in ('["c"]', '[""]', '["b", "/b a "]'):
        with pytest.raises(OutputValidationError, match="is not a quote from 'd'"):
            response.parse(text)


def test_machines_are_cached_by_their_sources() -> None:
    compiler = ResponseFormatCompiler()
    machines = [
        compiler.compile(quoted("d"), sources=lambda text=text: {"d": text}).machine
        for text in ("one", "two", "one")
    ]
    assert machines[0] is machines[2]
    assert machines[0] is not machines[1]


def cited(source: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"quote": quoted(source)}, "required": ["quote"]}
    return {"type": "function", "function": {"name": "cite", "parameters": parameters}}


@pytest.mark.parametrize("source", ["document", "prompt"])
def test_arguments_of_tools_quote(tiny_engine: InferenceEngine, source: str) -> None:
    result = tiny_engine.generate(
        DOCUMENT,
        tools=[cited(source)],
        tool_choice="required",
        sources={"document": DOCUMENT} if source == "document" else None,
        max_tool_calls=1,
        temperature=1.0,
        seed=1,
    )
    (call,) = result.tool_calls
    assert call.arguments["quote"] in DOCUMENT


def test_tool_without_its_source_is_refused(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(ToolSchemaError, match="the source 'document' of a quote") as caught:
        tiny_engine.generate("x", tools=[cited("document")], tool_choice="required")
    assert caught.value.tool == "cite"
    assert caught.value.pointer == "/properties/quote/x-substring-of"


@pytest.mark.soak
def test_pattern_beside_a_large_source_is_bounded() -> None:
    source = " ".join(f"word{number * 7919 % 65536:x}" for number in range(20_000))
    schema = {"type": "string", "x-substring-of": "d", "pattern": "[a-z]{4}.*!!x"}
    with pytest.raises(SchemaError):
        JsonSchemaStateMachine(schema, sources={"d": source})
