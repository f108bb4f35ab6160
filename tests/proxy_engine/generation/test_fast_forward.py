"""Fast-forward tokens are those that the tokenizer gives the whole text."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from data_files import NO_TOKENIZERS, tokenizer_files
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object
from tokenizers import Tokenizer

from proxy_engine import InferenceEngine
from proxy_engine.generation import FastForward
from proxy_engine.generation.fast_forward import text_encoder
from state_machines import ChoiceStateMachine, JsonSchemaStateMachine, Vocabulary
from state_machines.root import Marker, RootStateMachine, Series, Structured

FILES = tokenizer_files()

PERSON: dict[str, Any] = closed_object(
    full_name={"type": "string"},
    date_of_birth={"type": "string"},
    number_of_children={"type": "integer"},
    favourite_colour={"enum": ["red", "reddish", "green"]},
    address={
        "type": "object",
        "properties": {"street": {"type": "string"}, "zip": {"type": "string"}},
        "required": ["street", "zip"],
        "additionalProperties": False,
    },
)
PEOPLE = [
    {
        "full_name": name,
        "date_of_birth": born,
        "number_of_children": children,
        "favourite_colour": colour,
        "address": {"street": "Main St. 3", "zip": ""},
    }
    for name, born, children, colour in [
        ("Ada Lovelace", "1815-12-10", 3, "red"),
        ("Zoë Łukasz", "…", 12, "reddish"),
        ('"quoted" \\', "😀", 100, "green"),
        ("", " ", 0, "green"),
    ]
]


def check_forced(
    forced: FastForward,
    machine: JsonSchemaStateMachine,
    vocabulary: Vocabulary,
    natural: list[int],
) -> int:
    """Follow a text's own tokens; return how many of them were forced."""
    matcher = machine.matcher(vocabulary)
    count = position = 0
    while position < len(natural):
        tokens = list(forced.tokens(matcher, natural[:position]))
        assert tokens == natural[position : position + len(tokens)]
        count += len(tokens)
        for token in tokens or natural[position : position + 1]:
            matcher.advance(token)
        position += max(len(tokens), 1)
    assert matcher.is_accepting
    return count


