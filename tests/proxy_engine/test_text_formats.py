"""Short names of response formats whose answers are texts."""

from __future__ import annotations

import pickle
import re
from typing import Annotated, Any

import pydantic
import pytest

from proxy_engine import (
    GBNF,
    Choice,
    Fenced,
    InferenceEngine,
    InvalidResponseFormatError,
    Lark,
    Regex,
    TextFormat,
    Tool,
)
from proxy_engine.answers.response_format import ResponseFormatCompiler
from state_machines import GrammarError, PatternError

FORMATS: list[tuple[TextFormat[str], str]] = [
    (Regex("[ab]{2}c"), "Regex('[ab]{2}c')"),
    (Regex("(?i)abc", syntax="rust"), "Regex('(?i)abc', syntax='rust')"),
    (Lark('start: "ab" | "cd"'), """Lark('start: "ab" | "cd"')"""),
    (Lark('go: "ab" | "cd"', start="go"), """Lark('go: "ab" | "cd"', start='go')"""),
    (GBNF('root ::= "ab" | "cd"'), """GBNF('root ::= "ab" | "cd"')"""),
    (GBNF('go ::= "ab" | "cd"', start="go"), """GBNF('go ::= "ab" | "cd"', start='go')"""),
    (Choice(["yes", "no"]), "Choice(('yes', 'no'))"),
]


@pytest.mark.parametrize(("text_format", "shown"), FORMATS)
def test_answer_is_a_text_of_the_format(
    tiny_engine: InferenceEngine, text_format: TextFormat[str], shown: str
) -> None:
    result = tiny_engine.generate("x", text_format, max_tokens=30)
    assert text_format.machine().matches(result.text)
    assert result.parsed == result.text
    fenced = tiny_engine.generate("x", Fenced(text_format, "<", ">"), max_tokens=30)
    assert text_format.machine().matches(fenced.text)


@pytest.mark.parametrize(("text_format", "shown"), FORMATS)
def test_format_is_a_value(text_format: TextFormat[str], shown: str) -> None:
    assert repr(text_format) == shown
    names = {"Regex": Regex, "Lark": Lark, "GBNF": GBNF, "Choice": Choice}
    assert eval(shown, names) == text_format
    assert pickle.loads(pickle.dumps(text_format)) == text_format
    compiler = ResponseFormatCompiler()
    first, second = (compiler.compile(eval(shown, names)).machine for _ in range(2))
    assert first is second


def test_extraction_takes_texts(tiny_engine: InferenceEngine) -> None:
    records = tiny_engine.extract(["x", "y"], Choice(["yes", "no"]), max_tokens=20, progress=False)
    assert {record.value for record in records} <= {"yes", "no"}


def test_choice_constrains_values_inside_json(tiny_engine: InferenceEngine) -> None:
    class Answer(pydantic.BaseModel):
        is_open: Annotated[str, Choice(["yes", "no"])]

    assert tiny_engine.generate("x", Answer, max_tokens=60).parsed.is_open in ("yes", "no")

    def switch(state: Annotated[str, Choice(["on", "off"])]) -> None:
        """Switch it."""

    (call,) = tiny_engine.generate(
        "x", tools=[switch], tool_choice="required", max_tokens=90
    ).tool_calls
    assert call.arguments["state"] in ("on", "off")


@pytest.mark.parametrize("text_format", [Regex("a"), Lark('start: "a"'), GBNF('root ::= "a"')])
def test_other_formats_inside_json_are_refused(text_format: TextFormat[str]) -> None:
    kind: Any = Annotated[str, text_format]
    with pytest.raises(InvalidResponseFormatError, match="cannot constrain a value inside JSON"):
        ResponseFormatCompiler().compile(kind)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Regex(5), "a regular expression is a string, not 5"),  # type: ignore[arg-type]
        (lambda: Regex(re.compile("a")), r"Regex\(pattern.pattern\)"),  # type: ignore[arg-type]
        (lambda: Regex("a", syntax="pcre"), "Known are 'ecma-262', 'rust'"),  # type: ignore[arg-type]
        (lambda: Regex("\ud800"), "lone surrogate"),
        (lambda: Lark(None), "a grammar in Lark is a string"),  # type: ignore[arg-type]
        (lambda: Lark("start: A", start=1), "start is the name of a rule"),  # type: ignore[arg-type]
        (lambda: GBNF(b"x"), "a grammar in GBNF is a string"),  # type: ignore[arg-type]
        (lambda: Choice([]), "at least one text"),
        (lambda: Choice("yes"), r'Choice\(\["yes", "no"\]\)'),
        (lambda: Choice(["yes", 1]), "a text of a choice is a string, not 1"),  # type: ignore[list-item]
    ],
)
def test_wrong_values_are_refused(make: Any, said: str) -> None:
    with pytest.raises(InvalidResponseFormatError, match=said):
        make()


@pytest.mark.parametrize(
    ("text_format", "error"),
    [(Regex("("), PatternError), (Lark("start: A"), GrammarError), (GBNF("x"), GrammarError)],
)
def test_malformed_formats_are_errors_of_the_request(
    tiny_engine: InferenceEngine, text_format: TextFormat[str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        tiny_engine.generate("x", text_format)


def test_custom_tool_takes_a_format() -> None:
    tool = Tool.from_grammar("at", Regex(r"\d\d:\d\d"), function=str.strip)
    assert tool.invoke({"input": "12:30"}) == "12:30"
