"""Releasing a machine frees its states without a run of the cyclic garbage collector."""

import gc
import json
from collections.abc import Iterator
from typing import Any
from weakref import ref

import pytest

from state_machines import GrammarStateMachine, JsonSchemaStateMachine, Vocabulary
from state_machines.json_schema.grammar.translator import Translator
from state_machines.matcher import Matcher

_TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "properties": {
                "name": {"type": "string"},
                "below": {"items": {"$ref": "#/$defs/tree"}},
            },
            "type": "object",
        }
    },
}
_SCHEMAS: list[tuple[Any, Any]] = [
    (True, {"a": [1, {"b": None}], "c": "d"}),
    (_TREE, {"name": "a", "below": [{"name": "b", "below": [{}]}], "other": [1, 2]}),
    ({"uniqueItems": True, "items": {"type": ["string", "array"]}}, ["a", "b", ["c"], []]),
    (
        {
            "patternProperties": {"^x": {"type": "integer"}},
            "minProperties": 2,
            "not": {"enum": [1]},
        },
        {"x1": 1, "y": {"x": 1}, "x2": 2},
    ),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"], "not": {"required": ["c"]}}]}, {"b": 1}),
]


@pytest.fixture
def vocabulary() -> Vocabulary:
    pieces = [bytes((byte,)) for byte in range(0x20, 0x7F)]
    pieces += [b'": ', b'", "', b'{"', b'"}', b"}}", b"[{", b"}]", b"], ", b'["', b'"]']
    return Vocabulary([*pieces, b"<end>"], end_token_ids=[len(pieces)])


@pytest.fixture(scope="module")
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _written(matcher: Matcher, text: str) -> None:
    for byte in text.encode():
        token = byte - 0x20
        assert matcher.allowed_tokens()[token]
        matcher.advance(token)


@pytest.mark.parametrize(("schema", "value"), _SCHEMAS)
@pytest.mark.usefixtures("no_collector")
def test_releasing_a_machine_frees_its_states(
    vocabulary: Vocabulary, schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    translators: list[ref[Translator]] = []
    made = Translator.__init__

    def noted(self: Translator, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        translators.append(ref(self))

    monkeypatch.setattr(Translator, "__init__", noted)
    machine = JsonSchemaStateMachine(schema)
    first = ref(machine.start)
    for _ in range(2):
        matcher = machine.matcher(vocabulary)
        _written(matcher, json.dumps(value))
        assert matcher.is_accepting
        del matcher
    del machine
    assert first() is None
    assert translators[0]() is None


@pytest.mark.parametrize(("schema", "value"), _SCHEMAS)
def test_matcher_works_after_its_machine_was_released(
    vocabulary: Vocabulary, schema: Any, value: Any
) -> None:
    text = json.dumps(value)
    for cut in (0, len(text) // 2, len(text) - 1):
        machine = JsonSchemaStateMachine(schema)
        matcher = machine.matcher(vocabulary)
        _written(matcher, text[:cut])
        before = matcher.allowed_tokens().copy()
        del machine
        assert (matcher.allowed_tokens() == before).all()
        _written(matcher, text[cut:])
        assert matcher.is_accepting


def test_states_walked_for_masks_are_freed_with_a_recursive_grammar(vocabulary: Vocabulary) -> None:
    machine = GrammarStateMachine('root ::= "(" root ")" | [a-z]* "x" root?')
    matcher = machine.matcher(vocabulary)
    matcher.advance(vocabulary.token_bytes.index(b"("))
    matcher.allowed_tokens()
    state = ref(matcher.state)
    gc.disable()
    try:
        del machine, matcher
        assert state() is None
    finally:
        gc.enable()