@pytest.mark.skipif(not FILES, reason=NO_TOKENIZERS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_forced_text_has_the_tokens_of_the_whole_text(path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(path))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    forced = FastForward(
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids, vocabulary
    )
    machine = JsonSchemaStateMachine(PERSON, whitespace="spaced")
    for person in PEOPLE:
        text = json.dumps(person, ensure_ascii=False)
        lead = "\n" if vocabulary.strips_first_space else ""
        skipped = len(tokenizer.encode(lead, add_special_tokens=False).ids)
        natural = tokenizer.encode(lead + text, add_special_tokens=False).ids[skipped:]
        assert check_forced(forced, machine, vocabulary, natural) > len(natural) / 4


def test_forced_text_has_the_tokens_of_the_whole_text_with_a_tiny_tokenizer(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    vocabulary = Vocabulary.from_tokenizer(tiny_tokenizer)
    forced = FastForward(text_encoder(tiny_tokenizer, threading.Lock()), vocabulary)
    for person in PEOPLE:
        text = json.dumps(person, ensure_ascii=False)
        natural = list(tiny_tokenizer.encode(text, add_special_tokens=False))
        for layout in ("spaced", "json"):
            machine = JsonSchemaStateMachine(PERSON, whitespace=layout)
            assert check_forced(forced, machine, vocabulary, natural) > len(natural) / 4


def test_special_tokens_are_forced() -> None:
    forms: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    forms += [b"<a>", b"<b>", b"</s>"]
    vocabulary = Vocabulary(
        forms, end_token_ids=[258], special_tokens={"<a>": 256, "<b>": 257, "</s>": 258}
    )
    forced = FastForward(lambda text: list(text.encode()), vocabulary)
    letter = Structured("x", grammar=ChoiceStateMachine(["1", "2"]))
    machine = RootStateMachine(
        Series(Marker("m", "<a>hi<b>"), letter, Marker("m", "<a>")), vocabulary
    )
    matcher = machine.matcher(vocabulary)
    tokens = forced.tokens(matcher, [])
    assert tokens == (256, *b"hi", 257)
    for token in (*tokens, ord("1")):
        matcher.advance(token)
    assert forced.tokens(matcher, [*tokens, ord("1")]) == (256,)


def test_engine_counts_forced_tokens(tiny_engine: InferenceEngine) -> None:
    schema = {"const": {"name": "a constant", "values": [1, 2, 3]}}
    with_forcing = tiny_engine.generate("x", response_format=schema)
    without = tiny_engine.generate("x", response_format=schema, fast_forward=False)
    assert with_forcing.parsed == without.parsed == schema["const"]
    usage = with_forcing.usage
    assert usage.forced_tokens > 0.8 * usage.completion_tokens
    assert usage.completion_tokens == len(with_forcing.token_ids)
    # An end that must come is not sampled, either way.
    assert without.usage.forced_tokens <= 1


def test_forced_tokens_count_towards_max_tokens(tiny_engine: InferenceEngine) -> None:
    full = tiny_engine.generate("x", response_format={"const": "abcdefgh"})
    tokens = full.usage.completion_tokens
    exact = tiny_engine.generate("x", response_format={"const": "abcdefgh"}, max_tokens=tokens)
    assert exact.token_ids == full.token_ids
    # The end token does not count.
    short = tiny_engine.generate("x", response_format={"const": "abcdefgh"}, max_tokens=tokens - 1)
    assert short.parsed == "abcdefgh"
    assert short.finish_reason == "stop"


def test_fast_forward_does_not_change_the_answer(tiny_engine: InferenceEngine) -> None:
    # Greedy, and with a grammar whose choices come after much that is forced.
    schema = closed_object(
        the_first_of_the_numbers={"enum": [1, 2, 3, 4, 5, 6, 7, 8]},
        the_second_of_the_numbers={"enum": [1, 2, 3, 4, 5, 6, 7, 8]},
    )
    one = tiny_engine.generate("x", response_format=schema)
    other = tiny_engine.generate("x", response_format=schema, fast_forward=False)
    if one.token_ids == other.token_ids:
        assert one.parsed == other.parsed
    again = tiny_engine.generate("x", response_format=schema)
    assert again.token_ids == one.token_ids


def test_tokens_that_merge_with_one_of_few_characters_are_left_open(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    vocabulary = Vocabulary.from_tokenizer(tiny_tokenizer)
    forced = FastForward(text_encoder(tiny_tokenizer, threading.Lock()), vocabulary)
    ids = tiny_tokenizer.encode("x", add_special_tokens=False)
    # "a" merges with "b", and a space with a quote.
    for texts, tokens in ((["xab", "xac"], ids), (["xad", "xac"], None), (['x "', "x z"], ids)):
        matcher = ChoiceStateMachine(texts).matcher(vocabulary)
        expected = tokens or tiny_tokenizer.encode("xa", add_special_tokens=False)
        assert list(forced.tokens(matcher, [])) == expected


def test_retokenized_text_has_the_tokens_of_the_whole_text(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    vocabulary = Vocabulary.from_tokenizer(tiny_tokenizer)
    encode = text_encoder(tiny_tokenizer, threading.Lock())
    forward = FastForward(encode, vocabulary)
    before = list(encode('{"a'))
    assert list(forward.retokenize(before, b'bc", "') or ()) == []
    assert list(forward.retokenize(before, b'x", "') or ()) == list(encode('{"ax", "'))[3:]
    # A comma merges with the quote before it.
    assert list(forward.retokenize(before, b'x"', following=",") or ()) == list(encode("x"))
    special = vocabulary.special_tokens["<|end|>"]
    text = b"x" + Vocabulary.SPECIAL_MARK + b"<|end|>" + b"abc"
    assert list(forward.retokenize(before, text) or ()) == [*encode("x"), special, *encode("abc")]
    assert forward.retokenize(before, "é".encode()[:1]) is None
