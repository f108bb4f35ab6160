"""Calls written token by token under the masks, in vocabularies with each family's markers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from call_walks import Call, calls_in, ending, longest_first
from data_files import NO_TOKENIZERS, tokenizer_files
from family_vocabularies import family_vocabulary, read_vocabulary
from judging import Judge
from object_schemas import closed_object

from state_machines import Vocabulary
from state_machines.errors import MarkerError
from state_machines.root import Piece, RootMatcher, RootStateMachine
from state_machines.tool_calls import FORMATS, CallArguments, CallStart, ToolFormat, ToolSignature

FILES = [*tokenizer_files(), *tokenizer_files("tekken_*.json")]
BY_TOKEN = {"<|eot_id|>": "llama3", "<start_of_turn>": "gemma3", "<|im_end|>": "qwen3_coder"}

TOOLS = [
    ToolSignature(
        "get",
        closed_object(
            ["city"],
            city={"type": "string", "maxLength": 12},
            days={"type": "integer", "minimum": 1, "maximum": 14},
            exact={"type": "boolean"},
        ),
    ),
    ToolSignature("get_all", {"type": "object", "additionalProperties": False}),
]


def a_written_answer(machine: RootStateMachine, vocabulary: Vocabulary, seed: int) -> list[Piece]:
    """Write an answer under the masks; return who wrote what, as it became certain."""
    random = Random(seed)
    matcher = machine.matcher(vocabulary)
    tokens = {form: i for i, form in enumerate(vocabulary.token_bytes) if form is not None}
    pieces: list[Piece] = []
    for _ in range(random.randrange(10, 60)):
        mask = matcher.allowed_tokens()
        ends = [token for token in vocabulary.end_token_ids if mask[token]]
        assert bool(ends) == matcher.is_accepting
        allowed = [token for token in np.flatnonzero(mask).tolist() if token not in ends]
        if not allowed:
            break
        matcher.advance(random.choice(allowed))
        pieces += matcher.take_pieces()
    for token in longest_first(ending(matcher.state), tokens):
        assert matcher.allowed_tokens()[token]
        matcher.advance(token)
    matcher.advance(next(iter(vocabulary.end_token_ids)))
    assert matcher.is_finished
    return joined([*pieces, *matcher.take_pieces()])


def joined(pieces: list[Piece]) -> list[Piece]:
    """Put neighbours of one part together."""
    found: list[Piece] = []
    for part, text in pieces:
        if found and found[-1].part is part:
            found[-1] = Piece(part, found[-1].text + text)
        else:
            found.append(Piece(part, text))
    return found


def assert_calls(calls: list[Call]) -> None:
    schemas = {tool.name: tool.parameters for tool in TOOLS}
    for call in calls:
        assert Judge(schemas[call.name]).admits(call.arguments), call


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_calls_generated_by_tokens_are_read(entry: ToolFormat) -> None:
    vocabulary = family_vocabulary(entry)
    entry.check(vocabulary)
    machine = RootStateMachine(entry.calls(TOOLS, 1, 2 if entry.parallel else 1), vocabulary)
    for seed in range(2):
        calls = calls_in(a_written_answer(machine, vocabulary, seed))
        assert 1 <= len(calls) <= 2
        assert_calls(calls)


@pytest.mark.parametrize("name", FORMATS)
def test_tool_is_known_before_its_arguments(name: str) -> None:
    entry = FORMATS[name]
    vocabulary = family_vocabulary(entry)
    matcher = RootStateMachine(entry.calls(TOOLS), vocabulary).matcher(vocabulary)
    told = False
    for _ in range(150):
        parts = matcher.parts
        if any(isinstance(part, CallArguments) for part in parts) and len(parts) == 1:
            break
        token = next(iter(_forced_or_first(matcher)), None)
        if token is None:  # A call without arguments is complete.
            break
        matcher.advance(token)
        told = told or any(isinstance(p.part, CallStart) for p in matcher.take_pieces())
    assert told


def _forced_or_first(matcher: RootMatcher) -> list[int]:
    allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
    return [i for i in allowed if i not in matcher.vocabulary.end_token_ids]


def test_vocabulary_without_a_marker_raises() -> None:
    with pytest.raises(MarkerError, match=r"kimi_k2.*<\|tool_call") as caught:
        FORMATS["kimi_k2"].check(family_vocabulary(FORMATS["hermes"]))
    assert caught.value.family == "kimi_k2"
    assert caught.value.marker == "<|tool_calls_section_begin|>"
    assert "Kimi K2" in str(caught.value)


def test_marker_with_an_end_token_raises() -> None:
    entry = FORMATS["gpt_oss"]
    forms = [*(bytes((byte,)) for byte in range(256)), *(name.encode() for name in entry.tokens)]
    names = {name: 256 + i for i, name in enumerate(entry.tokens)}
    vocabulary = Vocabulary(forms, end_token_ids=[names["<|end|>"]], special_tokens=names)
    with pytest.raises(MarkerError, match="ends every answer"):
        entry.check(vocabulary)


@pytest.mark.skipif(not FILES, reason=NO_TOKENIZERS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_calls_in_real_vocabularies(path: Path) -> None:
    vocabulary = read_vocabulary(path)
    names = {"hermes", *(BY_TOKEN[name] for name in BY_TOKEN if name in vocabulary.special_tokens)}
    for entry in FORMATS.values():
        if entry.tokens and _fits(entry, vocabulary):
            names.add(entry.name)
    for name in sorted(names):
        machine = RootStateMachine(FORMATS[name].calls(TOOLS, 1, 1), vocabulary)
        calls = calls_in(a_written_answer(machine, vocabulary, 0))
        assert len(calls) == 1
        assert_calls(calls)


def _fits(entry: ToolFormat, vocabulary: Vocabulary) -> bool:
    try:
        entry.check(vocabulary)
    except MarkerError:
        return False
    return True
