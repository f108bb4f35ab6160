"""Requests whose answers can be enumerated, with models small enough for thousands of draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exact_conditional import Enumeration, ExactConditional
from prefix_model import PrefixModel
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import InferenceEngine, RawPrompt
from state_machines import ChoiceStateMachine, RegexStateMachine
from state_machines.root import Series, Structured

__all__ = ["ANIMALS", "CASES", "Case", "animal_cases"]

ANIMALS = ("cat", "catfish of the deep", "dog", "dogfish and shark", "horse", "platypus")
_ANIMAL_PROMPT = "My favourite animal is the"

_FIRST_ZERO = 0.9
_NEXT_ZERO = 0.25
_BITS = 5

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"enum": ["ab", "abc"]}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def _tool(name: str, argument: str, *values: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"enum": list(values)}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@dataclass(frozen=True)
class Case:
    """A request whose answers can be enumerated.

    Attributes:
        name: Its name in tables and plots.
        prompt: The prompt.
        arguments: Response format or tools, and options.
        engine: Returns an engine with a batch size; the caller closes it.
    """

    name: str
    prompt: Any
    arguments: Mapping[str, Any]
    engine: Callable[[int], InferenceEngine] = field(repr=False)

    def exact(self, engine: InferenceEngine) -> ExactConditional:
        """Enumerate the answers at temperature 1."""
        return Enumeration.of(engine, self.prompt, temperature=1.0, **self.arguments).run()


def bits_engine(batch_size: int) -> InferenceEngine:
    """Return an engine for the example of the paper: strings of five bits.

    The model begins with 0 nine times out of ten, and then hardly ever writes further zeros. If the
    grammar allows 00000 or 1 and four more bits, masking writes 00000 in nine of ten answers.
    """
    tokenizer = make_tiny_tokenizer()
    zero, one = (int(tokenizer.convert_tokens_to_ids(bit)) for bit in "01")
    end = int(tokenizer.eos_token_id)

    def probabilities(text: tuple[int, ...]) -> dict[int, float]:
        if len(text) == _BITS:
            return {end: 1.0}
        share = _NEXT_ZERO if text else _FIRST_ZERO
        return {zero: share, one: 1 - share}

    model = PrefixModel(320, (zero, one), _BITS, probabilities)
    return InferenceEngine(model, tokenizer, batch_size=batch_size)


def _tiny_engine(batch_size: int) -> InferenceEngine:
    model = make_tiny_model(context=4096)
    return InferenceEngine(model, make_tiny_tokenizer(), batch_size=batch_size)


CASES = (
    Case(
        "bits",
        "Write bits",
        {"response_format": RegexStateMachine("00000|1[01]{4}"), "max_tokens": 8},
        bits_engine,
    ),
    Case(
        "choice",
        "hello",
        {
            "response_format": ChoiceStateMachine(["ab", "abc", "abcab 12", "b", "12", "122"]),
            "max_tokens": 16,
        },
        _tiny_engine,
    ),
    Case(
        "schema",
        "hello",
        {"response_format": _SCHEMA, "max_tokens": 40},
        _tiny_engine,
    ),
    Case(
        "schema, every token sampled",
        "hello",
        {"response_format": _SCHEMA, "max_tokens": 40, "fast_forward": False},
        _tiny_engine,
    ),
    Case(
        "tool call",
        "hello",
        {
            "tools": [_tool("f", "x", 1, 12), _tool("fab", "y", "a", "ab")],
            "tool_choice": "required",
            "max_tokens": 100,
        },
        _tiny_engine,
    ),
    Case(
        "composition",
        "hello",
        {
            "response_format": Series(
                Structured("one", grammar=RegexStateMachine("[ab]{1,3}")),
                Structured("two", grammar=RegexStateMachine("c?:(12|1|2)")),
            ),
            "max_tokens": 16,
        },
        _tiny_engine,
    ),
    Case(
        "tight budget",
        "hello",
        {"response_format": RegexStateMachine("(ab|c|1){1,6}2"), "max_tokens": 4},
        _tiny_engine,
    ),
)
"""Cases with tiny models."""


def animal_cases(engine: Callable[[int], InferenceEngine]) -> tuple[Case, ...]:
    """Return the choice among animals, as an answer in a chat and as a continued text."""
    continued = ChoiceStateMachine([f" {animal}" for animal in ANIMALS])
    return (
        Case(
            "animals, chat",
            _ANIMAL_PROMPT,
            {"response_format": ChoiceStateMachine(ANIMALS)},
            engine,
        ),
        Case(
            "animals, continued text",
            RawPrompt(_ANIMAL_PROMPT),
            {"response_format": continued},
            engine,
        ),
    )
